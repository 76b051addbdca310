import { mergeTop, type TopList } from '../admin/space-saving.ts';

/** How often two answers said what, of the requests of one rule or of all. */
export interface Tally {
  readonly requests: number;
  readonly liveRefused: number;
  readonly candidateRefused: number;
  /** Passed by the live rules, refused by the candidate. */
  readonly newlyRefused: number;
  /** Refused by the live rules, passed by the candidate. */
  readonly newlyPassed: number;
}

/** What the candidate changes for one rule. */
export interface RuleTrial extends Tally {
  /** The path of the candidate's rule; where it has none for the descriptor, of the live one. */
  readonly rule: string;
  /** Whether the live rules, and the candidate, have answered by a rule of this path. */
  readonly inLive: boolean;
  readonly inCandidate: boolean;
  readonly newlyRefusedKeys: ChangedKeys;
  readonly newlyPassedKeys: ChangedKeys;
}

/** The descriptors that are answered otherwise, the most frequent first. */
export interface ChangedKeys {
  readonly list: TopList;
  /** How many there are; at least as many where the table is full. */
  readonly count: number;
  readonly isAtLeast: boolean;
}

/** What one process has found out about the candidate. */
export interface TrialReport {
  /** Milliseconds since the epoch: when these figures began. */
  readonly sinceMs: number;
  /** Rules of the candidate that is tried. */
  readonly ruleCount: number;
  /** The figures are of this candidate: see `hashOf`. */
  readonly hash: string;
  /** Requests that wait, or are being decided, and about what they take. */
  readonly inFlight: number;
  readonly inFlightBytes: number;
  /** Requests that were not tried: too many were in flight, or this process was late. */
  readonly dropped: { readonly behind: number; readonly overload: number };
  /** Requests whose counters gave no answer in time. */
  readonly failed: number;
  /** Counters in memory that were forgotten before they expired, to make room. */
  readonly evicted: number;
  readonly totals: Tally;
  /** Those with the most changes first. */
  readonly rules: readonly RuleTrial[];
  /** Rules that are not in `rules`. */
  readonly moreRules: number;
}

export const noTally: Tally = { requests: 0, liveRefused: 0, candidateRefused: 0, newlyRefused: 0, newlyPassed: 0 };

export const sumOfTallies = (one: Tally, other: Tally): Tally => ({
  requests: one.requests + other.requests,
  liveRefused: one.liveRefused + other.liveRefused,
  candidateRefused: one.candidateRefused + other.candidateRefused,
  newlyRefused: one.newlyRefused + other.newlyRefused,
  newlyPassed: one.newlyPassed + other.newlyPassed,
});

/** By what changes, then by how much there is of it. */
export const byChange = (one: Tally, other: Tally): number =>
  other.newlyRefused + other.newlyPassed - (one.newlyRefused + one.newlyPassed) || other.requests - one.requests;

/** The reports of several processes on the same candidate; undefined where there is none. */
export function mergeReports(reports: readonly TrialReport[]): TrialReport | undefined {
  const [first, ...others] = reports;
  if (!first || others.length === 0) return first;
  return others.reduce(sumOfReports, first);
}

function sumOfReports(one: TrialReport, other: TrialReport): TrialReport {
  const rules = new Map(one.rules.map((rule) => [rule.rule, rule]));
  for (const rule of other.rules) {
    const known = rules.get(rule.rule);
    rules.set(rule.rule, known ? sumOfRules(known, rule) : rule);
  }
  return {
    sinceMs: Math.max(one.sinceMs, other.sinceMs),
    ruleCount: Math.max(one.ruleCount, other.ruleCount),
    hash: one.hash,
    inFlight: one.inFlight + other.inFlight,
    inFlightBytes: one.inFlightBytes + other.inFlightBytes,
    dropped: {
      behind: one.dropped.behind + other.dropped.behind,
      overload: one.dropped.overload + other.dropped.overload,
    },
    failed: one.failed + other.failed,
    evicted: one.evicted + other.evicted,
    totals: sumOfTallies(one.totals, other.totals),
    rules: [...rules.values()].sort(byChange),
    moreRules: Math.max(one.moreRules, other.moreRules),
  };
}

const sumOfRules = (one: RuleTrial, other: RuleTrial): RuleTrial => ({
  ...sumOfTallies(one, other),
  rule: one.rule,
  inLive: one.inLive || other.inLive,
  inCandidate: one.inCandidate || other.inCandidate,
  newlyRefusedKeys: mergeKeys(one.newlyRefusedKeys, other.newlyRefusedKeys),
  newlyPassedKeys: mergeKeys(one.newlyPassedKeys, other.newlyPassedKeys),
});

/** Processes may have seen the same keys: the sum of their numbers is no number of keys. */
function mergeKeys(one: ChangedKeys, other: ChangedKeys): ChangedKeys {
  const list = mergeTop([one.list, other.list]);
  const isAtLeast = one.isAtLeast || other.isAtLeast;
  return { list, count: Math.max(list.entries.length, one.count, other.count), isAtLeast };
}
