import { type Limit, longestMemoryMs } from '../algorithms/index.ts';
import type { Spend } from '../algorithms/limit.ts';
import type { Verdict } from '../decide.ts';
import { countedBy, hashOf } from '../record/sampling.ts';
import type { Entry } from '../rules/match.ts';
import type { RuleTree } from '../rules/tree.ts';
import type { CounterId, Coverage } from './coverage.ts';

/** The two verdicts on a descriptor, and what they are based on. */
export interface ComparedVerdicts {
  readonly domain: string;
  readonly entries: readonly Entry[];
  readonly live: Verdict;
  readonly candidate: Verdict;
  readonly liveRules: RuleTree | undefined;
  readonly rules: RuleTree;
  readonly spend: Spend;
  /** When both were decided. */
  readonly timeMs: number;
}

type Limited = Extract<Verdict, { kind: 'limited' }>;

/**
 * Whether the candidate's verdict is that of a candidate in force: its counter and the live one were equal at some
 * time, unused or with the same count, and neither has missed a request since. Notes the request.
 */
export function isExact(compared: ComparedVerdicts, coverage: Coverage): boolean {
  const { domain, entries, live, candidate, liveRules, rules, spend, timeMs } = compared;
  if (candidate.kind !== 'limited') return true;
  const counted = countedBy(domain, entries, rules);
  const counter = counterId(domain, counted);
  if (live.kind !== 'limited') {
    const isNew = !coverage.hasMissed(counter) || coverage.idleMs(counter, timeMs) >= memoryMs(candidate);
    coverage.note(counter, timeMs, false);
    return isNew;
  }
  const longestMs = Math.max(memoryMs(live), memoryMs(candidate));
  const isSame = haveSameEntries(counted, countedBy(domain, entries, liveRules));
  const wasEqual =
    coverage.wasExact(counter) || coverage.idleMs(counter, timeMs) >= longestMs || haveSameCount(live, candidate);
  const isEqual = isSame && wasEqual && !live.decision.degraded;
  const isOverTime =
    spend === 'each' && countsAll(live) && countsAll(candidate) && timeMs - coverage.sinceMs(counter) >= longestMs;
  coverage.note(counter, timeMs, isEqual);
  return isEqual || isOverTime;
}

export const counterId = (domain: string, counted: readonly Entry[]): CounterId => {
  const [hash, other] = [hashOf(domain, counted), hashOf(`${domain}.`, counted)];
  return { hash, id: hash * OTHER_BITS + (other % OTHER_BITS) };
};

const OTHER_BITS = 2 ** 21;

const memoryMs = ({ rule, limit }: Limited): number =>
  rule.limits.reduce((longest, one) => Math.max(longest, longestMemoryMs(one.limit)), longestMemoryMs(limit));

/** Whether the counters of a rule depend on the requests of their windows alone, and not on the answers. */
const countsAll = ({ rule }: Limited): boolean => rule.limits.every(({ limit }) => hasGivenWindows(limit));

function haveSameCount(live: Limited, candidate: Limited): boolean {
  const { hitsBefore, fromCache, fromLease } = live.decision;
  if (fromCache || fromLease || hitsBefore !== candidate.decision.hitsBefore) return false;
  if (live.rule.limits.length !== 1 || candidate.rule.limits.length !== 1) return false;
  return hasGivenWindows(live.limit) && live.limit.counter === candidate.limit.counter;
}

/** Whether the count of the current window is the whole state of a counter. */
const hasGivenWindows = (limit: Limit): boolean =>
  limit.algorithm === 'fixed_window' && limit.alignment !== 'first_hit';

const haveSameEntries = (some: readonly Entry[], others: readonly Entry[]): boolean =>
  some.length === others.length &&
  some.every(({ key, value }, at) => others[at]?.key === key && others[at].value === value);
