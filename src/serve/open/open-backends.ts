import type { Monotonic } from '../../base/clock.ts';
import type { Breakers } from '../../engine/backends/breaker.ts';
import type { LatenessWatch } from '../../engine/backends/lateness.ts';
import type { MemoryBackend } from '../../engine/backends/memory/backend.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { Backends } from '../../engine/ledger/ledger.ts';
import type { ShareStore } from '../../engine/shares/share-store.ts';
import type { ShareTerms } from '../../engine/shares/shares.ts';
import type { ProcessContext } from '../parts/process-context.ts';

/** The dependencies of backends. */
export interface BackendContext extends ProcessContext {
  readonly monotonicMs: Monotonic;
  /** Stores with a clock of their own decide on `clock` instead. */
  readonly isOnClock?: boolean;
  readonly breakers: Breakers;
  readonly lateness: LatenessWatch;
}

/** Open backends, and their description. */
export interface OpenBackends {
  /** Undefined: counters are not in memory. */
  readonly memory?: MemoryBackend;
  readonly backends: Backends;
  /** For messages: `in Redis at redis://10.0.0.7:6379/0`. */
  readonly description: string;
  /** Stores operators' changes; undefined: the engine cannot. */
  readonly records?: Records;
  /** Opens the storage of shares, with a limit for this process's memory; undefined: the engine has none. */
  readonly openShares?: (terms: ShareTerms, maxBytes: number) => Promise<ShareStore>;
}
