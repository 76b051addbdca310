import {
  type Algorithm,
  type AnyLimit,
  type Charge,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  repeatWait,
  type State,
  type Step,
  takenBy,
} from './limit.ts';
import { showCount } from './money.ts';
import { listAnchor, type MayBeAnchored, readPhase, sliding, windowSize, windowStart, writeAnchor } from './window.ts';

/** Bounds of the number of parts of a window. */
export const parts = { minimum: 1, maximum: 100 } as const;

export interface SlidingWindowBucketsLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'sliding_window_buckets';
  /** The number of equal parts, 1 to 100; it divides `windowMs`. */
  readonly buckets: number;
}

/**
 * Sliding window in equal parts: hits are counted by part. The sum covers the current part and, before it, as many
 * whole parts as make up a window. Twin of sliding-window-buckets.lua.
 * State: start of the current part (ms since the epoch), then the parts' counts, newest first, without the zeros at the
 * end. Report: hits before and after the step, when the last of them leaves the window, when the requested hits fit.
 *
 * Never above the limit in any window; up to one part's length stricter than an exact one. Refused hits are not
 * counted.
 *
 * @param nowMs   may run backwards (clock skew); the later part remains current
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, the newest first
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
function step(
  limit: SlidingWindowBucketsLimit,
  state: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const [startMs, counts] = shift(limit, state, nowMs);
  const before = sum(counts);
  const accepted = hits < 0 || before + hitsToFit(hits) <= windowSize(limit);
  const isCounted = charge === 'regardless' || (accepted && charge);
  if (isCounted && hits > 0) counts[0] = (counts[0] ?? 0) + Math.min(hits, MAX_COUNT - before);
  if (charge && hits < 0) giveBack(counts, -hits);
  return finishStep(limit, startMs, counts, nowMs, before, accepted, hits);
}

function finishStep(
  limit: SlidingWindowBucketsLimit,
  startMs: number,
  counts: number[],
  nowMs: number,
  before: number,
  accepted: boolean,
  hits: number,
): Step {
  while (counts.at(-1) === 0) counts.pop();
  const emptyMs = emptyAtMs(limit, startMs, counts);
  const report = [before, sum(counts), emptyMs, fitsAtMs(limit, startMs, counts, hitsToFit(hits))];
  return { accepted, state: [startMs, ...counts], ttlMs: emptyMs - nowMs, report };
}

/** Moves the counts to the part that contains `nowMs`; drops parts that have left the window. */
function shift(limit: SlidingWindowBucketsLimit, state: State | undefined, nowMs: number): [number, number[]] {
  const partMs = partLengthMs(limit);
  const startMs = windowStart(nowMs, partMs, limit.phaseMs);
  if (!state) return [startMs, []];
  const [knownStartMs = 0, ...counts] = state;
  if (knownStartMs >= startMs) return [knownStartMs, counts];
  const parts = Math.min((startMs - knownStartMs) / partMs, limit.buckets + 1);
  return [startMs, [...new Array<number>(parts).fill(0), ...counts].slice(0, limit.buckets + 1)];
}

function giveBack(counts: number[], hits: number): void {
  let left = hits;
  for (const [age, count] of counts.entries()) {
    const given = Math.min(count, left);
    counts[age] = count - given;
    left -= given;
  }
}

/** When the last hit leaves the window; the start itself if there are none. */
function emptyAtMs(limit: SlidingWindowBucketsLimit, startMs: number, counts: readonly number[]): number {
  const newest = counts.findIndex((count) => count > 0);
  return newest < 0 ? startMs : leavesAtMs(limit, startMs, newest);
}

/** When the hits of a part that is `age` parts old leave the window. */
const leavesAtMs = (limit: SlidingWindowBucketsLimit, startMs: number, age: number): number =>
  startMs + (limit.buckets + 1 - age) * partLengthMs(limit);

