import type { Clock, Monotonic } from '../../base/clock.ts';
import type { Breakers } from '../backends/breaker.ts';
import type { watchLateness } from '../backends/lateness.ts';
import type { MemoryBackend } from '../backends/memory/backend.ts';
import type { Records } from '../backends/records.ts';
import type { UsageSource } from '../backends/usage.ts';
import type { Backends } from '../ledger/ledger-backends.ts';
import type { StoreEvent } from './options.ts';

/** The dependencies of backends. */
export interface BackendContext {
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  /** Stores with a clock of their own decide on `clock` instead. */
  readonly isOnClock?: boolean;
  readonly breakers: Breakers;
  readonly lateness: ReturnType<typeof watchLateness>;
  readonly onStoreEvent: (event: StoreEvent) => void;
}

/** Open backends, and their description. */
export interface OpenBackends {
  /** The counters, if they are in memory. */
  readonly memory?: MemoryBackend;
  readonly backends: Backends;
  /** For messages: `in Redis at redis://10.0.0.7:6379/0`. */
  readonly description: string;
  /** Stores operators' changes; undefined if the store cannot. */
  readonly records?: Records;
  /** The usage of the counters in each store; absent if none is counted. */
  readonly usage?: readonly UsageSource[] | undefined;
  /** Runs scripts of parts in the Redis of the counters. */
  readonly runScript?: RunScript;
}

/** Runs a script on one key. @throws StoreUnavailable */
export type RunScript = (text: string, key: string, args: readonly (string | number)[]) => Promise<unknown>;
