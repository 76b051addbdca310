import type { AnyLimit, State } from '../algorithms/limit.ts';
import type { Sharing } from './fair-share.ts';
import { moves } from './reports.ts';

/** What lowers the limit: queueing, seen in hold times, and failures; or failures alone. */
export const adaptTargets = ['gradient', 'aimd'] as const;

/** A limit on requests in flight that is estimated from hold times and outcomes. `requestsPerUnit` is the maximum. */
export interface AdaptiveLimit extends AnyLimit, Partial<Sharing> {
  readonly algorithm: 'adaptive';
  /** Slots, at least 1. */
  readonly min: number;
  readonly target: (typeof adaptTargets)[number];
  /** Shortest time between two changes of the estimate. */
  readonly adaptMs: number;
}

/** The estimate, and what is measured for the next one. */
export interface Estimate {
  /** Thousandths of a slot. */
  readonly limit: number;
  /** Mean hold time without a queue in µs; 0 if unknown. */
  readonly baselineUs: number;
  /** When the window began, and when slots were last taken or released (ms since the epoch). */
  readonly startMs: number;
  readonly lastMs: number;
  /** Releases without a failure of slots that were taken in the window, and the sum of their hold times. */
  readonly count: number;
  readonly sumMs: number;
  /** Those with a failure that count. */
  readonly failures: number;
  /** Maximum number of slots in use in the window. */
  readonly peak: number;
  /** Mean hold time of the previous window in µs, and its slots in use in thousandths; 0 if they tell nothing. */
  readonly latencyUs: number;
  readonly usedBefore: number;
  /** Slots in use in thousandths when the baseline was measured; 0 if that was never. */
  readonly probed: number;
  /** Windows in which the limit was used since the baseline was last measured. */
  readonly age: number;
  /** The limit to return to after a probe, in thousandths; 0 outside a probe. */
  readonly resume: number;
  /** Consecutive windows in which failures lowered the limit. */
  readonly falls: number;
  /** 1 while the limit may double. */
  readonly starting: number;
  /** The place of the latest change in `moves`. */
  readonly move: number;
}

const MILLI = 1_000;
/** Releases to measure for a change, and to end a probe. */
const MIN_SAMPLES = 16;
const PROBE_SAMPLES = 64;
/** Windows without requests after which the limit is halved, and after which the counter may be forgotten. */
const IDLE_WINDOWS = 10;
const REMEMBERED_WINDOWS = 100;
const MAX_HALVINGS = 10;
/** Tolerated ratio of hold times to the baseline, and the one that ends doubling. */
const TOLERANCE = 1.2;
const START_TOLERANCE = 1.5;
const MAX_FAILURES = 0.05;
const MAX_FALLS = 3;
/** Part of the limit that must be taken at once for it to count as used. */
const USED_PART = 0.9;
/** Part of the fall of a limit by which hold times fall if there is a queue. */
const QUEUED_PART = 0.7;
/** Ratio to the fall of the slots in use above which a queue does not explain that of hold times. */
const STALL = 1.5;
/** Part of the slots in use that a probe leaves. */
const PROBE_PART = 0.4;
/** Part of the baseline, and of the hold time before, below which the baseline is measured again. */
const FASTER_PART = 0.75;
/** Windows after which the baseline is measured at half of the slots in use. */
const MAX_AGE = 30;
/** Windows until then if the baseline was replaced without a probe. */
const SOON = 3;

const place = (move: (typeof moves)[number]): number => moves.indexOf(move);

/** The order of an estimate's numbers in a state. */
const keys = [
  'limit',
  'baselineUs',
  'startMs',
  'lastMs',
  'count',
  'sumMs',
  'failures',
  'peak',
  'latencyUs',
  'usedBefore',
  'probed',
  'age',
  'resume',
  'falls',
  'starting',
  'move',
] as const satisfies readonly (keyof Estimate)[];

/** Numbers of an estimate in a state. */
export const ESTIMATE_SIZE = keys.length;

