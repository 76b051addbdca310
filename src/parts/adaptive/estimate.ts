import type { AnyLimit } from '../../engine/algorithms/limit.ts';
import { moves } from '../../engine/holds/reports.ts';
import type { Sharing } from '../../engine/holds/sharing.ts';

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

/** The numbers of an adaptive limit and of a request. */
export interface AdaptiveNumbers {
  readonly windowMs: number;
  /** `ANONYMOUS` for none. */
  readonly holder: number;
  /** Slots. */
  readonly min: number;
  readonly max: number;
  readonly adaptMs: number;
  /** 1 if only failures lower the limit. */
  readonly isAimd: number;
  /** Part of the slots that the request may use, in percent. */
  readonly threshold: number;
  /** HTTP status of a release, which releases all slots of the holder; 0 for none. */
  readonly status: number;
  /** As in `PathNumbers`, with the parts of the maximum. */
  readonly share: number;
  readonly depth: number;
  readonly spare: number;
  readonly children: readonly number[];
}

/** The estimate, and what is measured for the next one. */
export interface EstimateNumbers {
  /** Thousandths of a slot. */
  limit: number;
  /** Mean hold time without a queue in µs; 0 if unknown. */
  baselineUs: number;
  /** When the window began, and when slots were last taken or released (ms since the epoch). */
  startMs: number;
  lastMs: number;
  /** Releases without a failure of slots that were taken in the window, and the sum of their hold times. */
  count: number;
  sumMs: number;
  /** Those with a failure that count. */
  failures: number;
  /** Maximum number of slots in use in the window. */
  peak: number;
  /** Mean hold time of the previous window in µs, and its slots in use in thousandths; 0 if they tell nothing. */
  latencyUs: number;
  usedBefore: number;
  /** Slots in use in thousandths when the baseline was measured; 0 if that was never. */
  probed: number;
  /** Windows in which the limit was used since the baseline was last measured. */
  age: number;
  /** The limit to return to after a probe, in thousandths; 0 outside a probe. */
  resume: number;
  /** Consecutive windows in which failures lowered the limit. */
  falls: number;
  /** 1 while the limit may double. */
  starting: number;
  /** The place of the latest change in `moves`. */
  move: number;
}

export const MILLI = 1_000;
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

/** Exclusive maximum of holder ids. They are evenly distributed, so they can decide which failures count in full. */
const HOLDERS = 9_007_199_254_740_992;

const GROWN = moves.indexOf('grown');
const UNUSED = moves.indexOf('unused');
const QUEUEING = moves.indexOf('queueing');
const FAILURES = moves.indexOf('failures');
const FAILING = moves.indexOf('failing');
const PROBING = moves.indexOf('probing');
const PROBED = moves.indexOf('probed');
const IDLE = moves.indexOf('idle');

/** Numbers of an estimate in a state. */
export const ESTIMATE_SIZE = 16;

/** The estimate of a new counter. */
export function newEstimate(limit: AdaptiveNumbers, nowMs: number): EstimateNumbers {
  const estimate: EstimateNumbers = readEstimate([]);
  estimate.limit = limit.min * MILLI;
  estimate.startMs = nowMs;
  estimate.lastMs = nowMs;
  estimate.starting = 1;
  return estimate;
}

/** The estimate at the beginning of a state. */
export function readEstimate(list: number[]): EstimateNumbers {
  const estimate: EstimateNumbers = {
    limit: list[0] ?? 0,
    baselineUs: list[1] ?? 0,
    startMs: list[2] ?? 0,
    lastMs: list[3] ?? 0,
    count: list[4] ?? 0,
    sumMs: list[5] ?? 0,
    failures: list[6] ?? 0,
    peak: list[7] ?? 0,
    latencyUs: list[8] ?? 0,
    usedBefore: list[9] ?? 0,
    probed: list[10] ?? 0,
    age: list[11] ?? 0,
    resume: list[12] ?? 0,
    falls: list[13] ?? 0,
    starting: list[14] ?? 0,
    move: list[15] ?? 0,
  };
  return estimate;
}

const bounded = (limit: AdaptiveNumbers, slots: number): number =>
  Math.min(Math.max(Math.floor(slots), limit.min * MILLI), limit.max * MILLI);

/** Time without requests after which a counter is like a new one. */
export const forgetMs = (limit: Pick<AdaptiveNumbers, 'adaptMs'>): number => REMEMBERED_WINDOWS * limit.adaptMs;

