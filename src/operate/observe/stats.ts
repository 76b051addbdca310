import type { MissedBy } from '../../edge/rls/service.ts';
import { StoreUnavailable } from '../../engine/backends/backend.ts';
import { inOnePiece } from '../../engine/backends/key.ts';
import {
  type Answer,
  type Code,
  CountersUnavailable,
  type MatchedDescriptor,
  type OtherDecision,
  type Verdict,
} from '../../engine/decide/decide.ts';
import { type Limit, nominalCapacity } from '../../engine/holds/limits.ts';
import { commitEvents, isCommit, type ReservationReport } from '../../engine/holds/reports.ts';
import type { LedgerEntry } from '../../engine/ledger/debit.ts';
import { cutName, NameBudget, OTHER } from './caller-names.ts';
import {
  type CountedRule,
  createRuleCounts,
  hitCounts,
  noteHolds,
  noteReservations,
  type RuleCounts,
} from './rule-counts.ts';

type Limited = Extract<Verdict, { kind: 'limited' }>;

/** Why a request failed: the store was unavailable, or anything else. */
export type FailedBy = 'store' | 'service';

/**
 * Why a request got no decision, so that its proxy may have let it pass.
 *
 * store     the store did not answer, and no policy decided
 * overload  this process could not ask the store in time, and no policy decided
 * other     it was invalid, there were no rules, or there is a bug
 */
type UndecidedBy = 'store' | 'overload' | 'other' | MissedBy;

/** The counts of one process, as sent to another. */
export interface Counted
  extends Pick<
    Statistics,
    | 'answers'
    | 'domainAnswers'
    | 'failures'
    | 'undecided'
    | 'calls'
    | 'connectionErrors'
    | 'degraded'
    | 'unknownDomains'
    | 'sums'
  > {
  readonly rules: readonly CountedRule[];
}

/** Counters without labels. */
export interface Sums {
  /** Answers that only the service's global shadow mode turned into OK. */
  shadowed: number;
  /** Hits answered from a lease. */
  fromLease: number;
  /** Decisions that were not logged since there were too many. */
  decisionsNotLogged: number;
  /** Requests that were recorded. */
  recorded: number;
  /** Requests that were not recorded since there were too many, or the files could not be written. */
  notRecorded: number;
}

/** Counts answers. Called after an answer was sent, never before. */
export interface Statistics {
  answered(domain: string, answer: Answer): void;
  /** Answers by domain, for domains with rules. */
  readonly domainAnswers: ReadonlyMap<string, Readonly<Record<Code, number>>>;
  /** Whether a rule already has its own counts. */
  hasRule(rule: Pick<RuleCounts, 'domain' | 'rule' | 'algorithm' | 'named'>): boolean;
  /** A request failed. */
  failed(cause: unknown): void;
  /** A gRPC call; `method` such as `ShouldRateLimit`. */
  onCallFinished(method: string): void;
  /** A gRPC connection or stream was ended with this error code, such as ENHANCE_YOUR_CALM. */
  connectionFailed(code: string): void;
  /** A call got no decision. */
  missed(by: MissedBy): void;
  /** Decisions were not logged since there were too many. */
  decisionsNotLogged(decisions: number): void;
  /** Requests were recorded; others were not, since there were too many, or the files could not be written. */
  recorded(requests: number, notRecorded: number): void;
  rulesLoaded(ok: boolean): void;
  /** Adds the counts of another process. */
  merge(counted: Counted): void;
  /** Every rule that was hit. */
  rules(): Iterable<RuleCounts>;
  /** Requests by overall code. */
  readonly answers: Readonly<Record<Code, number>>;
  readonly failures: Readonly<Record<FailedBy, number>>;
  /** Requests without a decision, by reason. */
  readonly undecided: Readonly<Record<UndecidedBy, number>>;
  /** gRPC calls by method. */
  readonly calls: ReadonlyMap<string, number>;
  /** gRPC connections and streams ended, by error code. */
  readonly connectionErrors: ReadonlyMap<string, number>;
  /** Hits answered by a limit's failure policy while the store was unavailable, by policy. */
  readonly degraded: ReadonlyMap<string, number>;
  /** Loads of rules by outcome. */
  readonly loads: Readonly<Record<'success' | 'error', number>>;
  /** Descriptors of unknown domains, by domain. */
  readonly unknownDomains: ReadonlyMap<string, number>;
  readonly sums: Readonly<Sums>;
}

const NO_SUMS: Sums = {
  ...{ shadowed: 0, fromLease: 0, decisionsNotLogged: 0, recorded: 0, notRecorded: 0 },
};

/** The default for `STATISTICS_MAX_BYTES`. */
const DEFAULT_NAME_BYTES = 2 * 1024 * 1024;

/**
 * @param nearLimitRatio  fraction of a limit above which hits count as near it, 0 to 1
 * @param maxNameBytes    limit for names created by callers: half for rules, half for unknown domains
 */
