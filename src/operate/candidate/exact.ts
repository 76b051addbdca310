import { bucketRefillMs } from '../../engine/algorithms/bucket.ts';
import { isSameLimit, type Limit, longestMemoryMs } from '../../engine/algorithms/index.ts';
import type { Spend } from '../../engine/algorithms/limit.ts';
import type { Verdict } from '../../engine/decide/decide.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { countedBy, hashOf } from '../../lab/record/sampling.ts';
import type { CounterId, Coverage } from './coverage.ts';

/** The two verdicts on a descriptor, and what they are based on. */
interface ComparedVerdicts {
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
 * Whether the candidate's verdict is that of a candidate in force. It is if its counter and the live one were equal at
 * some time, unused or with the same count, and neither has missed a request since. It also is if its counter keeps
 * nothing from before the start or the last miss, unless the limits are the same or windows begin with a hit. What a
 * bucket or sliding window admits depends on all that it admitted before, so two of them may stay out of step forever.
 * Notes the request.
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
  coverage.note(counter, timeMs, isEqual);
  if (isEqual) return true;
  const isWarm = timeMs - coverage.sinceMs(counter) >= longestMs;
  if (!isWarm) return false;
  if (spend === 'each' && countsAll(live) && countsAll(candidate)) return true;
  return !haveSameLimits(live, candidate) && !hasFirstHit(live) && !hasFirstHit(candidate);
}

const counterId = (domain: string, counted: readonly Entry[]): CounterId => {
  const [hash, other] = [hashOf(domain, counted), hashOf(`${domain}.`, counted)];
  return { hash, id: hash * OTHER_BITS + (other % OTHER_BITS) };
};

const OTHER_BITS = 2 ** 21;

/** The longest that the counters of a verdict keep a hit. */
const memoryMs = ({ rule, limit, policy }: Limited): number =>
  rule.limits.reduce((longest, one) => Math.max(longest, memoryOf(one)), memoryOf({ limit, policy }));

function memoryOf({ limit, policy }: Pick<RuleLimit, 'limit' | 'policy'>): number {
  const isBucket = limit.algorithm === 'token_bucket' || limit.algorithm === 'leaky_bucket';
  return isBucket && !policy.charge ? bucketRefillMs(limit) : longestMemoryMs(limit);
}

const hasFirstHit = ({ rule }: Limited): boolean =>
  rule.limits.some(({ limit }) => limit.algorithm === 'fixed_window' && limit.alignment === 'first_hit');

/** Whether the counters of a rule depend on the requests of their windows alone, and not on the answers. */
const countsAll = ({ rule }: Limited): boolean => rule.limits.every(({ limit }) => hasGivenWindows(limit));

const haveSameLimits = ({ rule: { limits: some } }: Limited, { rule: { limits: others } }: Limited): boolean =>
  some.length === others.length && some.every(({ limit }, at) => isSameLimit(limit, others[at]?.limit ?? limit));

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
