import { createMemoryBackend } from '../../../../src/engine/backends/memory/backend.ts';
import { backendConformance } from '../conformance.ts';

backendConformance('a memory store', (clock) => createMemoryBackend(clock, { maxCounters: 100_000 }));
