import type { MissedBy } from '../../edge/rls/service.ts';
import { type Operation, StoreUnavailable } from '../../engine/backends/backend.ts';
import { inOnePiece } from '../../engine/backends/key.ts';
import type { KnownCounter } from '../../engine/decide/counter-key.ts';
import {
  type Answer,
  type Code,
  CountersUnavailable,
  type Limited,
  type OtherDecision,
  type Verdict,
} from '../../engine/decide/decide.ts';
import type { MatchedDescriptor } from '../../engine/decide/plan.ts';
import { amountUnder, hitsOf } from '../../engine/decide/priced.ts';
import { type Limit, longestState, nominalCapacity } from '../../engine/holds/limits.ts';
import { commitEvents, isCommit, type ReservationReport } from '../../engine/holds/reports.ts';
import type { LedgerEntry } from '../../engine/ledger/debit.ts';
import { cutName, NameBudget, OTHER } from './caller-names.ts';
import type { MetricRow } from './metric.ts';
import {
  addRule,
  type CountedRule,
  countedRule,
  createRuleCounts,
  noteHolds,
  noteReservations,
  type RuleCounts,
} from './rule-counts.ts';
import { type Counts, reservationRows, type Sums, storeCallBucket, sumRows, type Tallies, tallyRows } from './table.ts';

type AllRuleCounts = ReturnType<typeof createRuleCounts>;

/** The counts of one process, as sent to another. */
export interface Counted extends Counts {
  readonly rules: readonly CountedRule[];
}

/** Counts answers. Called after an answer was sent, never before. */
export interface Statistics extends Counts {
  answered(domain: string, answer: Answer): void;
  /** A request failed. */
  failed(cause: unknown): void;
  /** A gRPC call; `method` such as `ShouldRateLimit`. */
  onCallFinished(method: string): void;
  /** A gRPC connection or stream was ended with this error code, such as ENHANCE_YOUR_CALM. */
  connectionFailed(code: string): void;
  /** A call got no decision. */
  missed(by: MissedBy | 'lost', calls?: number): void;
  /** Decisions were not logged since there were too many. */
  decisionsNotLogged(decisions: number): void;
  /** Requests were recorded; others were not, since there were too many, or the files could not be written. */
  recorded(requests: number, notRecorded: number): void;
  rulesLoaded(ok: boolean): void;
  /** A call to the store that was measured. @param calls  the number of calls for which it stands */
  storeCalled(operations: readonly Operation[], elapsedMs: number, calls: number): void;
  /** Hits of reservations have lapsed, and no request has noticed it. */
  lapsed(counter: KnownCounter, hits: number): void;
  /** The use of a counter has passed a share of its limit. */
  notified(counter: KnownCounter): void;
  /** Adds the counts of another process. */
  merge(counted: Counted): void;
  /** Every rule that was hit. */
  rules(): Iterable<RuleCounts>;
  counted(): Counted;
}

/** The default for `STATISTICS_MAX_BYTES`. */
const DEFAULT_NAME_BYTES = 2 * 1024 * 1024;

/**
 * @param nearLimitRatio  fraction of a limit above which hits count as near it, 0 to 1
 * @param maxNameBytes    limit for names created by callers: half for rules, half for unknown domains
 */
