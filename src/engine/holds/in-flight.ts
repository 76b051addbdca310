import {
  type AnyLimit,
  type Charge,
  type Decision,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  type Outcome,
  repeatWait,
  type State,
  type Step,
  takenBy,
} from '../algorithms/limit.ts';
import { steppedOpen } from '../algorithms/stepped.ts';
import { windowed, windowSize } from '../algorithms/window.ts';
import { compiled } from '../lua/compiled.ts';
import { ANONYMOUS, type Claim } from './claim.ts';
import { type Counting, type NamedCounting, peek } from './counting.ts';
import { type HoldList, insertHold, removeHold, searchHold } from './hold-list.ts';
import type { Reports } from './reports.ts';

/** `windowMs` is the ttl, after which a slot that is not released becomes free. */
export interface InFlightLimit extends AnyLimit {
  readonly algorithm: 'in_flight';
}

const claimHolder = (claim: Claim | undefined): number => claim?.holder ?? ANONYMOUS;

/** Maximum number of slots of a limit whose requests have ids; each step reads and writes all holds. */
export const MAX_HELD_SLOTS = 1_000;

/** Slots without an id expire in batches, one for each of this many parts of the ttl, which bounds the entries. */
const PARTS = 64;

/** Numbers in a hold: holder, slots, time of expiry. Other kinds of limits add some: the functions below take a size. */
export const HOLD_SIZE = 3;

export interface InFlightNumbers {
  readonly slots: number;
  readonly windowMs: number;
  /** `ANONYMOUS` for none. */
  readonly holder: number;
}

const numbers = (limit: InFlightLimit, _nowMs: number, claim: Claim | undefined): InFlightNumbers => ({
  slots: windowSize(limit),
  windowMs: limit.windowMs,
  holder: claimHolder(claim),
});

export interface Holds extends HoldList {
  /** The sum of the slots that have expired since the last step that took or released some. */
  expired: number;
}

export function open(limit: InFlightNumbers, list: number[], nowMs: number): Holds {
  return openHolds(list, HOLD_SIZE, limit.windowMs, nowMs);
}

/** Prepares a list of holds for steps. */
export function openHolds(list: number[], size: number, ttlMs: number, nowMs: number): Holds {
  const length = list.length;
  const isForgotten = length > 0 && (list[length - size + 2] ?? 0) + ttlMs <= nowMs;
  let live = isForgotten ? length : 0;
  let expired = 0;
  let held = 0;
  const dropped = live;
  while (live < length && (list[live + 2] ?? 0) <= nowMs) {
    expired += list[live + 1] ?? 0;
    live += size;
  }
  for (let at = live + 1; at < length; at += size) held += list[at] ?? 0;
  const holds = list as Holds; // it becomes one here
  holds.dropped = dropped;
  holds.live = live;
  holds.held = held;
  holds.expired = expired;
  holds.searches = 0;
  return holds;
}

/**
 * Requests in flight: slots that are taken until they are released or their ttl is over.
 * State: for each hold its holder, its number of slots, and when it expires (ms since the epoch); sorted by expiry.
 * Report: slots held before and after the step, when the last of them expires, when the requested slots will be free at
 * the latest, the number of slots that have expired since the last step that took or released some, when the first of
 * them expires.
 *
 * With a holder both operations are exact and may be repeated: taking slots again renews the hold, and releasing slots
 * that are not held does nothing. Refused slots are not held. Without one (`ANONYMOUS`) every request counts until its
 * release, including refused ones, since they are released like the others; a release takes the oldest slots, so that
 * none expires before its request's own ttl is over.
 *
 * @param nowMs   may run backwards (clock skew): nothing expires then
 * @param hits    slots; 0 peeks: refused if a single slot would be; a negative number releases
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
export function step(limit: InFlightNumbers, holds: Holds, nowMs: number, hits: number, charge: Charge): Step {
  const before = holds.held;
  const expired = holds.expired;
  const own = slotsOf(holds, HOLD_SIZE, limit.holder);
  const requested = hitsToFit(hits);
  const accepted = hits < 0 || requested <= own || before - own + requested <= limit.slots;
  if (charge && hits !== 0) changeSlots(limit, holds, HOLD_SIZE, nowMs, hits, own, charge === 'regardless' || accepted);
  return finishSlots(limit, holds, HOLD_SIZE, nowMs, before, accepted, requested, expired);
}

/** The slots of a holder that has an id; else 0. */
export function slotsOf(holds: Holds, size: number, holder: number): number {
  const place = holder === ANONYMOUS ? -1 : searchHold(holds, size, holder);
  return place < 0 ? 0 : (holds[place + 1] ?? 0);
}

/**
 * Takes or releases slots.
 *
 * @param own      slots that the holder has
 * @param isTaken  slots are taken; without a holder they always are
 * @returns the index of the hold, whose further numbers are to be set; -1 if it is none, or has them
 */
