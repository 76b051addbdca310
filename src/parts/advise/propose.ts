import { present } from '../../base/group.ts';
import { count, counted, percent, share } from '../../base/texts.ts';
import { MAX_UINT32 } from '../../edge/wire/wire.ts';
import { algorithms, type RateName } from '../../engine/algorithms/index.ts';
import type { Algorithm } from '../../engine/algorithms/limit.ts';
import type { NamedAlgorithm } from '../../engine/holds/limits.ts';
import type { AdvisedLimit, Proposal } from './answers.ts';
import { collectValues, groupKeys, type KeyGroups, totalWeight } from './groups.ts';
import type { FollowedKey } from './rule-sketch.ts';
import { unseenPart } from './weighted-values.ts';

/** Options set by the operator. */
export interface AdviceOptions {
  /** Maximum fraction of non-outlier keys a proposal may affect, between 0 and 1. */
  readonly maxKeysHit: number;
  /** Formats a key for display. */
  readonly shownKey: (key: string) => string;
}

export const DEFAULT_MAX_KEYS_HIT = 0.01;

/** Multiple of its observed traffic that a key may send without being refused. */
const MARGIN = 1.5;

/** Number of windows over which the hits admitted by algorithms are compared. */
const COMPARED_WINDOWS = 10;
/** Maximum fraction of a window's admitted hits at which a bucket is proposed instead. */
const BUCKET_FRACTION = 0.5;
/** Candidate rates of buckets, as multiples of a window's limit. */
const RATE_FRACTIONS = [1, 1 / 2, 1 / 4, 1 / 8] as const;

/** A possible proposal. */
interface Candidate {
  readonly numbers: Pick<Proposal, 'algorithm' | 'requestsPerUnit' | 'burst'>;
  /** Whether the limit would have refused hits of the key. */
  readonly hits: (key: FollowedKey) => boolean;
  readonly reasons: readonly string[];
}

/**
 * Proposes the lowest limit that passes normal traffic. Outliers are left out first. Of the demand of the other keys,
 * the quantile that at most the accepted fraction of keys exceeds is taken, as an upper bound with 95 % confidence, and
 * half is added.
 *
 * @returns the proposal, and the groups of keys that it is based on
 */
export function propose(
  limit: AdvisedLimit,
  followed: readonly FollowedKey[],
  { maxKeysHit }: Pick<AdviceOptions, 'maxKeysHit'>,
): { readonly proposal: Proposal; readonly groups: KeyGroups } {
  const algorithm = windowAlgorithmFor(limit);
  const demand = ({ arrivals }: FollowedKey): number => rowOf(algorithm).demand?.(arrivals) ?? 0;
  const groups = groupKeys(followed, demand, maxKeysHit);
  const needed = atMost(groups.others, demand, maxKeysHit);
  const size = Math.max(rounded(needed * MARGIN), limit.leastLimit);
  const window: Candidate = {
    numbers: { algorithm, requestsPerUnit: size },
    hits: (key) => demand(key) > size,
    reasons: algorithm === limit.algorithm ? [] : [SLIDES],
  };
  const bucket = bucketFor(limit, groups, { size, accepted: maxKeysHit });
  const chosen = choose(limit, window, bucket);
  const shareHit = (keys: readonly FollowedKey[]): Proposal['othersHit'] => keyShare(keys.filter(chosen.hits), keys);
  return {
    groups,
    proposal: {
      ...chosen.numbers,
      othersHit: shareHit(groups.others),
      ...(groups.apart.length > 0 && { apartHit: shareHit(groups.apart) }),
      atMostShare: Math.max(maxKeysHit, unseenPart(groups.others.length)),
      reasons: [...groupReasons(groups, followed), neededReason(groups, needed, maxKeysHit), ...chosen.reasons],
    },
  };
}

/** Minimum bound that, with 95 % confidence, at most the accepted fraction of the keys exceeds. */
const atMost = (keys: readonly FollowedKey[], value: (key: FollowedKey) => number, accepted: number): number =>
  collectValues(keys, value).quantileAtMost(1 - accepted);

const SLIDES = 'a fixed window admits up to twice its limit around a boundary; sliding_window_counter does so rarely';

