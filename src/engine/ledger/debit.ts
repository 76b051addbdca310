import type { LimitPolicy, StoreFailurePolicy } from '../algorithms/limit.ts';
import type { CounterDecision, Operation, RequestOperation, Unavailable } from '../backends/backend.ts';
import { type Counter, type CounterKey, isWide, keyBytes } from '../backends/key.ts';
import { ANONYMOUS, type Claim, type ShareClaim } from '../holds/claim.ts';
import { hasHolders, type Limit, measures, nominalCapacity } from '../holds/limits.ts';

/** An operation of a request on one counter, with the policy of its rule. */
export interface Debit extends RequestOperation {
  readonly policy: LimitPolicy;
  /** Its request has passed already. */
  readonly isPassed?: true;
}

/** The part of a rule's limit that counting needs. */
interface Counted {
  readonly limit: Limit;
  readonly policy: LimitPolicy;
}

/**
 * The operation of a request on a counter.
 *
 * @param hits     an integer, as Envoy sends it: 0 peeks, a negative number gives hits back
 * @param charges  the hits are charged, even beyond the limit
 */
export function createDebit(
  { key, shared }: Counter,
  { limit, policy }: Counted,
  hits: number,
  blocks: boolean,
  charges = false,
): Debit {
  const kind = chooseKind(hits, charges);
  const counted = kind === 'spend' ? hits : boundedHits(limit, hits);
  return { kind, key, shared, limit, hits: counted, blocks, policy };
}

/** The most that one request charges or gives back, in limits: more would have an effect for years. */
const MAX_LIMITS = 100;

/** Hits that are counted even beyond the limit: those used by a request, or given back. The sign is ignored. */
export const boundedHits = (limit: Limit, hits: number): number =>
  Math.min(Math.abs(hits), MAX_LIMITS * Math.max(nominalCapacity(limit), 1));

/** A debit with its limit, and its place in a queue. */
const DEBIT_BYTES = 336;

/** The approximate memory of a kept debit. */
export const keptBytes = ({ key }: Debit): number => DEBIT_BYTES + keyBytes(key.length, isWide(key));

/** The claim of a request that has an id. */
interface HeldClaim extends Pick<Claim, 'threshold'> {
  readonly holder: number;
  readonly commits?: boolean | undefined;
}

/** The same debit for the request that makes this claim. Unchanged if the hits of its limit have no holders. */
export function heldBy(debit: Debit, { holder, commits = false, threshold }: HeldClaim): Debit {
  if (!hasHolders(debit.limit)) return debit;
  const { kind, key, shared, limit, hits, blocks, policy } = debit;
  return { kind, key, shared, limit, hits, blocks, policy, holder, commits, threshold };
}

/** From this number of hits on, proxies state the status of a response where a rule asks for it. */
export const MIN_STATUS = 100;

/** The same debit; if the limit measures it, the hits of the request are the status of the response. */
export const withStatus = <O extends RequestOperation>(debit: O, hits: number): O =>
  hits <= -MIN_STATUS && measures(debit.limit) ? { ...debit, hits: 1, status: -hits } : debit;

/** The same debit for a child of a shared limit. */
export function sharedBy(debit: Debit, share: ShareClaim): Debit {
  const { kind, key, shared, limit, hits, blocks, policy, threshold, status } = debit;
  if (!hasHolders(limit)) return { kind, key, shared, limit, hits, blocks, policy, share };
  // requests without an id share the hold of their child
  const holder = debit.holder || (share.children.at(-1) ?? ANONYMOUS);
  return { kind, key, shared, limit, hits, blocks, policy, holder, threshold, status, slotShare: share };
}

/** The operation for a number of hits. */
function chooseKind(hits: number, charges: boolean): Debit['kind'] {
  if (hits > 0) return charges ? 'charge' : 'spend';
  return hits === 0 ? 'peek' : 'give_back';
}

/** The ledger's answer to one debit: the decision, and where it comes from. */
export interface LedgerEntry extends CounterDecision {
  /** Refused because of an earlier refusal; the counter was not used. */
  readonly fromCache?: true;
  /** The same, and the local cache is on (LOCAL_CACHE_SIZE_IN_BYTES). */
  readonly fromLocalCache?: true;
  /** Answered from a block that this process had debited before. */
  readonly fromLease?: true;
  /** The store could not count the hits: the limit's policy decided. */
  readonly degraded?: StoreFailurePolicy;
  /** Receipt for charged hits; absent if none were charged, or none was requested. @internal */
  readonly receipt?: Receipt;
}

export type Entries = readonly (LedgerEntry | Unavailable)[];

/** Where an answer comes from: the counter, a block debited before, a remembered refusal, or the limit's policy. */
type Source = 'backend' | 'lease' | 'refusal' | 'allow' | 'deny' | 'local';

export function answerSource({ fromCache, fromLease, degraded }: LedgerEntry): Source {
  if (degraded) return degraded;
  if (fromLease) return 'lease';
  return fromCache ? 'refusal' : 'backend';
}

/** What this process keeps for counters besides those that the backends store. */
export interface KeptForCounters {
  /** Drops what was kept for a counter that was reset. */
  drop(key: CounterKey): void;
}

/** Proves that hits were charged. It can be redeemed once. */
export class Receipt {
  /** The operation that takes the hits back. */
  readonly refund: Extract<Operation, { kind: 'refund' }>;
  readonly policy: LimitPolicy;
  /** Whether the hits were charged to this process's share of the limit while the backend was away. */
  readonly isLocal: boolean;
  #isSpent = false;

  constructor(debit: Debit, chargedAtMs: number, isLocal: boolean) {
    const { policy, ...operation } = debit;
    this.refund = { ...operation, kind: 'refund', blocks: false, chargedAtMs };
    this.policy = policy;
    this.isLocal = isLocal;
  }

  /** Redeems the receipt once. @returns whether it had not been redeemed before */
  redeem(): boolean {
    const isFirst = !this.#isSpent;
    this.#isSpent = true;
    return isFirst;
  }
}
