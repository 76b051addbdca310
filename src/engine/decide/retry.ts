import type { Clock } from '../../base/clock.ts';
import { groupBy } from '../../base/group.ts';
import { type Decision, peekedHits } from '../algorithms/limit.ts';
import { ANONYMOUS } from '../holds/claim.ts';
import { algorithmFor, capDelay, fullCapacity, type Limit, waitForMoreMs } from '../holds/limits.ts';
import type { Debit, LedgerEntry } from '../ledger/debit.ts';
import type { Match } from '../rules/match/match.ts';
import type { RuleLimit } from '../rules/match/tree.ts';

/** The matches of a request's descriptors, the decisions in the order of its debits, and what is known besides. */
interface Refused {
  readonly matched: readonly { readonly found: Match }[];
  readonly decisions: readonly Decision[];
  /** See `RepeatedCounters`. */
  readonly repeated: RepeatedCounters | undefined;
  readonly quotaMode: boolean;
  readonly clock: Clock;
}

/**
 * Time until a refused request could pass, if it is sent again and nothing else is; `NEVER_MS` if it never can.
 *
 * Every ordinary limit must have room, including those that passed and have counted the request's hits since. Quotas
 * only refuse together, so one descriptor whose quotas all have room suffices.
 */
export function retryAfterMs({ matched, decisions, repeated, quotaMode, clock }: Refused): number {
  let ordinaryMs = 0;
  let quotasMs: number | undefined;
  let next = 0;
  for (const { found } of matched) {
    if (found.kind === 'unlimited') continue;
    let isQuota = quotaMode;
    let quotaMs = 0;
    for (const { policy, endsAtMs } of found.kind === 'limited' ? found.limits : []) {
      const roomMs = Math.max(retryWaitMs(decisions[next]), retryWaitMs(decisions[repeated?.findPeek(next) ?? next]));
      next++;
      if (policy.quota) isQuota = true;
      if (policy.shadow) continue;
      const waitMs = endsAtMs === undefined ? roomMs : Math.min(roomMs, Math.max(endsAtMs - clock(), 1));
      if (policy.quota || quotaMode) quotaMs = Math.max(quotaMs, waitMs);
      else ordinaryMs = Math.max(ordinaryMs, waitMs);
    }
    if (isQuota) quotasMs = Math.min(quotasMs ?? quotaMs, quotaMs);
  }
  return Math.max(ordinaryMs, quotasMs ?? 0);
}

function retryWaitMs(decision: Decision | undefined): number {
  if (!decision) return 0;
  return decision.code === 'OK' ? (decision.repeatAfterMs ?? 0) : decision.retryAfterMs;
}

/**
 * Peeks at counters that a request uses more than once: each of its decisions alone does not say when all its hits
 * could pass together. The peeks come after all other debits, and refuse nothing.
 */
export interface RepeatedCounters {
  readonly peeks: readonly Debit[];
  /** The index of the peek that decides in place of a debit. */
  findPeek(debit: number): number | undefined;
}

/** The peeks of a request; undefined if it uses each counter once. Requests with an id hold or reserve hits once. */
export function repeatedCounters(debits: readonly Debit[], quotaMode: boolean): RepeatedCounters | undefined {
  if (haveOwnCounters(debits)) return undefined;
  const own = [...debits.keys()].filter((at) => (debits[at]?.holder ?? ANONYMOUS) === ANONYMOUS);
  const byKey = groupBy(own, (at) => debits[at]?.key);
  const peeks: Debit[] = [];
  const places = new Map<number, number>();
  for (const group of byKey.values()) {
    if (group.length === 1) continue;
    const required = new Map<Limit, number>(); // by the hits that a limit must have room for
    let together = 0;
    for (const at of group) {
      const { kind, hits, limit, policy } = debits[at] as Debit; // in range
      if (kind === 'give_back') continue;
      together = quotaMode || policy.quota ? Math.max(together, hits) : together + hits;
      const peeked = hits === 0 ? peekedHits(algorithmFor(limit)) : 0;
      required.set(limit, Math.max(required.get(limit) ?? 0, together + peeked));
      places.set(at, debits.length + peeks.length + [...required.keys()].indexOf(limit));
    }
    const [first = 0] = group;
    for (const [limit, hits] of required) peeks.push(peekFor({ ...(debits[first] as Debit), limit }, hits));
  }
  return { peeks, findPeek: (debit) => places.get(debit) };
}

/** Whether no two debits use the same counter. */
function haveOwnCounters(debits: readonly Debit[]): boolean {
  if (debits.length <= 2) return debits[0]?.key !== debits[1]?.key;
  return new Set(debits.map(({ key }) => key)).size === debits.length;
}

/**
 * A peek for hits that are charged one after the other. With a maximum delay more of them than a bucket holds may pass;
 * those beyond it are a part of the delay.
 */
function peekFor(debit: Debit, hits: number): Debit {
  const { limit } = debit;
  const peek = { ...debit, kind: 'peek', hits, blocks: false } as const;
  const excess = hits - fullCapacity(limit);
  if (excess <= 0 || !('maxDelayMs' in limit)) return peek;
  const leftMs = limit.maxDelayMs - (waitForMoreMs(limit, excess) ?? Number.POSITIVE_INFINITY);
  return leftMs < 0 ? peek : { ...peek, limit: capDelay(limit, leftMs), hits: fullCapacity(limit) };
}

/** Cuts the decisions on these limits. @param first  the index of the first of them */
export function endInTime(decisions: LedgerEntry[], limits: readonly RuleLimit[], first: number, nowMs: number): void {
  for (const [at, { endsAtMs }] of limits.entries())
    decisions[first + at] = endingAt(decisions[first + at] as LedgerEntry, endsAtMs, nowMs); // one per limit
}

/**
 * The decision, with its promises cut to the limit's end: another limit applies then.
 *
 * @param endsAtMs  undefined if the limit does not end
 */
export function endingAt(decision: LedgerEntry, endsAtMs: number | undefined, nowMs: number): LedgerEntry {
  if (endsAtMs === undefined) return decision;
  const leftMs = Math.max(endsAtMs - nowMs, 1);
  const { durationUntilResetMs, retryAfterMs } = decision;
  return {
    ...decision,
    durationUntilResetMs: Math.min(durationUntilResetMs, leftMs),
    retryAfterMs: Math.min(retryAfterMs, leftMs),
  };
}