export function changeSlots(
  limit: InFlightNumbers,
  holds: Holds,
  size: number,
  nowMs: number,
  hits: number,
  own: number,
  isTaken: boolean,
): number {
  const slots = Math.min(hits, MAX_COUNT - (holds.held - own));
  holds.dropped = holds.live;
  holds.expired = 0;
  if (hits < 0) release(holds, size, limit.holder, -hits);
  return slots > 0 && (isTaken || limit.holder === ANONYMOUS) ? take(limit, holds, size, nowMs, slots) : -1;
}

/** Only slots that were taken at exactly that time, and not renewed since, come back. */
export function refund(limit: InFlightNumbers, holds: Holds, nowMs: number, hits: number, chargedAtMs: number): Step {
  const before = holds.held;
  takeBack(limit, holds, HOLD_SIZE, hits, chargedAtMs);
  return finishSlots(limit, holds, HOLD_SIZE, nowMs, before, true, 1, 0);
}

export function takeBack(limit: InFlightNumbers, holds: Holds, size: number, hits: number, chargedAtMs: number): void {
  const length = holds.length;
  const untilMs = expiresAtMs(limit, chargedAtMs);
  holds.dropped = holds.live;
  holds.expired = 0;
  for (let at = holds.live; at < length; at += size) {
    const held = holds[at + 1] ?? 0;
    if (holds[at] === limit.holder && holds[at + 2] === untilMs && held > 0) {
      holds.held -= Math.min(held, hits);
      if (held > hits) holds[at + 1] = held - hits;
      else removeHold(holds, size, at);
      break;
    }
  }
}

/** @param before  slots held before the step. @param expired  before it */
export function finishSlots(
  limit: InFlightNumbers,
  holds: Holds,
  size: number,
  nowMs: number,
  before: number,
  accepted: boolean,
  requested: number,
  expired: number,
): Step {
  const live = holds.live;
  const held = holds.held;
  let first = live; // of those with slots
  let last = holds.length - size;
  while (holds[first + 1] === 0) first += size;
  while (last >= live && holds[last + 1] === 0) last -= size;
  const lastMs = last >= live ? (holds[last + 2] ?? 0) : nowMs;
  const excess = Math.max(held + requested - limit.slots, accepted ? 0 : 1);
  const report = [before, held, lastMs, freeAtMs(holds, size, excess), expired, holds[first + 2] ?? 0];
  const isEmpty = holds.length <= holds.dropped;
  // one ttl beyond the last hold, so that expired holds are reported
  const ttlMs = isEmpty ? 0 : (holds[holds.length - size + 2] ?? 0) + limit.windowMs - nowMs;
  return { accepted, state: holds, ttlMs, report };
}

/** When slots that are taken now expire unless they are released. */
function expiresAtMs(limit: InFlightNumbers, nowMs: number): number {
  if (limit.holder !== ANONYMOUS) return nowMs + limit.windowMs;
  const partMs = Math.ceil(limit.windowMs / PARTS);
  return Math.ceil((nowMs + limit.windowMs) / partMs) * partMs;
}

/** A holder has the number of slots that it requested last. @returns the index of the hold; -1 if they joined one */
function take(limit: InFlightNumbers, holds: Holds, size: number, nowMs: number, slots: number): number {
  const holder = limit.holder;
  let untilMs = expiresAtMs(limit, nowMs);
  if (holder === ANONYMOUS && joinLast(holds, size, untilMs, slots)) return -1;
  if (holder !== ANONYMOUS) {
    const place = searchHold(holds, size, holder);
    if (place >= 0) {
      untilMs = Math.max(untilMs, holds[place + 2] ?? 0);
      holds.held -= holds[place + 1] ?? 0;
      removeHold(holds, size, place);
    }
  }
  holds.held += slots;
  return insertHold(holds, size, holder, slots, untilMs);
}

/**
 * Slots without an id that are taken within one part of the ttl are one hold; if the clock ran backwards, they join the
 * last hold.
 *
 * @returns false if they need a new hold
 */
function joinLast(holds: Holds, size: number, untilMs: number, slots: number): boolean {
  const live = holds.live;
  for (let at = holds.length - size; at >= live; at -= size) {
    if (holds[at] === ANONYMOUS) {
      if ((holds[at + 2] ?? 0) < untilMs) return false;
      holds[at + 1] = (holds[at + 1] ?? 0) + slots;
      holds.held += slots;
      return true;
    }
  }
  return false;
}

/** Releases slots of a holder, from its holds in order of expiry. */
function release(holds: Holds, size: number, holder: number, slots: number): void {
  let left = slots;
  while (left > 0) {
    const place = searchHold(holds, size, holder);
    if (place < 0) return;
    const held = holds[place + 1] ?? 0;
    holds.held -= Math.min(held, left);
    if (held > left) holds[place + 1] = held - left;
    else removeHold(holds, size, place);
    left -= held;
  }
}