export function createStatistics(nearLimitRatio: number, maxNameBytes: number = DEFAULT_NAME_BYTES): Statistics {
  const rules = createRuleCounts(maxNameBytes / 2);
  const domains = createDomainCounts(maxNameBytes / 2);
  const tallies = newTallies();
  const sums = zeros(Object.keys(sumRows)) as Sums; // it has no other keys
  const count = (domain: string, verdict: Verdict): void => {
    if (verdict.kind === 'no_domain') domains.add(domain, 1);
    if (verdict.kind === 'limited') countHolds(rules, domain, verdict);
    if (verdict.kind === 'limited' && verdict.beside) count(domain, verdict.beside);
    if (verdict.kind !== 'limited' || verdict.hits <= 0 || isCommit(verdict.decision)) return; // a commit is counted above
    add(rules.ofLimit(domain, verdict, verdict.limit), verdict, nearLimitRatio);
    countShadowed(rules, domain, verdict);
    if (verdict.decision.fromLease) sums.fromLease += hitsOf(verdict);
    if (verdict.decision.degraded) increase(tallies.degraded, verdict.decision.degraded, hitsOf(verdict));
  };
  const costs = createStoreCosts(rules);
  const domainAnswers = createDomainAnswers();
  const counts = { ...tallies, domainAnswers: domainAnswers.counts, unknownDomains: domains.counts, sums };

  return {
    answered(domain, answer) {
      tallies.answers[answer.overallCode]++;
      if (answer.verdicts[0]?.kind !== 'no_domain') domainAnswers.of(domain)[answer.overallCode]++;
      if (answer.shadowed) sums.shadowed++;
      let isDegraded = false;
      let isMatched = false;
      for (const verdict of answer.verdicts) {
        count(domain, verdict);
        if (verdict.kind === 'limited' && verdict.decision.degraded) isDegraded = true;
        if (verdict.kind !== 'no_rule' && verdict.kind !== 'no_domain') isMatched = true;
      }
      if (isDegraded) tallies.degradedAnswers[answer.overallCode]++;
      if (!isMatched) sums.unmatched++;
      if (answer.unmet) increase(tallies.withoutRequired, domain, 1);
    },
    failed(cause) {
      countFailure(tallies, cause);
      if (!(cause instanceof CountersUnavailable)) return;
      for (const one of cause.matched) countMatched(rules, cause.domain, one);
    },
    onCallFinished: (method) => increase(tallies.calls, method, 1),
    missed: (by, calls = 1) => increase(tallies.undecided, by, calls),
    decisionsNotLogged: (decisions) => increase(sums, 'decisionsNotLogged', decisions),
    lapsed: (counter, hits) => countLapsed(rules, counter, hits),
    notified: ({ domain, limit: { limit }, ...found }) => void rules.ofLimit(domain, found, limit).notified++,
    recorded: (recorded, notRecorded) => addCounts(sums, { recorded, notRecorded }),
    connectionFailed: (code) => increase(tallies.connectionErrors, code, 1),
    storeCalled(operations, elapsedMs, calls) {
      increase(tallies.storeCalls, storeCallBucket(elapsedMs), calls);
      sums.storeMs += elapsedMs * calls;
      costs.add(operations, elapsedMs, calls);
    },
    rulesLoaded: (ok) => void tallies.loads[ok ? 'success' : 'error']++,
    merge(counted) {
      for (const theirs of counted.rules)
        addRule(rules.of(theirs.domain, theirs.levels, theirs.algorithm, theirs.named), theirs);
      for (const [domain, theirs] of counted.domainAnswers) addCounts(domainAnswers.of(domain), theirs);
      for (const [domain, times] of counted.unknownDomains) domains.add(domain, times);
      for (const name of Object.keys(tallies) as (keyof Tallies)[]) addCounts(tallies[name], counted[name]); // it has no other keys
      addCounts(sums, counted.sums);
    },
    rules: rules.all,
    counted() {
      costs.flush();
      return { rules: Array.from(rules.all(), countedRule), ...counts };
    },
    ...counts,
  };
}

function countFailure({ failures, undecided }: Tallies, cause: unknown): void {
  failures[cause instanceof StoreUnavailable ? 'store' : 'service']++;
  undecided[undecidedBy(cause)]++;
}

/** The reason why a request that failed got no decision. */
export function undecidedBy(cause: unknown): 'overload' | 'store' | 'other' {
  if (cause instanceof CountersUnavailable && cause.isOverload) return 'overload';
  return cause instanceof StoreUnavailable ? 'store' : 'other';
}