function restart(estimate: EstimateNumbers, nowMs: number): void {
  estimate.count = 0;
  estimate.sumMs = 0;
  estimate.failures = 0;
  estimate.peak = 0;
  estimate.startMs = nowMs;
  estimate.lastMs = nowMs;
}

/**
 * Moves the estimate to a time: lowers it after idleness, or changes it at the end of a window.
 *
 * @param isUnused  no slot is taken
 */
export function advance(limit: AdaptiveNumbers, estimate: EstimateNumbers, nowMs: number, isUnused: boolean): void {
  estimate.limit = bounded(limit, estimate.limit);
  const gapMs = nowMs - estimate.lastMs;
  const idle = isUnused ? Math.floor(gapMs / (IDLE_WINDOWS * limit.adaptMs)) : 0;
  if (idle > 0) {
    const whole = Math.max(estimate.limit, estimate.resume);
    estimate.limit = bounded(limit, whole / 2 ** Math.min(idle, MAX_HALVINGS));
    estimate.resume = 0;
    estimate.usedBefore = 0;
    estimate.starting = 1;
    estimate.move = IDLE;
    restart(estimate, nowMs);
    return;
  }
  const lengthMs = Math.max(limit.adaptMs, Math.floor(estimate.baselineUs / 167)); // at least six hold times
  if (gapMs > 2 * lengthMs || nowMs < estimate.startMs) {
    restart(estimate, nowMs);
    return;
  }
  const samples = estimate.count + estimate.failures;
  if (samples < (estimate.resume > 0 ? PROBE_SAMPLES : MIN_SAMPLES)) return;
  const isRound = estimate.starting === 1 && samples >= 2 * Math.floor(estimate.limit / MILLI);
  if (nowMs - estimate.startMs < lengthMs && !isRound) return;
  adapt(limit, estimate);
  estimate.limit = bounded(limit, estimate.limit);
  restart(estimate, nowMs);
}

/** A release of slots. @param takenMs  when the holder took them; -1 if it holds none */
export function noteRelease(limit: AdaptiveNumbers, estimate: EstimateNumbers, nowMs: number, takenMs: number): void {
  const status = limit.status;
  estimate.lastMs = nowMs;
  if (takenMs < estimate.startMs || (status >= 400 && status < 500)) return;
  const heldMs = Math.max(nowMs - takenMs, 0);
  if (status >= 500) {
    if (limit.holder < HOLDERS * failureWeight(estimate, heldMs)) estimate.failures++;
    return;
  }
  estimate.count++;
  estimate.sumMs += heldMs;
}

/**
 * The part of a usual request that a failure has held its slot for, so that clients whose requests fail at once count
 * for their slots, however often they ask. 1 while no request has succeeded, so that the usual time is unknown.
 */
function failureWeight(estimate: EstimateNumbers, heldMs: number): number {
  const usualMs = estimate.baselineUs > 0 ? estimate.baselineUs / 1_000 : estimate.sumMs / Math.max(estimate.count, 1);
  return usualMs > 0 ? Math.min(heldMs / usualMs, 1) : 1;
}

function adapt(limit: AdaptiveNumbers, estimate: EstimateNumbers): void {
  const failed = estimate.failures / (estimate.count + estimate.failures);
  if (failed > MAX_FAILURES) {
    fall(estimate, failed);
    return;
  }
  const latencyUs = Math.max(Math.floor((estimate.sumMs * 1_000) / estimate.count), 1);
  const peak = estimate.peak;
  const isUsed = peak >= USED_PART * Math.floor(estimate.limit / MILLI);
  const used = isUsed ? estimate.limit : Math.max(peak, 1) * MILLI;
  if (limit.isAimd === 1) grow(estimate, isUsed);
  else if (estimate.resume > 0) endProbe(limit, estimate, latencyUs, used);
  else climb(estimate, latencyUs, isUsed, used);
  estimate.latencyUs = latencyUs;
  estimate.usedBefore = used;
  estimate.falls = 0;
}

function fall(estimate: EstimateNumbers, failed: number): void {
  const whole = Math.max(estimate.limit, estimate.resume);
  estimate.resume = 0;
  if (estimate.falls >= MAX_FALLS) {
    estimate.limit = whole;
    estimate.move = FAILING;
    return;
  }
  estimate.limit = whole * Math.max(0.5, 1 - failed);
  estimate.falls++;
  estimate.starting = 1;
  estimate.usedBefore = 0;
  estimate.move = FAILURES;
}

