import {
  type AnyLimit,
  type Charge,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  repeatWait,
  type State,
  type Step,
  takenBy,
} from '../algorithms/limit.ts';
import { steppedOpen } from '../algorithms/stepped.ts';
import { windowed, windowSize } from '../algorithms/window.ts';
import { compiled } from '../lua/compiled.ts';
import { ACCEPTED, type Judgement, judge } from './admission.ts';
import { ANONYMOUS, type Claim } from './claim.ts';
import { type NamedCounting, peek } from './counting.ts';
import { listSharing, type Sharing, writeSharing } from './fair-share.ts';
import { findHold, firstAfter, type HoldList, insertHold, removeHold, searchHold } from './hold-list.ts';
import { shareReasons } from './reports.ts';
import {
  hasMark,
  MAX_WAITING,
  markCall,
  NOT_SHARED,
  openSlots,
  type PathNumbers,
  reportShare,
  SHARED_SIZE,
  sharingArgs,
  stopWaiting,
} from './slot-share.ts';

/** `windowMs` is the ttl, after which a slot that is not released becomes free. Children share a limit with a path. */
export interface InFlightLimit extends AnyLimit, Partial<Sharing> {
  readonly algorithm: 'in_flight';
}

const claimHolder = (claim: Claim | undefined): number => claim?.holder ?? ANONYMOUS;

/** Maximum number of slots of a limit whose requests have ids; each step reads and writes all holds. */
export const MAX_HELD_SLOTS = 1_000;

/**
 * Slots without an id expire in batches, one for each of this many parts of the ttl, which bounds the entries for any
 * number of slots.
 */
const PARTS = 64;

/** Numbers in a hold: holder, slots, time of expiry; more in those of a shared limit. */
const holdSize = ({ path }: Partial<Sharing>): number => (path ? SHARED_SIZE : 3);

export interface InFlightNumbers extends PathNumbers {
  readonly slots: number;
  readonly windowMs: number;
  /** `ANONYMOUS` for none. */
  readonly holder: number;
  readonly threshold: number;
  readonly depth: number;
  readonly spare: number;
  readonly children: number[];
}

function numbers(limit: InFlightLimit, _nowMs: number, claim: Claim | undefined): InFlightNumbers {
  const [threshold = NOT_SHARED, depth = 0, spare = 0, ...children] = sharingArgs(limit, claim ?? {});
  const holder = claimHolder(claim);
  return { slots: windowSize(limit), windowMs: limit.windowMs, holder, threshold, depth, spare, children };
}

export interface Holds extends HoldList {
  /** The sum of the slots that have expired since the last step that took or released some. */
  expired: number;
}

const sizeOf = (limit: InFlightNumbers): number => (limit.threshold === NOT_SHARED ? 3 : SHARED_SIZE);

export function open(limit: InFlightNumbers, list: number[], nowMs: number): Holds {
  const size = sizeOf(limit);
  const length = list.length;
  const isForgotten = length > 0 && (list[length - size + 2] ?? 0) + limit.windowMs <= nowMs;
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
 * State: for each hold its holder, its number of slots, and when it expires (ms since the epoch); sorted by expiry. If
 * children share the slots, also the children of its request: see slot-share.ts.
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
  const size = sizeOf(limit);
  const holder = limit.holder;
  const before = holds.held;
  const expired = holds.expired;
  const place = holder === ANONYMOUS ? -1 : searchHold(holds, size, holder);
  const own = place < 0 ? 0 : (holds[place + 1] ?? 0);
  const requested = hitsToFit(hits);
  const isHeld = hits < 0 || requested <= own;
  const isShared = limit.threshold !== NOT_SHARED;
  const judgement = isShared && !isHeld ? judgeSlots(limit, holds, requested - own) : ACCEPTED;
  const accepted = isHeld || (isShared ? judgement[0] === 0 : before - own + requested <= limit.slots);
  if (charge && hits !== 0) {
    holds.dropped = holds.live;
    holds.expired = 0;
    if (hits < 0) release(holds, size, holder, -hits);
    const slots = Math.min(hits, MAX_COUNT - (before - own));
    if (slots > 0 && (charge === 'regardless' || accepted || holder === ANONYMOUS)) take(limit, holds, nowMs, slots);
    if (isShared) markCall(limit, holds, judgement, nowMs);
    if (isShared && accepted && !isHeld) stopWaiting(limit, holds);
  }
  return finishStep(limit, holds, nowMs, before, accepted, requested, expired, judgement);
}

