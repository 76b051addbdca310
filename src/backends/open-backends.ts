import type { Monotonic } from '../clock.ts';
import type { Backends } from '../ledger/ledger.ts';
import type { ProcessContext } from '../process-context.ts';
import type { ShareStore } from '../shares/share-store.ts';
import type { ShareTerms } from '../shares/shares.ts';
import type { Breakers } from './breaker.ts';
import type { LatenessWatch } from './lateness.ts';
import type { MemoryBackend } from './memory/backend.ts';
import type { Records } from './records.ts';

/** What backends use. */
export interface BackendContext extends ProcessContext {
  readonly monotonicMs: Monotonic;
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
  /** Where operators' changes are kept; undefined: the engine keeps none. */
  readonly records?: Records;
  /** Opens where shares are kept, with so much memory of this process at most; undefined: the engine keeps none. */
  readonly openShares?: (terms: ShareTerms, maxBytes: number) => Promise<ShareStore>;
}
