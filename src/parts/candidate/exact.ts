import type { WireRequest } from '../../edge/wire/wire.ts';
import type { Spend } from '../../engine/algorithms/limit.ts';
import type { Answer, Decider, Limited, Verdict } from '../../engine/decide/decide.ts';
import { algorithmFor, isSameLimit, type Limit } from '../../engine/holds/limits.ts';
import { type Entry, match } from '../../engine/rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { hashCounter, sampledPositions } from '../lab/record/sampling.ts';

/** What the two verdicts on a descriptor are based on. */
interface Decided {
  readonly domain: string;
  readonly spend: Spend;
  /** When both were decided. */
  readonly timeMs: number;
}

/**
 * Whether the candidate's verdict is that of a candidate in force. It is if its counter and the live one were equal at
 * some time, unused or with the same count, and neither has missed a request since. It also is if its counter keeps
 * nothing from before the start or the last miss, unless the limits are the same or windows begin with a hit. What a
 * bucket or sliding window admits depends on all that it admitted before, so two of them may stay out of step forever.
 * Notes the request.
 */
export function isExact(
  [live, candidate]: readonly [live: Verdict, candidate: Verdict],
  { domain, spend, timeMs }: Decided,
  coverage: Coverage,
): boolean {
  if (candidate.kind !== 'limited') return true;
  const counter = counterId(domain, candidate);
  if (live.kind !== 'limited') {
    const isNew = !coverage.hasMissed(counter) || coverage.idleMs(counter, timeMs) >= memoryMs(candidate);
    coverage.note(counter, timeMs, false);
    return isNew;
  }
  const longestMs = Math.max(memoryMs(live), memoryMs(candidate));
  const isSame = haveSameEntries(candidate.found.entries, live.found.entries);
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

/** An override has a counter of its own beside that of the rule, under the same entries. */
const counterId = (domain: string, { found, limit }: Limited): CounterId => {
  const own = found.overridden ? limit.counter : '';
  const [hash, other] = [hashCounter(domain, found.entries), hashCounter(`${domain}.${own}`, found.entries)];
  return { hash, id: hash * OTHER_BITS + (other % OTHER_BITS) };
};

const OTHER_BITS = 2 ** 21;

/** The longest that the counters of a verdict keep a hit. */
const memoryMs = ({ rule, limit, policy }: Limited): number =>
  rule.limits.reduce((longest, one) => Math.max(longest, counterMemoryMs(one)), counterMemoryMs({ limit, policy }));

function counterMemoryMs({ limit, policy }: Pick<RuleLimit, 'limit' | 'policy'>): number {
  const { refillMs, longestMemoryMs } = algorithmFor(limit);
  return refillMs && !policy.charge ? refillMs(limit) : longestMemoryMs(limit);
}

const hasFirstHit = ({ rule }: Limited): boolean => rule.limits.some(({ limit }) => windowsOf(limit) === 'first_hit');

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
const hasGivenWindows = (limit: Limit): boolean => ![undefined, 'first_hit'].includes(windowsOf(limit));
const windowsOf = (limit: Limit) => algorithmFor(limit).windows?.(limit);

const haveSameEntries = (some: readonly Entry[], others: readonly Entry[]): boolean =>
  some.length === others.length &&
  some.every(({ key, value }, at) => others[at]?.key === key && others[at].value === value);

/**
 * The descriptors of a request whose counters are sampled, by index, which are included in the figures, and whether they
 * are decided without the others. Undefined: none is tried.
 *
 * @param sample  below 1
 */
export function triedPlaces(
  wire: WireRequest,
  live: Answer,
  rules: RuleTree,
  { sample, decider }: { readonly sample: number; readonly decider: Pick<Decider, 'spend' | 'quotaMode'> },
) {
  const sampled = sampledPositions(wire, rules, sample);
  if (sampled.length === 0) return undefined;
  if (sampled.length === wire.descriptors.length) return { sampled, areAlone: true };
  return { sampled, areAlone: areIndependent(wire, live, rules, decider) };
}

/** Whether the decision on each descriptor is independent of the others. */
export function areIndependent(
  request: AnyRequest,
  live: Answer,
  rules: RuleTree,
  decider: Pick<Decider, 'spend' | 'quotaMode'>,
): boolean {
  const { spend = decider.spend, requirements } = rules.domains.get(request.domain) ?? {};
  if (requirements || live.unmet) return false;
  return spend === 'each' && !decider.quotaMode && !liveRules(live).some(hasQuota) && !hasTies(request, rules);
}

/** A request as it was sent, or decoded. */
export interface AnyRequest {
  readonly domain: string;
  readonly descriptors: readonly { readonly entries: readonly Entry[] }[];
}

/** Whether the decision on one descriptor depends on the rules that others match. */
const hasTies = ({ domain, descriptors }: AnyRequest, rules: RuleTree): boolean =>
  descriptors.some(({ entries }) => {
    const found = match(rules, domain, { entries, requestLimit: undefined });
    return 'rule' in found && (found.rule.replaces.length > 0 || hasQuota(found.rule));
  });

const hasQuota = ({ limits }: Rule): boolean => limits.some(({ policy }) => policy.quota);

const liveRules = ({ verdicts }: Answer): readonly Rule[] =>
  verdicts.flatMap((verdict) => (verdict.kind === 'limited' ? verdict.rule : []));

/** Misses are noted by slices of counters, and the rest for the counters used last, to bound the memory. */
const SLICES = 4_096;
const MAX_COUNTERS = 20_000;
const TWO_TO_32 = 2 ** 32;
/** How long the share of counters stays as it is after it was lowered, and before it is raised. */
const LOWERED_FOR_MS = 1_000;
const RAISED_AFTER_MS = 10_000;
/** Below this share none is tried. */
const MIN_SHARE = 1 / 64;

/** Identifies a counter. */
interface CounterId {
  /** 32 bits; see `CANDIDATE_SAMPLE`. */
  readonly hash: number;
  /** 53 bits. */
  readonly id: number;
}

/**
 * The counters whose requests are tried, and those whose states have been what they would be if the candidate had been
 * in force. While not all requests can be tried, whole counters are left out, by the same hash as `CANDIDATE_SAMPLE`.
 */
export class Coverage {
  readonly #maxShare: number;
  #share: number;
  #changedAtMs = Number.NEGATIVE_INFINITY;
  #begunAtMs = 0;
  /** When a request was missed last, per slice. */
  readonly #missedAtMs = new Float64Array(SLICES);
  /** The last request of counters by id, the least recently used first. */
  readonly #last = new Map<number, { readonly atMs: number; readonly hash: number; readonly isExact: boolean }>();

  /** @param maxShare  the share of all counters that may be tried: above 0 and up to 1 */
  constructor(maxShare: number, nowMs: number) {
    this.#maxShare = maxShare;
    this.#share = maxShare;
    this.begin(nowMs);
  }

  /** The share of counters that are tried now. */
  get share(): number {
    return this.#share;
  }

  /** One of the rule trees has changed: counters may be in use. */
  begin(nowMs: number): void {
    this.#begunAtMs = nowMs;
    this.#missedAtMs.fill(Number.NEGATIVE_INFINITY);
    this.#last.clear();
  }

  /** Tries half as many counters. */
  lower(nowMs: number): void {
    if (nowMs - this.#changedAtMs < LOWERED_FOR_MS) return;
    this.#share = this.#share > MIN_SHARE ? this.#share / 2 : 0;
    this.#changedAtMs = nowMs;
  }

  /** Tries twice as many counters if it was not lowered for some time. */
  raise(nowMs: number): void {
    if (this.#share === this.#maxShare || nowMs - this.#changedAtMs < RAISED_AFTER_MS) return;
    this.#share = Math.min(Math.max(this.#share * 2, MIN_SHARE), this.#maxShare);
    this.#changedAtMs = nowMs;
  }

  /** A request of a counter was not tried, or not counted by both sides. */
  miss(hash: number, nowMs: number): void {
    const slice = sliceNumber(hash);
    this.#missedAtMs[slice] = Math.max(this.#missedAt(slice), nowMs);
  }

  hasMissed({ hash }: CounterId): boolean {
    return this.#missedAt(sliceNumber(hash)) > Number.NEGATIVE_INFINITY;
  }

  /** Since when each request of a counter was tried. */
  sinceMs({ hash }: CounterId): number {
    return Math.max(this.#begunAtMs, this.#missedAt(sliceNumber(hash)));
  }

  /** Whether a counter was exact at its last request, and has missed none since. */
  wasExact({ hash, id }: CounterId): boolean {
    const last = this.#last.get(id);
    return last?.isExact === true && last.atMs > this.#missedAt(sliceNumber(hash));
  }

  /** The time for which a counter has had no request. */
  idleMs(counter: CounterId, nowMs: number): number {
    return nowMs - Math.max(this.sinceMs(counter), this.#last.get(counter.id)?.atMs ?? Number.NEGATIVE_INFINITY);
  }

  /** Notes a request of a counter. */
  note({ hash, id }: CounterId, atMs: number, isExact: boolean): void {
    this.#last.delete(id);
    this.#last.set(id, { atMs, hash, isExact });
    if (this.#last.size <= MAX_COUNTERS) return;
    for (const [oldest, { hash: forgotten, atMs: lastMs }] of this.#last) {
      this.#last.delete(oldest);
      return this.miss(forgotten, lastMs);
    }
  }

  #missedAt(slice: number): number {
    return this.#missedAtMs[slice] ?? Number.NEGATIVE_INFINITY;
  }
}

const sliceNumber = (hash: number): number => Math.floor((hash / TWO_TO_32) * SLICES);
