import type { Monotonic } from '../clock.ts';
import type { Backends } from '../ledger/ledger.ts';
import type { ProcessContext } from '../process-context.ts';
import type { ShareStore } from '../shares/share-store.ts';
import type { ShareTerms } from '../shares/shares.ts';
import type { Breakers } from './breaker.ts';
import type { LatenessWatch } from './lateness.ts';
import type { MemoryBackend } from './memory/backend.ts';
import type { Records } from './records.ts';

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
