import type { AnyLimit, State } from '../algorithms/limit.ts';
import { moves } from './reports.ts';

/** What lowers the limit: queueing, seen in hold times, and failures; or failures alone. */
export const adaptTargets = ['gradient', 'aimd'] as const;

/** A limit on requests in flight that is estimated from hold times and outcomes. `requestsPerUnit` is the maximum. */
export interface AdaptiveLimit extends AnyLimit {
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
  readonly failures: number;
  /** Maximum number of slots in use in the window. */
  readonly peak: number;
  /** Mean hold time of the previous window in µs, and its limit in thousandths; 0 if that was not used. */
  readonly latencyUs: number;
  readonly limitBefore: number;
  /** Windows since the baseline was last confirmed. */
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
const MIN_SAMPLES = 16;
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
/** Part of the limit below which it would be lowered at once only after a probe. */
const PROBED_PART = 0.8;
/** Part of the baseline below which it is measured again. */
const FASTER_PART = 0.75;
/** Windows after which the baseline is measured at half of the limit. */
const MAX_AGE = 30;

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
  'limitBefore',
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
  const given = state && state.length > 0 ? state : [min * MILLI, 0, nowMs, nowMs, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
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
    return { ...estimate, ...window, limit: lowered, resume: 0, limitBefore: 0, starting: 1, move: place('idle') };
  }
  const lengthMs = Math.max(limit.adaptMs, Math.floor(estimate.baselineUs / 250)); // at least four hold times
  if (gapMs > 2 * lengthMs || nowMs < estimate.startMs) return { ...estimate, ...window };
  const samples = estimate.count + estimate.failures;
  const isRound = estimate.starting === 1 && samples >= 2 * wholeSlots(estimate);
  if (samples < MIN_SAMPLES || (nowMs - estimate.startMs < lengthMs && !isRound)) return estimate;
  const next = { ...estimate, ...window, ...adapt(limit, estimate) };
  return { ...next, limit: bounded(limit, next.limit) };
}

/** @param held  slots in use, or requested, after a request came */
export const noteTake = (estimate: Estimate, nowMs: number, held: number): Estimate => ({
  ...estimate,
  peak: Math.max(estimate.peak, held),
  lastMs: nowMs,
});

/**
 * @param takenMs  when the slots were taken; undefined if they were not held
 * @param code     the HTTP status of the response; 0 if it is not reported
 */
export function noteRelease(estimate: Estimate, nowMs: number, takenMs: number | undefined, code: number): Estimate {
  const { count, sumMs, failures } = estimate;
  const next = { ...estimate, lastMs: nowMs };
  if (takenMs === undefined || takenMs < estimate.startMs || (code >= 400 && code < 500)) return next;
  if (code >= 500) return { ...next, failures: failures + 1 };
  return { ...next, count: count + 1, sumMs: sumMs + Math.max(nowMs - takenMs, 0) };
}

type Change = Partial<Estimate>;

function adapt(limit: AdaptiveLimit, estimate: Estimate): Change {
  const { count, sumMs, failures } = estimate;
  const failed = failures / (count + failures);
  if (failed > MAX_FAILURES) return fall(estimate, failed);
  const latencyUs = Math.max(Math.floor((sumMs * 1_000) / count), 1);
  const isUsed = estimate.peak >= USED_PART * wholeSlots(estimate);
  const after = { latencyUs, limitBefore: isUsed ? estimate.limit : 0, falls: 0 };
  if (limit.target === 'aimd') return { ...after, ...grow(estimate, isUsed) };
  if (estimate.resume > 0) return { ...after, ...endProbe(limit, estimate, latencyUs) };
  return { ...after, ...climb(estimate, latencyUs, isUsed) };
}

function fall(estimate: Estimate, failed: number): Change {
  const { limit, falls, resume } = estimate;
  const whole = Math.max(limit, resume);
  if (falls >= MAX_FALLS) return { limit: whole, resume: 0, move: place('failing') };
  const lowered = whole * Math.max(0.5, 1 - failed);
  return { limit: lowered, resume: 0, falls: falls + 1, starting: 1, limitBefore: 0, move: place('failures') };
}

function grow({ limit, starting }: Estimate, isUsed: boolean): Change {
  if (!isUsed) return { move: place('unused') };
  const step = starting === 1 ? limit : Math.max(headroom(limit), limit / 4);
  return { limit: limit + step, move: place('grown') };
}

const headroom = (limit: number): number => Math.sqrt(limit * MILLI);

const startProbe = ({ limit }: Estimate): Change => ({
  resume: limit,
  limit: limit / 2,
  age: 0,
  starting: 0,
  move: place('probing'),
});

/**
 * Ends a probe. If hold times fell nearly as much as the limit, there was a queue even at the lower limit: continues at
 * half of it.
 */
function endProbe({ min }: AdaptiveLimit, estimate: Estimate, latencyUs: number): Change {
  const { limit, limitBefore, resume } = estimate;
  const fell = estimate.latencyUs / latencyUs;
  if (limit > min * MILLI && fell > 1 + QUEUED_PART * (limitBefore / limit - 1))
    return { limit: limit / 2, resume: Math.floor(resume / 2), baselineUs: latencyUs, move: place('probing') };
  const next = Math.min(follow(resume, latencyUs, estimate.latencyUs), resume);
  return { limit: next, resume: 0, baselineUs: latencyUs, age: 0, move: place('probed') };
}

/** The limit that follows from its gradient. */
const follow = (limit: number, baselineUs: number, latencyUs: number): number =>
  Math.max((TOLERANCE * baselineUs) / latencyUs, 0.5) * limit + headroom(limit);

function climb(estimate: Estimate, latencyUs: number, isUsed: boolean): Change {
  const { limit, starting } = estimate;
  const baselineUs = nextBaseline(estimate, latencyUs, isUsed);
  const age = latencyUs <= baselineUs ? 0 : estimate.age + 1;
  const next = { baselineUs, age };
  const moved = follow(limit, baselineUs, latencyUs);
  const isFaster = latencyUs < FASTER_PART * estimate.baselineUs;
  const isOther = starting === 1 ? latencyUs > START_TOLERANCE * baselineUs : moved < PROBED_PART * limit || isFaster;
  if (isUsed && (isOther || age >= MAX_AGE)) return { ...next, ...startProbe(estimate) };
  if (starting === 1 || latencyUs <= TOLERANCE * baselineUs) return { ...next, ...grow(estimate, isUsed) };
  if (moved > limit && !isUsed) return { ...next, move: place('unused') };
  return { ...next, limit: moved, move: place(moved < limit ? 'queueing' : 'grown') };
}

/** A window without a queue of its own tells the baseline; one with a queue can only lower it. */
function nextBaseline({ baselineUs }: Estimate, latencyUs: number, isUsed: boolean): number {
  if (baselineUs === 0) return latencyUs;
  if (latencyUs < baselineUs) return Math.floor((baselineUs + latencyUs) / 2);
  return isUsed ? baselineUs : Math.floor((7 * baselineUs + latencyUs) / 8);
}
