import type { Decision, LimitPolicy } from '../algorithms/limit.ts';
import type { Operation, Unavailable } from '../backends/backend.ts';
import type { Debit } from './debit.ts';

/**
 * What the ledger says of one debit: the decision, and where receipts were asked for and the hits were charged, the
 * receipt.
 */
export type LedgerEntry = Decision & { readonly receipt?: Receipt };

export type Entries = readonly (LedgerEntry | Unavailable)[];

/**
 * Where a debit was answered: by the counter, from a block that was debited before, from a remembered refusal, or by
 * the limit's policy.
 */
export type Source = 'backend' | 'lease' | 'refusal' | 'allow' | 'deny' | 'local';

export function sourceOf({ fromCache, fromLease, degraded }: Decision): Source {
  if (degraded) return degraded;
  if (fromLease) return 'lease';
  return fromCache ? 'refusal' : 'backend';
}

/** Proves that hits were charged, and can be refunded once. */
export class Receipt {
  /** What takes the hits back. */
  readonly refund: Extract<Operation, { kind: 'refund' }>;
  readonly policy: LimitPolicy;
  /** Whether the hits were charged to this process's share of the limit, while the counters were away. */
  readonly isLocal: boolean;
  #isSpent = false;

  constructor(
    debit: Pick<Debit, 'key' | 'shared' | 'limit' | 'hits' | 'policy'>,
    chargedAtMs: number,
    isLocal: boolean,
  ) {
    const { key, shared, limit, hits } = debit;
    this.refund = { kind: 'refund', key, shared, limit, hits, blocks: false, chargedAtMs };
    this.policy = debit.policy;
    this.isLocal = isLocal;
  }

  /** Whether it had not been redeemed before. */
  redeem(): boolean {
    const isFirst = !this.#isSpent;
    this.#isSpent = true;
    return isFirst;
  }
}