export function createStatistics(nearLimitRatio: number, maxNameBytes: number = DEFAULT_NAME_BYTES): Statistics {
  const rules = createRuleCounts(maxNameBytes / 2);
  const domains = createDomainCounts(maxNameBytes / 2);
  const calls = new Map<string, number>();
  const connectionErrors = new Map<string, number>();
  const degraded = new Map<string, number>();
  const answers: Record<Code, number> = { OK: 0, OVER_LIMIT: 0 };
  const failures: Record<FailedBy, number> = { store: 0, service: 0 };
  const undecided: Record<UndecidedBy, number> = {
    ...{ store: 0, overload: 0, late: 0, cancelled: 0, in_flight: 0, other: 0 },
  };
  const loads = { success: 0, error: 0 };
  const sums = { ...NO_SUMS };

  const count = (domain: string, verdict: Verdict): void => {
    if (verdict.kind === 'no_domain') domains.add(domain, 1);
    if (verdict.kind === 'limited') countHolds(rules, domain, verdict);
    if (verdict.kind !== 'limited' || verdict.hits <= 0 || isCommit(verdict.decision)) return; // a commit is counted above
    add(rules.ofLimit(domain, verdict, verdict.limit), verdict, nearLimitRatio);
    countShadowed(rules, domain, verdict);
    if (verdict.decision.fromLease) sums.fromLease += verdict.hits;
    if (verdict.decision.degraded) increase(degraded, verdict.decision.degraded, verdict.hits);
  };
  const domainAnswers = createDomainAnswers();

  return {
    answered(domain, answer) {
      answers[answer.overallCode]++;
      if (answer.verdicts[0]?.kind !== 'no_domain') domainAnswers.of(domain)[answer.overallCode]++;
      if (answer.shadowed) sums.shadowed++;
      for (const verdict of answer.verdicts) count(domain, verdict);
    },
    failed(cause) {
      const isOfStore = cause instanceof StoreUnavailable;
      failures[isOfStore ? 'store' : 'service']++;
      const isOverload = cause instanceof CountersUnavailable && cause.isOverload;
      undecided[isOverload ? 'overload' : isOfStore ? 'store' : 'other']++;
      if (!(cause instanceof CountersUnavailable)) return;
      for (const one of cause.matched) countMatched(rules, cause.domain, one);
    },
    onCallFinished: (method) => increase(calls, method, 1),
    missed: (by) => void undecided[by]++,
    decisionsNotLogged: (decisionsNotLogged) => addSums(sums, { decisionsNotLogged }),
    recorded: (recorded, notRecorded) => addSums(sums, { recorded, notRecorded }),
    connectionFailed: (code) => increase(connectionErrors, code, 1),
    rulesLoaded: (ok) => void loads[ok ? 'success' : 'error']++,
    merge: (counted) =>
      mergeInto(
        { rules, domains, domainAnswers, answers, failures, undecided, calls, connectionErrors, degraded, sums },
        counted,
      ),
    rules: rules.all,
    hasRule: rules.has,
    answers,
    domainAnswers: domainAnswers.counts,
    failures,
    undecided,
    calls,
    connectionErrors,
    degraded,
    loads,
    unknownDomains: domains.counts,
    sums,
  };
}

/** The counts of one process, to which those of others are added. */
interface OwnCounts {
  readonly rules: ReturnType<typeof createRuleCounts>;
  readonly domains: ReturnType<typeof createDomainCounts>;
  readonly domainAnswers: ReturnType<typeof createDomainAnswers>;
  readonly answers: Record<Code, number>;
  readonly failures: Record<FailedBy, number>;
  readonly undecided: Record<UndecidedBy, number>;
  readonly calls: Map<string, number>;
  readonly connectionErrors: Map<string, number>;
  readonly degraded: Map<string, number>;
  readonly sums: Sums;
}

function mergeInto(own: OwnCounts, counted: Counted): void {
  for (const theirs of counted.rules)
    addRule(own.rules.of(theirs.domain, theirs.levels, theirs.algorithm, theirs.named), theirs);
  for (const [domain, theirs] of counted.domainAnswers) addAnswers(own.domainAnswers.of(domain), theirs);
  addAnswers(own.answers, counted.answers);
  for (const by of ['store', 'service'] as const) own.failures[by] += counted.failures[by];
  for (const by of Object.keys(own.undecided) as UndecidedBy[]) own.undecided[by] += counted.undecided[by]; // it has no other keys
  for (const [method, times] of counted.calls) increase(own.calls, method, times);
  for (const [code, times] of counted.connectionErrors) increase(own.connectionErrors, code, times);
  for (const [policy, hits] of counted.degraded) increase(own.degraded, policy, hits);
  for (const [domain, times] of counted.unknownDomains) own.domains.add(domain, times);
  addSums(own.sums, counted.sums);
}

function addSums(sums: Sums, more: Partial<Sums>): void {
  for (const name of Object.keys(more) as (keyof Sums)[]) sums[name] += more[name] ?? 0; // Sums has no other keys
}

