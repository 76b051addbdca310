import { compiled } from '../lua/compiled.ts';
import { type Algorithm, type AnyLimit, type Charge, hitsToFit, MAX_COUNT, type State, type Step } from './limit.ts';
import { showCount } from './money.ts';
import { type Opened, steppedOpen } from './stepped.ts';
import {
  describeHits,
  listAnchor,
  type MayBeAnchored,
  readPhase,
  sliding,
  windowSize,
  windowStart,
  writeAnchor,
} from './window.ts';

/** Bounds of the number of parts of a window. */
export const parts = { minimum: 1, maximum: 100 } as const;

export interface SlidingWindowBucketsLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'sliding_window_buckets';
  /** The number of equal parts, 1 to 100; it divides `windowMs`. */
  readonly buckets: number;
}

interface PartsNumbers {
  /** Hits that fit, including the soft ones. */
  readonly capacity: number;
  readonly partMs: number;
  readonly buckets: number;
  readonly phaseMs: number;
}

const numbers = (limit: SlidingWindowBucketsLimit): PartsNumbers => {
  const { windowMs, buckets, phaseMs = 0 } = limit;
  return { capacity: windowSize(limit), partMs: windowMs / buckets, buckets, phaseMs };
};

interface Parts extends Opened {
  /** The sum of the counts. */
  used: number;
}

/** Moves the counts to the part that contains `nowMs`; drops parts that have left the window. */
export function open(limit: PartsNumbers, list: number[], nowMs: number): Parts {
  const startMs = windowStart(nowMs, limit.partMs, limit.phaseMs);
  if (list.length === 0) list[0] = startMs;
  if ((list[0] ?? 0) < startMs) {
    shift(list, Math.min((startMs - (list[0] ?? 0)) / limit.partMs, limit.buckets + 1), limit.buckets + 1);
    list[0] = startMs;
  }
  const length = list.length;
  let used = 0;
  for (let at = 1; at < length; at++) used += list[at] ?? 0;
  const parts = list as Parts; // it becomes one here
  parts.dropped = 0;
  parts.used = used;
  return parts;
}

/**
 * Sliding window in equal parts: hits are counted by part. The sum covers the current part and, before it, as many
 * whole parts as make up a window.
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
export function step(limit: PartsNumbers, parts: Parts, nowMs: number, hits: number, charge: Charge): Step {
  const before = parts.used;
  const accepted = hits < 0 || before + hitsToFit(hits) <= limit.capacity;
  const isCounted = charge === 'regardless' || (accepted && charge);
  if (isCounted && hits > 0) {
    const counted = Math.min(hits, MAX_COUNT - before);
    parts[1] = (parts[1] ?? 0) + counted;
    parts.used = before + counted;
  }
  if (charge && hits < 0) giveBack(parts, -hits);
  return finishStep(limit, parts, nowMs, before, accepted, hits);
}

/** Returns hits to the part in which they were counted. */
export function refund(limit: PartsNumbers, parts: Parts, nowMs: number, hits: number, chargedAtMs: number): Step {
  const before = parts.used;
  const chargedMs = windowStart(chargedAtMs, limit.partMs, limit.phaseMs);
  const at = 1 + Math.max(((parts[0] ?? 0) - chargedMs) / limit.partMs, 0);
  if (at < parts.length) {
    const taken = Math.min(parts[at] ?? 0, hits);
    parts[at] = (parts[at] ?? 0) - taken;
    parts.used = before - taken;
  }
  return finishStep(limit, parts, nowMs, before, true, 0);
}

function finishStep(
  limit: PartsNumbers,
  parts: Parts,
  nowMs: number,
  before: number,
  accepted: boolean,
  hits: number,
): Step {
  while (parts.length > 1 && parts[parts.length - 1] === 0) parts.pop();
  let newest = 1;
  while (parts[newest] === 0) newest++;
  const emptyMs = newest < parts.length ? leavesAtMs(limit, parts, newest) : (parts[0] ?? 0);
  const fitsMs = fitsAtMs(limit, parts, parts.used + hitsToFit(hits) - limit.capacity);
  return { accepted, state: parts, ttlMs: emptyMs - nowMs, report: [before, parts.used, emptyMs, fitsMs] };
}

/** Puts zeros before the counts, at most `size` together. */
function shift(list: number[], by: number, size: number): void {
  while (list.length > 1 && list.length - 1 + by > size) list.pop();
  if (list.length === 1) return;
  for (let at = list.length - 1; at > 0; at--) list[at + by] = list[at] ?? 0;
  for (let at = 1; at <= by; at++) list[at] = 0;
}

function giveBack(parts: Parts, hits: number): void {
  const length = parts.length;
  let left = hits;
  for (let at = 1; at < length; at++) {
    const given = Math.min(parts[at] ?? 0, left);
    parts[at] = (parts[at] ?? 0) - given;
    left -= given;
  }
  parts.used -= hits - left;
}

/** When the hits of the part at an index leave the window. */
const leavesAtMs = (limit: PartsNumbers, parts: Parts, at: number): number =>
  (parts[0] ?? 0) + (limit.buckets + 2 - at) * limit.partMs;

/** Time at which so many of the oldest hits will have left the window; 0 if none need to, or there are fewer. */
function fitsAtMs(limit: PartsNumbers, parts: Parts, excess: number): number {
  if (excess <= 0 || excess > parts.used) return 0;
  let left = excess;
  for (let at = parts.length - 1; at > 0; at--) {
    left -= parts[at] ?? 0;
    if (left <= 0) return leavesAtMs(limit, parts, at);
  }
  return 0;
}

/** The counts, newest first. */
const readCounts = (limit: SlidingWindowBucketsLimit, state: State | undefined, nowMs: number): readonly number[] =>
  open(numbers(limit), [...(state ?? [])], nowMs).slice(1);

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
  ...steppedOpen({ compiled: compiled.sliding_window_buckets, numbers, open, step, refund }),
  describe: describeHits,
  account(limit, state, nowMs) {
    const counts = readCounts(limit, state, nowMs);
    const used = counts.reduce((sum, count) => sum + count, 0);
    const some = counts.filter((count) => count > 0);
    const terms = some.length > 0 && some.length <= MAX_TERMS ? some : [used];
    return { terms: terms.map((count) => showCount(limit, count)), used };
  },
  draw(limit, state, nowMs) {
    const counts = readCounts(limit, state, nowMs);
    return { kind: 'parts', parts: Array.from({ length: limit.buckets + 1 }, (_, at) => counts[at] ?? 0).reverse() };
  },
  demand: (key) => key.mostWithin(1),
  state: { longest: ({ buckets }) => 2 + buckets },
};
