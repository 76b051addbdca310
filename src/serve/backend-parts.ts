import type { Records } from '../admin/records.ts';
import type { Breakers } from '../backends/breaker.ts';
import type { LatenessWatch } from '../backends/lateness.ts';
import type { MemoryBackend } from '../backends/memory/backend.ts';
import type { Monotonic } from '../clock.ts';
import type { Backends } from '../ledger/ledger.ts';
import type { ShareStore } from '../shares/share-store.ts';
import type { ShareTerms } from '../shares/shares.ts';
import type { ProcessContext } from './context.ts';

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
  readonly description: string;
  /** Where operators' changes are kept; undefined: the engine keeps none. */
  readonly records?: Records;
  /** Opens where shares are kept, with so much memory of this process at most; undefined: the engine keeps none. */
  readonly openShares?: (terms: ShareTerms, maxBytes: number) => Promise<ShareStore>;
}