function grow(estimate: EstimateNumbers, isUsed: boolean): void {
  if (!isUsed) {
    estimate.move = UNUSED;
    return;
  }
  const slots = estimate.limit;
  estimate.limit = slots + (estimate.starting === 1 ? slots : Math.max(headroom(slots), slots / 4));
  estimate.move = GROWN;
}

const headroom = (slots: number): number => Math.sqrt(slots * MILLI);

/**
 * Ends a probe. If hold times fell nearly as much as the slots in use, there was a queue even at the lower limit:
 * continues below it. If they fell more, something else than a queue had delayed requests, and the limit stays.
 *
 * @param used  slots in use, in thousandths
 */
function endProbe(limit: AdaptiveNumbers, estimate: EstimateNumbers, latencyUs: number, used: number): void {
  const slots = estimate.limit;
  const usedBefore = estimate.usedBefore;
  const resume = estimate.resume;
  const fell = estimate.latencyUs / latencyUs;
  const isStall = fell > STALL * Math.max(usedBefore / slots, 1);
  estimate.baselineUs = latencyUs;
  if (slots > limit.min * MILLI && fell > queued(usedBefore, slots) && !isStall) {
    estimate.limit = slots * PROBE_PART;
    estimate.resume = slots;
    estimate.move = PROBING;
    return;
  }
  const followed = Math.min(follow(usedBefore, latencyUs, estimate.latencyUs), resume);
  estimate.limit = fell <= TOLERANCE || isStall ? resume : followed;
  estimate.resume = 0;
  estimate.probed = used;
  estimate.age = 0;
  estimate.move = PROBED;
}

/** The least ratio of hold times at these numbers of slots in use that shows a queue even at the fewer. */
const queued = (more: number, fewer: number): number => 1 + QUEUED_PART * (more / fewer - 1);

/** The limit that follows from its gradient. */
const follow = (used: number, baselineUs: number, latencyUs: number): number =>
  Math.max((TOLERANCE * baselineUs) / latencyUs, 0.5) * used + headroom(used);

/**
 * Judges a window outside a probe. A baseline that hold times contradict, or that is old, is measured by a probe: they
 * are longer than a queue explains if there was none when it was measured.
 */
function climb(estimate: EstimateNumbers, latencyUs: number, isUsed: boolean, used: number): void {
  const slots = estimate.limit;
  const isStarting = estimate.starting === 1;
  nextBaseline(estimate, latencyUs, isUsed, used);
  const baselineUs = estimate.baselineUs;
  const isSteady = !isStarting && isUsed && estimate.probed > 0;
  const most = Math.max(START_TOLERANCE, isSteady ? queued(used, estimate.probed) : 0);
  if (latencyUs > most * baselineUs || (isUsed && estimate.age >= MAX_AGE)) {
    estimate.resume = slots;
    estimate.limit = used * PROBE_PART;
    estimate.age = 0;
    estimate.starting = 0;
    estimate.move = PROBING;
  } else if (!isUsed || isStarting || latencyUs <= TOLERANCE * baselineUs) grow(estimate, isUsed);
  else {
    const moved = follow(used, baselineUs, latencyUs);
    estimate.limit = moved;
    estimate.move = moved < slots ? QUEUEING : GROWN;
  }
}

/**
 * The baseline after a window. Hold times below it that dropped replace it until the next probe, which is then soon. A
 * limit that is not used tells it slowly, unless hold times jump; one that is used only while it doubles.
 */
function nextBaseline(estimate: EstimateNumbers, latencyUs: number, isUsed: boolean, used: number): void {
  const baselineUs = estimate.baselineUs;
  if (isUsed) estimate.age++;
  if (baselineUs === 0) estimate.baselineUs = latencyUs;
  else if (latencyUs < Math.min(baselineUs, FASTER_PART * Math.max(baselineUs, estimate.latencyUs))) {
    estimate.baselineUs = latencyUs;
    estimate.probed = used;
    estimate.age = Math.max(estimate.age, MAX_AGE - SOON);
  } else if (estimate.starting === 1) estimate.baselineUs = Math.min(baselineUs, latencyUs);
  else if (!isUsed && latencyUs <= START_TOLERANCE * baselineUs)
    estimate.baselineUs = Math.floor((7 * baselineUs + latencyUs) / 8);
}
