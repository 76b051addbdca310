import { counted } from '../../base/texts.ts';
import { type Charge, MAX_COUNT, type State, type Step } from '../../engine/algorithms/limit.ts';
import { steppedOpen } from '../../engine/algorithms/stepped.ts';
import { ANONYMOUS, type Claim } from '../../engine/holds/claim.ts';
import { type Counting, peek } from '../../engine/holds/counting.ts';
import {
  describeSlots,
  HOLD_SIZE,
  type Holds,
  type InFlightNumbers,
  inFlight,
  mostHolds,
  openHolds,
  ownSlots,
  refund as refundSlots,
  slotted,
  step as stepSlots,
} from '../../engine/holds/in-flight.ts';
import { type AdaptedReport, moves, moveTexts } from '../../engine/holds/reports.ts';
import { compiled } from '../../engine/lua/compiled.ts';
import { listSharing, writeSharing } from '../fair-shares/fair-share.ts';
import {
  describeShared,
  longestShared,
  refund as refundShared,
  sharedSlots,
  step as stepShared,
} from '../fair-shares/shared-slots.ts';
import {
  CEILING,
  CHILD_NUMBERS,
  hasMark,
  pathNumbers,
  SHARED_SIZE,
  type SharedSlotNumbers,
  scalePart,
  scalePath,
  thresholdSlots,
} from '../fair-shares/slot-share.ts';
import {
  type AdaptiveLimit,
  type AdaptiveNumbers,
  advance,
  ESTIMATE_SIZE,
  type EstimateNumbers,
  forgetMs,
  MILLI,
  newEstimate,
  noteRelease,
  readEstimate,
} from './estimate.ts';

/** Numbers in a report before those of the inner counter: slots, baseline and hold time in µs, the place of the move. */
const REPORT_SIZE = 4;

/** The threshold of requests that state no priority, in percent. */
const ALL = 100;

/** The slots that a request of this priority may use; at least one. */
const allowedSlots = (slots: number, claim: Claim | undefined): number =>
  thresholdSlots(slots, claim?.threshold ?? ALL);

/** The threshold of a path that no children share. */
const NOT_SHARED = -1;

function numbers(limit: AdaptiveLimit, _nowMs: number, claim: Claim | undefined): AdaptiveNumbers {
  const { windowMs, min, requestsPerUnit: max, adaptMs, target, path } = limit;
  const { holder = ANONYMOUS, threshold = ALL, status = 0 } = claim ?? {};
  const own = { windowMs, holder, min, max, adaptMs, isAimd: target === 'aimd' ? 1 : 0, threshold, status };
  if (!path) return { ...own, share: NOT_SHARED, depth: 0, spare: 0, children: [] };
  const { threshold: share, ...ofPath } = pathNumbers({ ...limit, path }, claim);
  return { ...own, share, ...ofPath };
}

/** The holds of a state. */
interface Slots extends Holds {
  estimate: number[];
  isNew: boolean;
}

export function open(limit: AdaptiveNumbers, list: number[], nowMs: number): Slots {
  const length = list.length;
  const holds: number[] = [];
  for (let at = ESTIMATE_SIZE; at < length; at++) holds[at - ESTIMATE_SIZE] = list[at] ?? 0;
  const slots = openHolds(holds, sizeOf(limit), limit.windowMs, nowMs) as Slots; // it becomes one here
  slots.isNew = length === 0;
  const estimate: EstimateNumbers = length === 0 ? newEstimate(limit, nowMs) : readEstimate(list);
  keep(slots, Object.values(estimate));
  return slots;
}

function keep(slots: Slots, estimate: number[]): void {
  slots.estimate = estimate;
  slots.before = [estimate];
}

