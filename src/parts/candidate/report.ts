import { mergeTop, type TopList } from '../lab/sketches/space-saving.ts';
import type { Tally, TriedCandidate, TriedKeys, TriedRule } from './answers.ts';

/** The changes by the candidate for one rule. */
export interface RuleTrial extends Omit<TriedRule, 'newlyRefusedKeys' | 'newlyPassedKeys'> {
  readonly newlyRefusedKeys: ChangedKeys;
  readonly newlyPassedKeys: ChangedKeys;
}

/** The descriptors whose answers differ, the most frequent first. */
export interface ChangedKeys extends Pick<TriedKeys, 'count' | 'isAtLeast'> {
  readonly list: TopList;
}

type Figures = 'inFlight' | 'inFlightBytes' | 'dropped' | 'failed' | 'withheld' | 'evicted' | 'totals';

/** One process's results for the candidate. */
export interface TrialReport extends Pick<TriedCandidate, Figures | 'ruleCount' | 'moreRules'> {
  /** When these figures began, in milliseconds since the epoch. */
  readonly sinceMs: number;
  /** Identifies the candidate of the figures: see `hashRules`. */
  readonly hash: string;
  /** The rules with the most changes first. */
  readonly rules: readonly RuleTrial[];
}

export const noTally: Tally = { requests: 0, liveRefused: 0, candidateRefused: 0, newlyRefused: 0, newlyPassed: 0 };

/** The second object, with the sums of these numbers of both. */
const addNumbers = <T extends Readonly<Record<K, number>>, K extends string>(
  names: readonly K[],
  one: T,
  other: T,
): T => Object.assign({}, other, Object.fromEntries(names.map((name) => [name, one[name] + other[name]])));

const tallyNames = Object.keys(noTally) as readonly (keyof Tally)[]; // it has no other keys
const summedNames = ['inFlight', 'inFlightBytes', 'failed', 'withheld', 'evicted'] as const;

/** By the number of changes, then by the number of requests. */
export const byChange = (one: Tally, other: Tally): number =>
  other.newlyRefused + other.newlyPassed - (one.newlyRefused + one.newlyPassed) || other.requests - one.requests;

/** The sum of several processes' reports on the same candidate; undefined: there are none. */
export function mergeReports([first, ...others]: readonly TrialReport[]): TrialReport | undefined {
  return first && others.reduce(sumOfReports, first);
}

function sumOfReports(one: TrialReport, other: TrialReport): TrialReport {
  const rules = new Map(one.rules.map((rule) => [rule.rule, rule]));
  for (const rule of other.rules) {
    const known = rules.get(rule.rule);
    rules.set(rule.rule, known ? sumOfRules(known, rule) : rule);
  }
  return {
    ...addNumbers(summedNames, one, other),
    sinceMs: Math.max(one.sinceMs, other.sinceMs),
    ruleCount: Math.max(one.ruleCount, other.ruleCount),
    dropped: addNumbers(['behind', 'overload'], one.dropped, other.dropped),
    totals: addNumbers(tallyNames, one.totals, other.totals),
    rules: [...rules.values()].sort(byChange),
    moreRules: Math.max(one.moreRules, other.moreRules),
  };
}

const sumOfRules = (one: RuleTrial, other: RuleTrial): RuleTrial => ({
  ...addNumbers(tallyNames, one, other),
  inLive: one.inLive || other.inLive,
  inCandidate: one.inCandidate || other.inCandidate,
  newlyRefusedKeys: mergeKeys(one.newlyRefusedKeys, other.newlyRefusedKeys),
  newlyPassedKeys: mergeKeys(one.newlyPassedKeys, other.newlyPassedKeys),
});

/** Processes may have seen the same keys, so the sum of their counts is not the number of keys. */
function mergeKeys(one: ChangedKeys, other: ChangedKeys): ChangedKeys {
  const list = mergeTop([one.list, other.list]);
  const isAtLeast = one.isAtLeast || other.isAtLeast;
  return { list, count: Math.max(list.entries.length, one.count, other.count), isAtLeast };
}
