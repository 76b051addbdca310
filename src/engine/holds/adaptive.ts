import { MAX_COUNT, type State, type Step } from '../algorithms/limit.ts';
import { CEILING } from './admission.ts';
import { ANONYMOUS, type Claim } from './claim.ts';
import {
  type AdaptiveLimit,
  advance,
  ESTIMATE_SIZE,
  type Estimate,
  forgetMs,
  noteRelease,
  noteTake,
  readEstimate,
  wholeSlots,
  writeEstimate,
} from './concurrency.ts';
import { type Counting, peek } from './counting.ts';
import { listSharing, writeSharing } from './fair-share.ts';
import { findHold, firstAfter } from './hold-list.ts';
import {
  holdSize,
  type InFlightLimit,
  inFlight,
  inFlightWords,
  lastExpiry,
  NOT_A_RATE,
  ownSlots,
} from './in-flight.ts';
import { type AdaptedReport, moves, moveTexts } from './reports.ts';
import { hasMark, scalePath, sharingArgs, thresholdSlots } from './slot-share.ts';

/** Numbers in a report before those of the inner counter: slots, baseline and hold time in µs, the place of the move. */
const REPORT_SIZE = 4;

/** The threshold of requests that state no priority, in percent. */
const ALL = 100;

/** The slots that a request of this priority may use; at least one. */
const allowedSlots = (slots: number, claim: Claim | undefined): number =>
  thresholdSlots(slots, claim?.threshold ?? ALL);

/** The limit that counts, with a number of slots. */
const innerLimit = (limit: AdaptiveLimit, slots: number, claim?: Claim): InFlightLimit => ({
  algorithm: 'in_flight',
  counter: limit.counter,
  requestsPerUnit: limit.path ? slots : allowedSlots(slots, claim),
  soft: 0,
  windowMs: limit.windowMs,
  ...(limit.path && { path: scalePath(limit.path, slots, limit.requestsPerUnit) }),
  ...(limit.threshold !== undefined && { threshold: limit.threshold }),
  ...(limit.spare !== undefined && { spare: limit.spare }),
});

/**
 * Requests in flight, with a number of slots that follows from hold times and outcomes. Twin of adaptive.lua.
 * State: the numbers of an `Estimate`, then the holds as in in-flight.ts.
 * Report: slots, baseline and hold time in µs, the place of the move in `moves`; then the report of in-flight.ts.
 *
 * A release with a status releases all slots of its holder. Failures are 500 and above; 400 to 499 are not measured:
 * they may be the proxy's own answers.
 */
const step: Counting<AdaptiveLimit>['step'] = (limit, stored, nowMs, hits, charge, claim) => {
  const { estimate, holds } = open(limit, stored, nowMs);
  const holder = claim?.holder ?? ANONYMOUS;
  const status = claim?.status ?? 0;
  const size = holdSize(limit);
  const own = findHold(holder, holds, size, firstAfter(nowMs, holds, size));
  const takenMs = holder === ANONYMOUS || own === undefined ? undefined : (holds[own + 2] ?? 0) - limit.windowMs;
  const asked = status === 0 || hits >= 0 ? hits : holder === ANONYMOUS ? -1 : -MAX_COUNT;
  const inner = inFlight.step(innerLimit(limit, wholeSlots(estimate), claim), holds, nowMs, asked, charge, claim);
  const { 0: before = 0, 1: held = 0, 6: reason = 0 } = inner.report ?? [];
  // a refusal means that the limit is used, even if it leaves slots to others, unless it is by a ceiling
  const needed = inner.accepted || reason === CEILING ? held : Math.max(before + hits, wholeSlots(estimate));
  const next =
    hits < 0
      ? noteRelease(estimate, nowMs, { holder, takenMs, status })
      : noteTake(estimate, nowMs, Math.min(needed, limit.requestsPerUnit));
  if (charge && hits !== 0) return finishStep(limit, next, inner);
  const { ttlMs, ...peeked } = finishStep(limit, estimate, inner);
  return { ...peeked, state: stored ?? [], ttlMs: stored && stored.length > 0 ? ttlMs : 0 };
};

/** The holds in a state, as in in-flight.ts. */
const holdsIn = (state: State | undefined): State => state?.slice(ESTIMATE_SIZE) ?? [];

interface Opened {
  readonly estimate: Estimate;
  readonly holds: State;
}