/**
 * Requests in flight, with a number of slots that follows from hold times and outcomes.
 * State: the numbers of an `EstimateNumbers`, then the holds as in in-flight.ts.
 * Report: slots, baseline and hold time in µs, the place of the move in `moves`; then the report of in-flight.ts.
 *
 * A release with a status releases all slots of its holder. Failures are 500 and above; 400 to 499 are not measured:
 * they may be the proxy's own answers.
 *
 * @param nowMs   may run backwards (clock skew): nothing expires then
 * @param hits    slots; 0 peeks; a negative number releases
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
export function step(limit: AdaptiveNumbers, slots: Slots, nowMs: number, hits: number, charge: Charge): Step {
  const estimate: EstimateNumbers = currentEstimate(limit, slots, nowMs);
  const takenMs = hits < 0 ? takenAtMs(limit, slots, nowMs) : -1;
  const isWhole = limit.status > 0 && hits < 0;
  const asked = isWhole ? (limit.holder === ANONYMOUS ? -1 : -MAX_COUNT) : hits;
  const whole = Math.floor(estimate.limit / MILLI);
  const next: Step = stepInner(limit, whole, slots, nowMs, asked, charge);
  const report = next.report ?? next.state;
  if (charge && hits !== 0) {
    if (hits < 0) noteRelease(limit, estimate, nowMs, takenMs);
    else {
      // a refusal means that the limit is used, even if it leaves slots to others, unless it is by a ceiling
      const isHeld = next.accepted || report[6] === CEILING;
      const needed = isHeld ? (report[1] ?? 0) : Math.max((report[0] ?? 0) + hits, whole);
      estimate.peak = Math.max(estimate.peak, Math.min(needed, limit.max));
      estimate.lastMs = nowMs;
    }
    slots.isNew = false;
    keep(slots, Object.values(estimate));
  }
  const ttlMs = slots.isNew ? 0 : Math.max(next.ttlMs, forgetMs(limit));
  return { accepted: next.accepted, state: slots, ttlMs, report: reportOf(estimate, report) };
}

export function refund(limit: AdaptiveNumbers, slots: Slots, nowMs: number, hits: number, chargedAtMs: number): Step {
  const estimate: EstimateNumbers = currentEstimate(limit, slots, nowMs);
  const next: Step = refundInner(limit, Math.floor(estimate.limit / MILLI), slots, nowMs, hits, chargedAtMs);
  const report = reportOf(estimate, next.report ?? next.state);
  keep(slots, Object.values(estimate));
  return { accepted: next.accepted, state: slots, ttlMs: Math.max(next.ttlMs, forgetMs(limit)), report };
}

/** A copy of the estimate, at this time; a new one if the counter has expired. */
function currentEstimate(limit: AdaptiveNumbers, slots: Slots, nowMs: number): EstimateNumbers {
  const length = slots.length;
  const lastMs = length > slots.dropped ? (slots[length - sizeOf(limit) + 2] ?? 0) : 0;
  const known: EstimateNumbers = readEstimate(slots.estimate);
  const isForgotten = known.lastMs + forgetMs(limit) <= nowMs && lastMs + limit.windowMs <= nowMs;
  const estimate: EstimateNumbers = isForgotten ? newEstimate(limit, nowMs) : known;
  advance(limit, estimate, nowMs, lastMs <= nowMs);
  return estimate;
}

/** When the holder took its slots; -1 if it holds none. */
function takenAtMs(limit: AdaptiveNumbers, slots: Slots, nowMs: number): number {
  const length = slots.length;
  const size = sizeOf(limit);
  if (limit.holder === ANONYMOUS) return -1;
  for (let at = slots.live; at < length; at += size) {
    if (slots[at] === limit.holder && (slots[at + 2] ?? 0) > nowMs) return (slots[at + 2] ?? 0) - limit.windowMs;
  }
  return -1;
}

const sizeOf = (limit: AdaptiveNumbers): number => (limit.share === NOT_SHARED ? HOLD_SIZE : SHARED_SIZE);

function stepInner(
  limit: AdaptiveNumbers,
  count: number,
  slots: Slots,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  if (limit.share === NOT_SHARED) return stepSlots(innerLimit(limit, count), slots, nowMs, hits, charge);
  return stepShared(sharedLimit(limit, count), slots, nowMs, hits, charge);
}

