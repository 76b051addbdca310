import type { Records } from '../admin/records.ts';
import type { Breakers } from '../backends/breaker.ts';
import type { MemoryBackend } from '../backends/memory/backend.ts';
import type { Clock, Monotonic } from '../clock.ts';
import type { Backends } from '../ledger/ledger.ts';
import type { Logger } from '../observe/log.ts';
import type { Settings } from '../settings.ts';
import type { LatenessWatch } from './lateness.ts';

/** Dependencies of backends. */
export interface BackendParts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  readonly breakers: Breakers;
  readonly lateness: LatenessWatch;
  readonly log: Logger;
}

/** Open backends, and their description. */
export interface OpenBackends {
  /** Undefined: counters are not in memory. */
  readonly memory?: MemoryBackend;
  readonly backends: Backends;
  readonly description: string;
  /** Where operators' changes are kept; undefined: the engine keeps none. */
  readonly records?: Records;
}