/** Time at which holds of this many slots will have expired; 0 if none need to, or there are fewer. */
function freeAtMs(holds: Holds, size: number, excess: number): number {
  const length = holds.length;
  let left = excess;
  if (left <= 0 || left > holds.held) return 0;
  for (let at = holds.live; at < length; at += size) {
    left -= holds[at + 1] ?? 0;
    if (left <= 0) return holds[at + 2] ?? 0;
  }
  return 0;
}

/** Slots of a holder that has an id, among the holds of a state. */
export function ownSlots(holder: number, holds: State | undefined, nowMs: number, size: number): number {
  if (holder === ANONYMOUS || !holds) return 0;
  const at = holds.findIndex((one, at) => at % size === 0 && one === holder && (holds[at + 2] ?? 0) > nowMs);
  return at < 0 ? 0 : (holds[at + 1] ?? 0);
}

/** What all limits on requests in flight answer. */
export const slotted = {
  counts: 'slots',
  notARate: 'in_flight limits requests in flight, not a rate',
  words: ({ requestsPerUnit, windowMs }) =>
    `${requestsPerUnit} in flight for up to ${windowMs % 1_000 === 0 ? `${windowMs / 1_000} s` : `${windowMs} ms`}`,
  hasHolders: true,
  draw: ({ windowMs }) => ({ kind: 'slots', ttlMs: windowMs }),
  standsAlone: (_limit, hits, claim) => hits < 0 || claimHolder(claim) === ANONYMOUS,
} as const satisfies Partial<Counting>;

/** The decision of a step, from its report. @param most  slots that a request can have */
export function describeSlots(
  limit: AnyLimit,
  [hitsBefore = 0, held = 0, lastMs = 0, freeMs = 0, expired = 0, firstMs = 0]: State,
  nowMs: number,
  outcome: Outcome,
  { claim, most = windowSize(limit) }: { readonly claim: Claim | undefined; readonly most?: number },
): Decision & Pick<Reports, 'holds'> {
  const { hits, accepted } = outcome;
  const fits = hitsToFit(hits) <= most;
  return {
    code: accepted ? 'OK' : 'OVER_LIMIT',
    hitsBefore,
    limitRemaining: Math.max(limit.requestsPerUnit - held, 0),
    durationUntilResetMs: Math.max(lastMs - nowMs, 0),
    retryAfterMs: accepted ? 0 : fits ? Math.max(freeMs - nowMs, 1) : NEVER_MS,
    repeatAfterMs: claimHolder(claim) === ANONYMOUS ? repeatWait(outcome, freeMs - nowMs) : undefined,
    delayMs: 0,
    soft: accepted && takenBy(outcome) > 0 && held > limit.requestsPerUnit,
    holds: {
      held,
      oldestMs: held > 0 ? Math.max(nowMs - (firstMs - limit.windowMs), 0) : 0,
      expired: outcome.charged && hits !== 0 ? expired : 0,
    },
  };
}

/** Maximum number of holds in a state. */
export const mostHolds = (limit: AnyLimit, claim: Claim | undefined): number =>
  claimHolder(claim) === ANONYMOUS ? PARTS + 1 : Math.min(windowSize(limit), MAX_HELD_SLOTS);

/** The row of requests in flight. */
export const inFlight: NamedCounting<InFlightLimit> = {
  ...slotted,
  keys: ['ttl', 'share'],
  parse(numbers, { hasId, report }) {
    const limit = { ...numbers, counter: 'in_flight', algorithm: 'in_flight' } as const; // another ttl, the same slots
    const slots = windowSize(limit);
    if (!hasId || slots <= MAX_HELD_SLOTS) return limit;
    return report(
      'requests_per_unit',
      `in_flight with ids has at most ${MAX_HELD_SLOTS} slots (soft ones included), got ${slots}; without not_counted: hold it may have more`,
    );
  },
  write: (limit) => [`ttl: ${limit.windowMs}ms`],
  list: (limit) => ({ ttl_ms: limit.windowMs }),
  capacity: windowed.capacity,
  longestMemoryMs: windowed.longestMemoryMs,
  account(limit, state, nowMs, claim) {
    const { hitsBefore } = peek(inFlight, limit, state, nowMs, claim);
    const used = hitsBefore - ownSlots(claimHolder(claim), state, nowMs, HOLD_SIZE); // own slots are not counted twice
    return { terms: [String(used)], used };
  },
  ...steppedOpen({ compiled: compiled.in_flight, numbers, open, step, refund }),
  describe: (limit, report, nowMs, outcome, claim) => describeSlots(limit, report, nowMs, outcome, { claim }),
  state: {
    longest: (limit, claim) => HOLD_SIZE * mostHolds(limit, claim),
    keepsEntries: true,
  },
};