/** The algorithm for a limit that counts windows. */
function windowAlgorithmFor({ algorithm, keepsAlgorithm }: AdvisedLimit): NamedAlgorithm {
  const { demand, windows } = rowOf(algorithm);
  return !demand || (windows && !keepsAlgorithm) ? 'sliding_window_counter' : algorithm;
}

/** The row of an advised limit, which is on a rate. */
const rowOf = (name: NamedAlgorithm): Algorithm => algorithms[name as RateName] as Algorithm;

interface Bucket extends Candidate {
  /** Maximum hits of one key admitted in the compared windows. */
  readonly admits: number;
}

/** The bucket that admits least but passes normal traffic. @param size  limit of a window */
function bucketFor(
  { algorithm, leastLimit }: AdvisedLimit,
  { others, apart }: KeyGroups,
  { size, accepted }: { readonly size: number; readonly accepted: number },
): Bucket {
  const name = rowOf(algorithm).demand ? 'token_bucket' : algorithm;
  const bucketAt = (rate: number): Bucket => {
    // a key with 1.5 times the hits needs 1.5 times the burst, at 1.5 times the rate
    const burstNeeded = ({ arrivals }: FollowedKey): number => MARGIN * arrivals.burstAt(Math.max(rate / MARGIN, 1));
    const burst = Math.max(rounded(atMost(others, burstNeeded, accepted)), 1);
    return {
      numbers: { algorithm: name, requestsPerUnit: rate, burst },
      hits: ({ arrivals }) => arrivals.burstAt(rate) > burst,
      reasons: [],
      admits: burst + COMPARED_WINDOWS * rate,
    };
  };
  const rates = new Set(RATE_FRACTIONS.map((part) => Math.max(rounded(size * part), leastLimit)));
  const buckets = [...rates].filter((rate) => rate >= MARGIN).map(bucketAt);
  const [first, ...more] = buckets.filter(({ hits }) => apart.every(hits));
  return first ? more.reduce((best, one) => (one.admits < best.admits ? one : best), first) : bucketAt(size);
}

function choose(limit: AdvisedLimit, window: Candidate, bucket: Bucket): Candidate {
  if (!rowOf(limit.algorithm).demand) return bucket;
  const windowAdmits = COMPARED_WINDOWS * window.numbers.requestsPerUnit;
  if (limit.keepsAlgorithm || bucket.admits > BUCKET_FRACTION * windowAdmits) return window;
  const { requestsPerUnit, burst = 0 } = bucket.numbers;
  const reason = `keys come in bursts: with a burst of ${count(burst)}, ${count(requestsPerUnit)} in a window suffice, which admits ${count(bucket.admits)} in ${COMPARED_WINDOWS} windows instead of ${count(windowAdmits)}`;
  return { ...bucket, reasons: [reason] };
}

function groupReasons({ apart, shared, gap }: KeyGroups, all: readonly FollowedKey[]): readonly string[] {
  if (!gap) return ['no key stands out: none has three times as many hits in its busiest window as nearly all others'];
  const keysText = (keys: readonly FollowedKey[]): string =>
    `${counted(Math.round(totalWeight(keys)), 'key')} (${share(totalWeight(keys), totalWeight(all))})`;
  return present([
    apart.length > 0 &&
      `${keysText(apart)} stand out: each has ${count(gap.above)} or more in its busiest window, three times as many as nearly all others`,
    shared.length > 0 && `left out: ${keysText(shared)} with many clients behind one address or name`,
  ]);
}

const neededReason = ({ gap }: KeyGroups, needed: number, accepted: number): string =>
  `${percent(1 - accepted)} of ${gap ? 'the others' : 'all keys'} need at most ${count(needed)} (with 95 % confidence); the limit adds 50 % for growth`;

export const keyShare = (some: readonly FollowedKey[], all: readonly FollowedKey[]): Proposal['othersHit'] => {
  const keys = totalWeight(some);
  return { keys: Math.round(keys), share: keys / Math.max(totalWeight(all), 1) };
};

/** Rounds up to two significant digits. */
export function rounded(value: number): number {
  const step = 10 ** Math.max(Math.floor(Math.log10(Math.max(value, 1))) - 1, 0);
  return Math.min(Math.ceil(value / step - 1e-9) * step, MAX_UINT32);
}