/** The estimate at the beginning of a state. */
export function readEstimate({ min }: AdaptiveLimit, state: State | undefined, nowMs: number): Estimate {
  const given = state && state.length > 0 ? state : [min * MILLI, 0, nowMs, nowMs, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
  return Object.fromEntries(keys.map((key, at) => [key, given[at] ?? 0])) as unknown as Estimate; // has all keys
}

export const writeEstimate = (estimate: Estimate): State => keys.map((key) => estimate[key]);

const bounded = ({ min, requestsPerUnit }: AdaptiveLimit, limit: number): number =>
  Math.min(Math.max(Math.floor(limit), min * MILLI), requestsPerUnit * MILLI);

/** Whole slots of an estimate. */
export const wholeSlots = ({ limit }: Pick<Estimate, 'limit'>): number => Math.floor(limit / MILLI);

/** Time without requests after which a counter is like a new one. */
export const forgetMs = ({ adaptMs }: AdaptiveLimit): number => REMEMBERED_WINDOWS * adaptMs;

const restarted = { count: 0, sumMs: 0, failures: 0, peak: 0 } as const;

/**
 * The estimate at a time: lowered after idleness, or changed at the end of a window.
 *
 * @param isUnused  no slot is taken
 */
export function advance(limit: AdaptiveLimit, stored: Estimate, nowMs: number, isUnused: boolean): Estimate {
  const estimate = { ...stored, limit: bounded(limit, stored.limit) };
  const gapMs = nowMs - estimate.lastMs;
  const window = { ...restarted, startMs: nowMs, lastMs: nowMs };
  const idle = isUnused ? Math.floor(gapMs / (IDLE_WINDOWS * limit.adaptMs)) : 0;
  if (idle > 0) {
    const lowered = bounded(limit, Math.max(estimate.limit, estimate.resume) / 2 ** Math.min(idle, MAX_HALVINGS));
    return { ...estimate, ...window, limit: lowered, resume: 0, usedBefore: 0, starting: 1, move: place('idle') };
  }
  const lengthMs = Math.max(limit.adaptMs, Math.floor(estimate.baselineUs / 167)); // at least six hold times
  if (gapMs > 2 * lengthMs || nowMs < estimate.startMs) return { ...estimate, ...window };
  const samples = estimate.count + estimate.failures;
  const isRound = estimate.starting === 1 && samples >= 2 * wholeSlots(estimate);
  if (
    samples < (estimate.resume > 0 ? PROBE_SAMPLES : MIN_SAMPLES) ||
    (nowMs - estimate.startMs < lengthMs && !isRound)
  )
    return estimate;
  const next = { ...estimate, ...window, ...adapt(limit, estimate) };
  return { ...next, limit: bounded(limit, next.limit) };
}

/** @param held  slots in use, or requested, after a request came */
export const noteTake = (estimate: Estimate, nowMs: number, held: number): Estimate => ({
  ...estimate,
  peak: Math.max(estimate.peak, held),
  lastMs: nowMs,
});

/** A release: its holder, when it took the slots (undefined: it holds none), and its HTTP status (0: not reported). */
export interface Released {
  readonly holder: number;
  readonly takenMs: number | undefined;
  readonly status: number;
}

export function noteRelease(estimate: Estimate, nowMs: number, { holder, takenMs, status }: Released): Estimate {
  const { count, sumMs, failures } = estimate;
  const next = { ...estimate, lastMs: nowMs };
  if (takenMs === undefined || takenMs < estimate.startMs || (status >= 400 && status < 500)) return next;
  const heldMs = Math.max(nowMs - takenMs, 0);
  if (status < 500) return { ...next, count: count + 1, sumMs: sumMs + heldMs };
  return { ...next, failures: failures + (holder < HOLDERS * failureWeight(estimate, heldMs) ? 1 : 0) };
}

/** Ids of holders are below, and evenly distributed: they choose the failures that count, since states are integers. */
const HOLDERS = 2 ** 53;

/**
 * The part of a usual request that a failure has held its slot for, so that clients whose requests fail at once count
 * for their slots, however often they ask. 1 while no request has succeeded, so that the usual time is unknown.
 */
function failureWeight({ baselineUs, count, sumMs }: Estimate, heldMs: number): number {
  const usualMs = baselineUs > 0 ? baselineUs / 1_000 : sumMs / Math.max(count, 1);
  return usualMs > 0 ? Math.min(heldMs / usualMs, 1) : 1;
}

type Change = Partial<Estimate>;

function adapt(limit: AdaptiveLimit, estimate: Estimate): Change {
  const { count, sumMs, failures, peak } = estimate;
  const failed = failures / (count + failures);
  if (failed > MAX_FAILURES) return fall(estimate, failed);
  const latencyUs = Math.max(Math.floor((sumMs * 1_000) / count), 1);
  const isUsed = peak >= USED_PART * wholeSlots(estimate);
  const used = isUsed ? estimate.limit : Math.max(peak, 1) * MILLI;
  const after = { latencyUs, usedBefore: used, falls: 0 };
  if (limit.target === 'aimd') return { ...after, ...grow(estimate, isUsed) };
  if (estimate.resume > 0) return { ...after, ...endProbe(limit, estimate, { latencyUs, isUsed, used }) };
  return { ...after, ...climb(estimate, { latencyUs, isUsed, used }) };
}

function fall(estimate: Estimate, failed: number): Change {
  const { limit, falls, resume } = estimate;
  const whole = Math.max(limit, resume);
  if (falls >= MAX_FALLS) return { limit: whole, resume: 0, move: place('failing') };
  const lowered = whole * Math.max(0.5, 1 - failed);
  return { limit: lowered, resume: 0, falls: falls + 1, starting: 1, usedBefore: 0, move: place('failures') };
}

function grow({ limit, starting }: Estimate, isUsed: boolean): Change {
  if (!isUsed) return { move: place('unused') };
  const step = starting === 1 ? limit : Math.max(headroom(limit), limit / 4);
  return { limit: limit + step, move: place('grown') };
}

const headroom = (limit: number): number => Math.sqrt(limit * MILLI);

/**
 * Ends a probe. If hold times fell nearly as much as the slots in use, there was a queue even at the lower limit:
 * continues below it. If they fell more, something else than a queue had delayed requests, and the limit stays.
 */
function endProbe({ min }: AdaptiveLimit, estimate: Estimate, { latencyUs, used }: Measured): Change {
  const { limit, usedBefore, resume } = estimate;
  const fell = estimate.latencyUs / latencyUs;
  const isStall = fell > STALL * Math.max(usedBefore / limit, 1);
  if (limit > min * MILLI && fell > queued(usedBefore, limit) && !isStall)
    return { limit: limit * PROBE_PART, resume: limit, baselineUs: latencyUs, move: place('probing') };
  const next =
    fell <= TOLERANCE || isStall ? resume : Math.min(follow(usedBefore, latencyUs, estimate.latencyUs), resume);
  return { limit: next, resume: 0, probed: used, baselineUs: latencyUs, age: 0, move: place('probed') };
}

/** The least ratio of hold times at these numbers of slots in use that shows a queue even at the fewer. */
const queued = (more: number, fewer: number): number => 1 + QUEUED_PART * (more / fewer - 1);

/** The limit that follows from its gradient. */
const follow = (used: number, baselineUs: number, latencyUs: number): number =>
  Math.max((TOLERANCE * baselineUs) / latencyUs, 0.5) * used + headroom(used);

interface Measured {
  readonly latencyUs: number;
  readonly isUsed: boolean;
  /** Slots in use in thousandths. */
  readonly used: number;
}

/**
 * Judges a window outside a probe. A baseline that hold times contradict, or that is old, is measured by a probe: they
 * are longer than a queue explains if there was none when it was measured.
 */
function climb(estimate: Estimate, measured: Measured): Change {
  const { latencyUs, isUsed, used } = measured;
  const { limit, starting } = estimate;
  const next = nextBaseline(estimate, measured);
  const { baselineUs, probed, age } = next;
  const isSteady = starting === 0 && isUsed && probed > 0;
  const most = Math.max(START_TOLERANCE, isSteady ? queued(used, probed) : 0);
  if (latencyUs > most * baselineUs || (isUsed && age >= MAX_AGE))
    return { ...next, resume: limit, limit: used * PROBE_PART, age: 0, starting: 0, move: place('probing') };
  if (!isUsed) return { ...next, move: place('unused') };
  if (starting === 1 || latencyUs <= TOLERANCE * baselineUs) return { ...next, ...grow(estimate, isUsed) };
  const moved = follow(used, baselineUs, latencyUs);
  return { ...next, limit: moved, move: place(moved < limit ? 'queueing' : 'grown') };
}

/**
 * The baseline after a window. Hold times below it that dropped replace it until the next probe, which is then soon. A
 * limit that is not used tells it slowly, unless hold times jump; one that is used only while it doubles.
 */
function nextBaseline(
  estimate: Estimate,
  { latencyUs, isUsed, used }: Measured,
): Pick<Estimate, 'baselineUs' | 'probed' | 'age'> {
  const { baselineUs, probed, starting } = estimate;
  const age = estimate.age + (isUsed ? 1 : 0);
  if (baselineUs === 0) return { baselineUs: latencyUs, probed, age };
  if (latencyUs < Math.min(baselineUs, FASTER_PART * Math.max(baselineUs, estimate.latencyUs)))
    return { baselineUs: latencyUs, probed: used, age: Math.max(age, MAX_AGE - SOON) };
  if (starting === 1) return { baselineUs: Math.min(baselineUs, latencyUs), probed, age };
  if (isUsed || latencyUs > START_TOLERANCE * baselineUs) return { baselineUs, probed, age };
  return { baselineUs: Math.floor((7 * baselineUs + latencyUs) / 8), probed, age };
}
