import type { Decision, LimitPolicy } from '../algorithms/limit.ts';
import type { Operation, Unavailable } from '../backends/backend.ts';
import type { Debit } from './debit.ts';

/**
 * The ledger's answer to one debit: the decision and, if receipts were requested and the hits were charged, the
 * receipt.
 */
export type LedgerEntry = Decision & { readonly receipt?: Receipt };

export type Entries = readonly (LedgerEntry | Unavailable)[];

/**
 * The source of a debit's answer: the counter, a block that was debited before, a remembered refusal, or the limit's
 * policy.
 */
type Source = 'backend' | 'lease' | 'refusal' | 'allow' | 'deny' | 'local';

export function sourceOf({ fromCache, fromLease, degraded }: Decision): Source {
  if (degraded) return degraded;
  if (fromLease) return 'lease';
  return fromCache ? 'refusal' : 'backend';
}

/** Proves that hits were charged. It can be redeemed once. */
export class Receipt {
  /** The operation that takes the hits back. */
  readonly refund: Extract<Operation, { kind: 'refund' }>;
  readonly policy: LimitPolicy;
  /** Whether the hits were charged to this process's share of the limit while the backend was away. */
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

  /** Returns whether it had not been redeemed before. */
  redeem(): boolean {
    const isFirst = !this.#isSpent;
    this.#isSpent = true;
    return isFirst;
  }
}