/** The parts of a state; new ones if the counter has expired. */
function open(limit: AdaptiveLimit, stored: State | undefined, nowMs: number): Opened {
  const holds = holdsIn(stored);
  const lastMs = lastExpiry(holds, holdSize(limit));
  const read = readEstimate(limit, stored, nowMs);
  const isForgotten = read.lastMs + forgetMs(limit) <= nowMs && lastMs + limit.windowMs <= nowMs;
  const estimate = isForgotten ? readEstimate(limit, undefined, nowMs) : read;
  return { estimate: advance(limit, estimate, nowMs, lastMs <= nowMs), holds };
}

function finishStep(limit: AdaptiveLimit, estimate: Estimate, inner: Step): Step {
  const { baselineUs, latencyUs, move } = estimate;
  return {
    accepted: inner.accepted,
    state: [...writeEstimate(estimate), ...inner.state],
    ttlMs: Math.max(inner.ttlMs, forgetMs(limit)),
    report: [wholeSlots(estimate), baselineUs, latencyUs, move, ...(inner.report ?? [])],
  };
}

/** Why the limit is what it is. */
function adaptedText({ limit, move, holdMs, baselineMs }: AdaptedReport, { threshold }: Claim): string {
  const part = threshold === undefined ? '' : `${threshold} % of ${limit} slots, `;
  const [mean, unqueued] = [holdMs, baselineMs].map((ms) => Math.round(ms * 100) / 100);
  const times = holdMs > 0 ? ` (held for ${mean} ms on average, ${unqueued} ms without a queue)` : '';
  return `${part}${moveTexts[move]}${times}`;
}

/** The row of requests in flight with `adapt`. */
export const adaptive: Counting<AdaptiveLimit> = {
  counts: 'slots',
  notARate: NOT_A_RATE,
  named: () => 'in_flight',
  words: (limit) => `${limit.min} to ${inFlightWords(limit)}, adaptive`,
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
  hasHolders: true,
  draw: ({ windowMs }) => ({ kind: 'slots', ttlMs: windowMs }),
  account(limit, state, nowMs, claim) {
    const { hitsBefore, holds } = peek(adaptive, limit, state, nowMs, claim);
    const used = hitsBefore - ownSlots(limit, claim.holder ?? ANONYMOUS, holdsIn(state), nowMs);
    return { terms: [String(used)], used, note: holds?.adapted && adaptedText(holds.adapted, claim) };
  },
  isActiveChild: (state, nowMs, child) => hasMark(holdsIn(state), child, nowMs),
  measures: true,
  standsAlone: (_limit, hits, { holder = ANONYMOUS }) => hits < 0 || holder === ANONYMOUS,
  step,
  describe(limit, report, nowMs, outcome, claim) {
    const [slots = 0, baselineUs = 0, latencyUs = 0, move = 0] = report;
    const inner = innerLimit(limit, slots, claim);
    const { holds, ...decision } = inFlight.describe(inner, report.slice(REPORT_SIZE), nowMs, outcome, claim);
    const adapted = {
      limit: slots,
      move: moves[move] ?? 'new',
      holdMs: latencyUs / 1_000,
      baselineMs: baselineUs / 1_000,
    };
    return { ...decision, capacity: inner.requestsPerUnit, ...(holds && { holds: { ...holds, adapted } }) };
  },
  refund(limit, stored, nowMs, hits, chargedAtMs, claim) {
    const { estimate, holds } = open(limit, stored, nowMs);
    const slots = wholeSlots(estimate);
    const inner = inFlight.refund(innerLimit(limit, slots, claim), holds, nowMs, hits, chargedAtMs, claim);
    return finishStep(limit, estimate, inner);
  },
  state: {
    longest: (limit, claim) =>
      ESTIMATE_SIZE + (inFlight.state.longest?.(innerLimit(limit, limit.requestsPerUnit), claim) ?? 0),
    keepsEntries: true,
  },
  includes: [inFlight.script],
  script: new URL('./adaptive.lua', import.meta.url),
  scriptArgs: (limit, _nowMs, claim = {}) => {
    const { min, requestsPerUnit, adaptMs, target, windowMs } = limit;
    const { holder = ANONYMOUS, threshold = ALL, status = 0 } = claim;
    const isAimd = target === 'aimd' ? 1 : 0;
    return [windowMs, holder, min, requestsPerUnit, adaptMs, isAimd, threshold, status, ...sharingArgs(limit, claim)];
  },
};