/** The counts so far. */
export function countedBy({ rules, ...statistics }: Statistics): Counted {
  const { answers, domainAnswers, failures, undecided, calls, connectionErrors, degraded, unknownDomains, sums } =
    statistics;
  return {
    rules: Array.from(rules(), ({ rule: _, key: __, share, holds, reservations, ...counted }) => ({
      ...counted,
      highestShare: share.value,
      ...(holds && {
        holds: { expired: holds.expired, held: holds.held.value, oldestMs: holds.oldestMs.value },
      }),
      ...(reservations && { reservations: { ...reservations, held: reservations.held.value } }),
    })),
    answers,
    domainAnswers,
    failures,
    undecided,
    calls,
    connectionErrors,
    degraded,
    unknownDomains,
    sums,
  };
}

/** Counts the hits that limits in shadow mode, other than the limit that is shown, would have refused. */
function countShadowed(rules: ReturnType<typeof createRuleCounts>, domain: string, verdict: Limited): void {
  for (const { limit, decision } of verdict.shadowRefusals ?? [])
    rules.ofLimit(domain, verdict, limit).shadowMode += hitsOver(limit, decision, verdict.hits);
}

/** Counts the outcome of a reservation. */
function countReservation(counts: RuleCounts, { event, reserved, charged, overrun, held }: ReservationReport): void {
  const isCommitted = commitEvents.has(event);
  noteReservations(counts, {
    reserved: event === 'reserved' ? reserved : 0,
    committed: isCommitted ? charged : 0,
    overrun: isCommitted ? overrun : 0,
    late: event === 'late' ? 1 : 0,
    unknown: event === 'unknown' ? 1 : 0,
    repeated: event === 'repeated' ? 1 : 0,
    held,
  });
}

/** Records slots in flight, for releases as well. */
function countHolds(rules: ReturnType<typeof createRuleCounts>, domain: string, verdict: Limited): void {
  noteHeld(rules, domain, verdict, verdict);
  for (const one of verdict.applied ?? []) if (one.limit !== verdict.limit) noteHeld(rules, domain, verdict, one);
}

function noteHeld(
  rules: ReturnType<typeof createRuleCounts>,
  domain: string,
  verdict: Limited,
  { limit, decision: { holds, reservation } }: OtherDecision,
): void {
  if (holds) noteHolds(rules.ofLimit(domain, verdict, limit), holds);
  if (reservation) countReservation(rules.ofLimit(domain, verdict, limit), reservation);
}

/** Counts the hits of a request without an answer. */
function countMatched(
  rules: ReturnType<typeof createRuleCounts>,
  domain: string,
  { found, hits }: MatchedDescriptor,
): void {
  const [first] = found.kind === 'limited' ? found.limits : [];
  if (found.kind === 'limited' && first && hits > 0) rules.ofLimit(domain, found, first.limit).totalHits += hits;
}

function addRule(ours: RuleCounts, theirs: CountedRule): void {
  for (const name of hitCounts) ours[name] += theirs[name];
  if (theirs.highestShare > 0) ours.share.note(theirs.highestShare);
  if (theirs.holds) noteHolds(ours, theirs.holds);
  if (theirs.reservations) noteReservations(ours, theirs.reservations);
}

type Answers = Record<Code, number>;

function addAnswers(ours: Answers, theirs: Readonly<Answers>): void {
  ours.OK += theirs.OK;
  ours.OVER_LIMIT += theirs.OVER_LIMIT;
}

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
      if (isKnown || name === OTHER || !budget.take([name])) increase(counts, isKnown ? name : OTHER, times);
      else counts.set(inOnePiece(name), times);
    },
  };
}

const increase = (counts: Map<string, number>, name: string, by: number): void => {
  counts.set(name, (counts.get(name) ?? 0) + by);
};

/**
 * Attributes a request's hits by envoyproxy/ratelimit's arithmetic: hits beyond the limit are over it, hits between the
 * near mark and the limit are near it. All hits of a request that passes are within the limit; all hits refused from
 * the local cache or by a failure policy are over it.
 */
function add(counts: RuleCounts, { limit, policy, decision, hits, code }: Limited, ratio: number): void {
  const before = decision.hitsBefore;
  const after = before + hits;
  const full = nominalCapacity(limit);
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
  if (decision.fromCache) counts.overLimitWithLocalCache += hits;
  if (over < hits) counts.nearLimit += full - Math.max(nearMark, before);
  if (policy.shadow) counts.shadowMode += over;
  else counts.overLimitRefused += over;
}

/**
 * The number of refused hits that are beyond the limit: all of them if the refusal has another reason, such as a share
 * of the limit that is used up.
 */
function hitsOver(limit: Limit, { fromCache, degraded, hitsBefore }: LedgerEntry, hits: number): number {
  const full = nominalCapacity(limit);
  const isPartlyOver = !fromCache && !degraded && hitsBefore < full && hitsBefore + hits > full;
  return isPartlyOver ? hitsBefore + hits - full : hits;
}