/** What other kinds of limits call whose holds are the list: the first call opens it. */
export const stepSlots = (limit: InFlightNumbers, holds: Holds, nowMs: number, hits: number, charge: Charge): Step =>
  step(limit, openOnce(limit, holds, nowMs), nowMs, hits, charge);

export const refundSlots = (
  limit: InFlightNumbers,
  holds: Holds,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step => refund(limit, openOnce(limit, holds, nowMs), nowMs, hits, chargedAtMs);

const openOnce = (limit: InFlightNumbers, holds: Holds, nowMs: number): Holds =>
  holds.searches === undefined ? open(limit, holds, nowMs) : holds;

function judgeSlots(limit: InFlightNumbers, holds: Holds, wanted: number): Judgement {
  const shared = openSlots(limit, holds, wanted);
  return judge(shared.levels, wanted, shared.floor);
}

/** Only slots that were taken at exactly that time, and not renewed since, come back. */
export function refund(limit: InFlightNumbers, holds: Holds, nowMs: number, hits: number, chargedAtMs: number): Step {
  const size = sizeOf(limit);
  const before = holds.held;
  const length = holds.length;
  const untilMs = expiresAtMs(limit, chargedAtMs);
  holds.dropped = holds.live;
  holds.expired = 0;
  for (let at = holds.live; at < length; at += size) {
    const held = holds[at + 1] ?? 0;
    if (holds[at] === limit.holder && holds[at + 2] === untilMs && held > 0) {
      holds.held = before - Math.min(held, hits);
      if (held > hits) holds[at + 1] = held - hits;
      else removeHold(holds, size, at);
      break;
    }
  }
  return finishStep(limit, holds, nowMs, before, true, 1, 0, ACCEPTED);
}

function finishStep(
  limit: InFlightNumbers,
  holds: Holds,
  nowMs: number,
  before: number,
  accepted: boolean,
  requested: number,
  expired: number,
  judgement: Judgement,
): Step {
  const size = sizeOf(limit);
  const live = holds.live;
  const held = holds.held;
  let first = live; // of those with slots
  let last = holds.length - size;
  while (holds[first + 1] === 0) first += size;
  while (last >= live && holds[last + 1] === 0) last -= size;
  const lastMs = last >= live ? (holds[last + 2] ?? 0) : nowMs;
  // one ttl beyond the last hold, so that expired holds are reported
  const isEmpty = holds.length <= holds.dropped;
  const ttlMs = isEmpty ? 0 : (holds[holds.length - size + 2] ?? 0) + limit.windowMs - nowMs;
  const excess = Math.max(held + requested - limit.slots, judgement[0] === 0 ? 0 : 1);
  const report = [before, held, lastMs, freeAtMs(holds, size, excess), expired, holds[first + 2] ?? 0];
  if (limit.threshold !== NOT_SHARED) reportShare(limit, holds, judgement, report);
  return { accepted, state: holds, ttlMs, report };
}

/** When slots that are taken now expire unless they are released. */
function expiresAtMs(limit: InFlightNumbers, nowMs: number): number {
  if (limit.holder !== ANONYMOUS) return nowMs + limit.windowMs;
  const partMs = Math.ceil(limit.windowMs / PARTS);
  return Math.ceil((nowMs + limit.windowMs) / partMs) * partMs;
}

/** A holder has the number of slots that it requested last. */
function take(limit: InFlightNumbers, holds: Holds, nowMs: number, slots: number): void {
  const size = sizeOf(limit);
  const holder = limit.holder;
  let untilMs = expiresAtMs(limit, nowMs);
  if (holder === ANONYMOUS && joinLast(holds, size, untilMs, slots)) return;
  if (holder !== ANONYMOUS) {
    const place = searchHold(holds, size, holder);
    if (place >= 0) {
      untilMs = Math.max(untilMs, holds[place + 2] ?? 0);
      holds.held -= holds[place + 1] ?? 0;
      removeHold(holds, size, place);
    }
  }
  const place = insertHold(holds, size, holder, slots, untilMs);
  for (let at = 3; at < size; at++) holds[place + at] = at - 3 < limit.depth ? (limit.children[4 * (at - 3)] ?? 0) : 0;
  holds.held += slots;
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

/** Slots of a holder that has an id. */
function countSlots(holds: State, holder: number, size: number): number {
  const at = findHold(holder, holds, size);
  return at === undefined ? 0 : (holds[at + 1] ?? 0);
}

/** Slots of a holder. @param limit  whose counter has these holds */
export const ownSlots = (limit: Partial<Sharing>, holder: number, holds: State | undefined, nowMs: number): number => {
  const size = holdSize(limit);
  return holder === ANONYMOUS || !holds ? 0 : countSlots(holds.slice(firstAfter(nowMs, holds, size)), holder, size);
};

export const NOT_A_RATE = 'in_flight limits requests in flight, not a rate';

export const inFlightWords = ({ requestsPerUnit, windowMs }: AnyLimit): string =>
  `${requestsPerUnit} in flight for up to ${windowMs % 1_000 === 0 ? `${windowMs / 1_000} s` : `${windowMs} ms`}`;

/** The row of requests in flight. */
export const inFlight: NamedCounting<InFlightLimit> = {
  counts: 'slots',
  notARate: NOT_A_RATE,
  words: inFlightWords,
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
  write: (limit) => [`ttl: ${limit.windowMs}ms`, ...writeSharing(limit)],
  list: (limit) => ({ ttl_ms: limit.windowMs, ...listSharing(limit) }),
  capacity: windowed.capacity,
  longestMemoryMs: windowed.longestMemoryMs,
  hasHolders: true,
  draw: ({ windowMs }) => ({ kind: 'slots', ttlMs: windowMs }),
  account(limit, state, nowMs, claim) {
    const { hitsBefore } = peek(inFlight, limit, state, nowMs, claim);
    const used = hitsBefore - ownSlots(limit, claimHolder(claim), state, nowMs); // own slots are not counted twice
    return { terms: [String(used)], used };
  },
  isActiveChild: (state, nowMs, child) => hasMark(state ?? [], child, nowMs),
  standsAlone: (_limit, hits, claim) => hits < 0 || claimHolder(claim) === ANONYMOUS,
  ...steppedOpen({ compiled: compiled.in_flight, numbers, open, step, refund }),
  describe(limit, report, nowMs, outcome, claim) {
    const [hitsBefore = 0, held = 0, lastMs = 0, freeMs = 0, expired = 0, firstMs = 0, ...share] = report;
    const [reason = 0, level = 0, used = 0, borrowed = 0, left = 0, heldForOthers = 0, room = 0] = share;
    const { hits, accepted } = outcome;
    const ceilings = limit.path?.map(({ ceiling }) => ceiling || windowSize(limit)) ?? [];
    const fits = hitsToFit(hits) <= Math.min(windowSize(limit), ...ceilings);
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore,
      limitRemaining: limit.path ? room : Math.max(limit.requestsPerUnit - held, 0),
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
      ...(limit.path && {
        share: { reason: shareReasons[reason] ?? 'passed', level, used, borrowed, unspent: left, held: heldForOthers },
      }),
    };
  },
  state: {
    longest: (limit, claim) => {
      const holds = claimHolder(claim) === ANONYMOUS ? PARTS + 1 : Math.min(windowSize(limit), MAX_HELD_SLOTS);
      return holdSize(limit) * (limit.path ? holds + MAX_WAITING : holds);
    },
    keepsEntries: true,
  },
};