function newTallies(): Tallies {
  const { unknownDomains: _, ...rows } = tallyRows;
  const tallies = Object.entries<MetricRow>(rows).map(([name, { known = [] }]) => [name, zeros(known)]);
  return Object.fromEntries(tallies) as Tallies; // each has a row
}

const zeros = (names: readonly string[]): Record<string, number> => Object.fromEntries(names.map((name) => [name, 0]));

function addCounts(ours: Record<string, number>, theirs: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(theirs)) increase(ours, name, count);
}

/** Counts the hits that limits in shadow mode, other than the limit that is shown, would have refused. */
function countShadowed(rules: AllRuleCounts, domain: string, verdict: Limited): void {
  for (const { limit, decision, hits } of verdict.shadowRefusals ?? [])
    rules.ofLimit(domain, verdict, limit).shadowMode += hitsOver(limit, decision, hits);
}

function countLapsed(rules: AllRuleCounts, { domain, limit: { limit }, ...found }: KnownCounter, lapsed: number): void {
  noteReservations(rules.ofLimit(domain, found, limit), { ...NO_RESERVATIONS, lapsed });
}

const NO_RESERVATIONS = zeros(Object.keys(reservationRows)) as Parameters<typeof noteReservations>[1]; // its keys

/** Counts the outcome of a reservation. */
function countReservation(
  counts: RuleCounts,
  { event, reserved, charged, overrun, held, lapsed }: ReservationReport,
): void {
  const isCommitted = commitEvents.has(event);
  noteReservations(counts, {
    reserved: event === 'reserved' ? reserved : 0,
    committed: isCommitted ? charged : 0,
    overrun: isCommitted ? overrun : 0,
    lapsed,
    late: event === 'late' ? 1 : 0,
    unknown: event === 'unknown' ? 1 : 0,
    repeated: event === 'repeated' ? 1 : 0,
    held,
  });
}

/** Records slots in flight, for releases as well. */
function countHolds(rules: AllRuleCounts, domain: string, verdict: Limited): void {
  noteHeld(rules, domain, verdict, verdict);
  for (const one of verdict.applied ?? []) if (one.limit !== verdict.limit) noteHeld(rules, domain, verdict, one);
}

function noteHeld(
  rules: AllRuleCounts,
  domain: string,
  verdict: Limited,
  { limit, decision: { holds, reservation } }: OtherDecision,
): void {
  if (holds) {
    const counts = rules.ofLimit(domain, verdict, limit);
    noteHolds(counts, holds);
    if (holds.adapted) counts.adapted = { ...holds.adapted, held: holds.held };
  }
  if (reservation) countReservation(rules.ofLimit(domain, verdict, limit), reservation);
}

/** Counts the hits of a request without an answer. */
function countMatched(rules: AllRuleCounts, domain: string, matched: MatchedDescriptor): void {
  const { found, outcome } = matched;
  const [first] = found.kind === 'limited' ? found.limits : [];
  if (found.kind !== 'limited' || !first || outcome === 'asks') return; // only its response counts
  rules.ofLimit(domain, found, first.limit).totalHits += Math.max(amountUnder(first.limit, matched), 0);
}

type StoreCost = Pick<RuleCounts, 'storeOperations' | 'storeMs' | 'storeBytes'>;

/** Integers in a state of constant length. */
const SHORT_STATE = 2;
const NUMBER_BYTES = 8;