/**
 * Time at which enough of the oldest hits will have left the window for these hits to fit; 0 if they fit now, or never.
 */
function fitsAtMs(limit: SlidingWindowBucketsLimit, startMs: number, counts: readonly number[], hits: number): number {
  let excess = sum(counts) + hits - windowSize(limit);
  for (let age = counts.length - 1; age >= 0 && excess > 0; age--) {
    excess -= counts[age] ?? 0;
    if (excess <= 0) return leavesAtMs(limit, startMs, age);
  }
  return 0;
}

const partLengthMs = ({ windowMs, buckets }: SlidingWindowBucketsLimit): number => windowMs / buckets;
const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

/** Maximum number of parts that are shown as the terms of a sum. */
const MAX_TERMS = 6;

/** The sliding window in parts: its row in the table of algorithms. */
export const slidingWindowBuckets: Algorithm<SlidingWindowBucketsLimit> = {
  ...sliding,
  keys: ['buckets', 'alignment'],
  parse(numbers, source) {
    const { buckets } = source.values;
    const { windowMs, counter } = numbers;
    const { minimum, maximum } = parts;
    if (buckets === undefined || buckets < minimum || buckets > maximum || windowMs % buckets !== 0) {
      return source.report(
        'buckets',
        `buckets must be ${minimum} to ${maximum} and divide the window of ${windowMs} ms, got ${buckets ?? 'nothing'}`,
      );
    }
    const phase = readPhase({ counter: `${counter}/${buckets}` }, source);
    return phase && { ...numbers, ...phase, algorithm: 'sliding_window_buckets', buckets };
  },
  write: (limit) => [`buckets: ${limit.buckets}`, ...writeAnchor(limit)],
  list: (limit) => ({ buckets: limit.buckets, ...listAnchor(limit) }),
  step,
  describe(limit, [hitsBefore = 0, used = 0, emptyMs = 0, fitsMs = 0], nowMs, outcome) {
    const { accepted } = outcome;
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore,
      limitRemaining: Math.max(limit.requestsPerUnit - used, 0),
      durationUntilResetMs: Math.max(emptyMs - nowMs, 0),
      retryAfterMs: accepted ? 0 : fitsMs > 0 ? fitsMs - nowMs : NEVER_MS,
      repeatAfterMs: repeatWait(outcome, fitsMs - nowMs),
      delayMs: 0,
      soft: accepted && takenBy(outcome) > 0 && used > limit.requestsPerUnit,
    };
  },
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const [startMs, counts] = shift(limit, state, nowMs);
    const before = sum(counts);
    const partMs = partLengthMs(limit);
    const age = Math.max((startMs - windowStart(chargedAtMs, partMs, limit.phaseMs)) / partMs, 0);
    const count = counts[age];
    if (count !== undefined) counts[age] = Math.max(count - hits, 0);
    return finishStep(limit, startMs, counts, nowMs, before, true, 0);
  },
  account(limit, state, nowMs) {
    const [, counts] = shift(limit, state, nowMs);
    const used = sum(counts);
    const some = counts.filter((count) => count > 0);
    const terms = some.length > 0 && some.length <= MAX_TERMS ? some : [used];
    return { terms: terms.map((count) => showCount(limit, count)), used };
  },
  draw(limit, state, nowMs) {
    const [, counts] = shift(limit, state, nowMs);
    return { kind: 'parts', parts: Array.from({ length: limit.buckets + 1 }, (_, at) => counts[at] ?? 0).reverse() };
  },
  demand: (key) => key.mostWithin(1),
  state: { longest: ({ buckets }) => 2 + buckets },
  script: new URL('./sliding-window-buckets.lua', import.meta.url),
  scriptArgs(limit) {
    const { buckets, phaseMs = 0 } = limit;
    const numbers = [windowSize(limit), partLengthMs(limit), buckets];
    return phaseMs === 0 ? numbers : [...numbers, phaseMs];
  },
};