function refundInner(
  limit: AdaptiveNumbers,
  count: number,
  slots: Slots,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step {
  if (limit.share === NOT_SHARED) return refundSlots(innerLimit(limit, count), slots, nowMs, hits, chargedAtMs);
  return refundShared(sharedLimit(limit, count), slots, nowMs, hits, chargedAtMs);
}

/** The limit that counts, with a number of slots. */
function innerLimit(limit: AdaptiveNumbers, count: number): InFlightNumbers {
  const inner: InFlightNumbers = {
    slots: thresholdSlots(count, limit.threshold),
    windowMs: limit.windowMs,
    holder: limit.holder,
  };
  return inner;
}

/** The same, if children share it. */
function sharedLimit(limit: AdaptiveNumbers, count: number): SharedSlotNumbers {
  const shared: SharedSlotNumbers = {
    slots: count,
    windowMs: limit.windowMs,
    holder: limit.holder,
    threshold: limit.share,
    depth: limit.depth,
    spare: limit.spare,
    children: [],
  };
  const end = CHILD_NUMBERS * limit.depth;
  for (let at = 0; at < end; at += CHILD_NUMBERS) {
    shared.children[at] = limit.children[at] ?? 0;
    shared.children[at + 1] = scalePart(limit.children[at + 1] ?? 0, count, limit.max);
    shared.children[at + 2] = limit.children[at + 2] ?? 0;
    shared.children[at + 3] = scalePart(limit.children[at + 3] ?? 0, count, limit.max);
  }
  return shared;
}

function reportOf(estimate: EstimateNumbers, slots: State): number[] {
  const report = [Math.floor(estimate.limit / MILLI), estimate.baselineUs, estimate.latencyUs, estimate.move];
  const length = slots.length;
  for (let at = 0; at < length; at++) report[REPORT_SIZE + at] = slots[at] ?? 0;
  return report;
}

/** The holds in a state, as in in-flight.ts. */
const holdsIn = (state: State | undefined): State => state?.slice(ESTIMATE_SIZE) ?? [];

/** Why the limit is what it is. */
function adaptedText({ limit, move, holdMs, baselineMs }: AdaptedReport, { threshold }: Claim): string {
  const part = threshold === undefined ? '' : `${threshold} % of ${counted(limit, 'slot')}, `;
  const [mean, unqueued] = [holdMs, baselineMs].map((ms) => Math.round(ms * 100) / 100);
  const times = holdMs > 0 ? ` (held for ${mean} ms on average, ${unqueued} ms without a queue)` : '';
  return `${part}${moveTexts[move]}${times}`;
}

/** The row of requests in flight with `adapt`. */
export const adaptive: Counting<AdaptiveLimit> = {
  ...slotted,
  named: () => 'in_flight',
  words: (limit) => `${limit.min} to ${slotted.words(limit)}, adaptive`,
  write: ({ windowMs, min, requestsPerUnit, adaptMs, target, ...limit }) => [
    `ttl: ${windowMs}ms`,
    `adapt: { target: ${target}, min: ${min}, max: ${requestsPerUnit}, window: ${adaptMs}ms }`,
    ...writeSharing(limit),
  ],
  list: ({ windowMs, min, requestsPerUnit, adaptMs, target, ...limit }) => ({
    ttl_ms: windowMs,
    adapt: { target, min, max: requestsPerUnit, window_ms: adaptMs },
    ...listSharing(limit),
  }),
  capacity: ({ requestsPerUnit }) => requestsPerUnit,
  longestMemoryMs: (limit) => Math.max(2 * limit.windowMs, forgetMs(limit)),
  account(limit, state, nowMs, claim) {
    const { hitsBefore, holds } = peek(adaptive, limit, state, nowMs, claim);
    const size = limit.path ? SHARED_SIZE : HOLD_SIZE;
    const used = hitsBefore - ownSlots(claim.holder ?? ANONYMOUS, holdsIn(state), nowMs, size);
    return { terms: [String(used)], used, note: holds?.adapted && adaptedText(holds.adapted, claim) };
  },
  isActiveChild: (state, nowMs, child) => hasMark(holdsIn(state), child, nowMs),
  measures: true,
  ...steppedOpen<AdaptiveLimit, AdaptiveNumbers, Slots, Claim>({
    compiled: compiled.adaptive,
    numbers,
    open,
    step,
    refund,
  }),
  describe(limit, report, nowMs, outcome, claim) {
    const [slots = 0, baselineUs = 0, latencyUs = 0, move = 0] = report;
    const { path } = limit;
    const inner = { ...limit, requestsPerUnit: path ? slots : allowedSlots(slots, claim) };
    const own = report.slice(REPORT_SIZE);
    const { holds, ...decision } = path
      ? describeShared({ ...inner, path: scalePath(path, slots, limit.requestsPerUnit) }, own, nowMs, outcome, claim)
      : describeSlots(inner, own, nowMs, outcome, { claim });
    const adapted = {
      limit: slots,
      move: moves[move] ?? 'new',
      holdMs: latencyUs / 1_000,
      baselineMs: baselineUs / 1_000,
    };
    return { ...decision, capacity: inner.requestsPerUnit, ...(holds && { holds: { ...holds, adapted } }) };
  },
  state: {
    longest: (limit, claim) =>
      ESTIMATE_SIZE + (limit.path ? longestShared(limit, claim) : HOLD_SIZE * mostHolds(limit, claim)),
    keepsEntries: true,
  },
  includes: [inFlight.script, sharedSlots.script],
};