/** The costs of limits, which are counted for their rules later: the first call of a rule ends before it is counted. */
function createStoreCosts(rules: AllRuleCounts) {
  const byLimit = new Map<Limit, StoreCost>();
  return {
    add(operations: readonly Operation[], elapsedMs: number, calls: number): void {
      for (const { limit, key } of operations) {
        const cost = byLimit.get(limit) ?? { storeOperations: 0, storeMs: 0, storeBytes: 0 };
        byLimit.set(limit, cost);
        cost.storeOperations += calls;
        cost.storeMs += (elapsedMs * calls) / operations.length;
        cost.storeBytes += calls * (key.length + NUMBER_BYTES * (longestState(limit) || SHORT_STATE));
      }
    },
    flush(): void {
      for (const [limit, cost] of byLimit) {
        const counts = rules.find(limit);
        if (!counts) continue;
        counts.storeOperations += cost.storeOperations;
        counts.storeMs += cost.storeMs;
        counts.storeBytes += cost.storeBytes;
      }
      byLimit.clear();
    },
  };
}

type Answers = Record<Code, number>;

/** Answers by domain, for domains with rules: their number is bounded by the rule files. */
function createDomainAnswers() {
  const counts = new Map<string, Answers>();
  return {
    counts,
    of(domain: string): Answers {
      const known = counts.get(domain);
      if (known) return known;
      const fresh = { OK: 0, OVER_LIMIT: 0 };
      counts.set(inOnePiece(domain), fresh);
      return fresh;
    },
  };
}

/** Counts of unknown domains, whose names come from callers. */
function createDomainCounts(maxNameBytes: number) {
  const counts = new Map<string, number>();
  const budget = new NameBudget(maxNameBytes);
  return {
    counts,
    add(domain: string, times: number): void {
      const [name = ''] = cutName([domain]);
      const isKnown = counts.has(name);
      if (!isKnown && name !== OTHER && budget.take([name])) return void counts.set(inOnePiece(name), times);
      const shown = isKnown ? name : OTHER;
      counts.set(shown, (counts.get(shown) ?? 0) + times);
    },
  };
}

const increase = (counts: Record<string, number>, name: string, by: number): void => {
  counts[name] = (counts[name] ?? 0) + by;
};

/**
 * Attributes a request's hits by envoyproxy/ratelimit's arithmetic: hits beyond the limit are over it, hits between the
 * near mark and the limit are near it. All hits of a request that passes are within the limit; all hits refused from
 * the local cache or by a failure policy are over it.
 */
function add(counts: RuleCounts, { limit, policy, decision, hits, code }: Limited, ratio: number): void {
  const before = decision.hitsBefore;
  const after = before + hits;
  const full = wholeCapacity(limit, decision);
  // single precision, as in envoyproxy/ratelimit
  const nearMark = Math.floor(Math.fround(Math.fround(full) * Math.fround(ratio)));
  counts.totalHits += hits;
  if (code === 'OK') counts.answeredOk++;
  else counts.answeredOver++;
  if (full > 0) counts.share.note((decision.code === 'OK' ? after : before) / full);
  if (decision.code === 'OK') {
    counts.withinLimit += hits;
    if (decision.soft) counts.softLimit += hits;
    if (after > nearMark) counts.nearLimit += before >= nearMark ? hits : after - nearMark;
    return;
  }
  const over = hitsOver(limit, decision, hits);
  counts.overLimit += over;
  if (decision.fromLocalCache) counts.overLimitWithLocalCache += hits;
  if (over < hits) counts.nearLimit += full - Math.max(nearMark, before);
  if (policy.shadow) counts.shadowMode += over;
  else counts.overLimitRefused += over;
}

/** Refused hits beyond the limit: all if the refusal has another reason, such as a share that is used up. */
function hitsOver(limit: Limit, decision: LedgerEntry, hits: number): number {
  const { fromCache, degraded, hitsBefore } = decision;
  const full = wholeCapacity(limit, decision);
  const isPartlyOver = !fromCache && !degraded && hitsBefore < full && hitsBefore + hits > full;
  return isPartlyOver ? hitsBefore + hits - full : hits;
}

/** Hits that fit into an unused counter; of a limit that adapts, as it was at the decision. */
const wholeCapacity = (limit: Limit, { holds }: LedgerEntry): number => holds?.adapted?.limit ?? nominalCapacity(limit);
