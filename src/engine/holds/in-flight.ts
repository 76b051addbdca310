import {
  type AnyLimit,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  repeatWait,
  type State,
  type Step,
  takenBy,
} from '../algorithms/limit.ts';
import { twoWindowsMs, windowCapacity, windowSize } from '../algorithms/window.ts';
import { ANONYMOUS, type Claim } from './claim.ts';
import type { Counting, NamedCounting } from './counting.ts';
import { findHold, firstAfter, insert } from './hold-list.ts';

/** `windowMs` is the ttl: a slot that is not released becomes free after this time. */
export interface InFlightLimit extends AnyLimit {
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

/** Numbers in a hold: holder, slots, time of expiry. */
export const SIZE = 3;

/**
 * Requests in flight: slots that are taken until they are released or their ttl is over. Twin of in-flight.lua.
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
const step: Counting<InFlightLimit>['step'] = (limit, state, nowMs, hits, charge, claim) => {
  const holder = claimHolder(claim);
  const before = state && (state.at(-1) ?? 0) + limit.windowMs > nowMs ? state : []; // the counter has expired
  const holds = unexpired(before, nowMs);
  const held = slotsIn(holds);
  const expired = slotsIn(before) - held;
  const own = holder === ANONYMOUS ? 0 : countSlots(holds, holder);
  const requested = hitsToFit(hits);
  const accepted = hits < 0 || requested <= own || held - own + requested <= windowSize(limit);
  if (charge && hits < 0) release(holds, holder, -hits);
  const isTaken = charge === 'regardless' || (charge && (accepted || holder === ANONYMOUS));
  const slots = Math.min(hits, MAX_COUNT - (held - own));
  if (slots > 0 && isTaken) take(holds, holder, slots, expiresAtMs(limit, holder, nowMs));
  const next = finishStep(limit, holds, nowMs, held, accepted, requested, expired);
  return charge && hits !== 0 ? next : { ...next, state: before, ttlMs: untilForgottenMs(limit, before, nowMs) };
};

function finishStep(
  limit: InFlightLimit,
  holds: number[],
  nowMs: number,
  before: number,
  accepted: boolean,
  requested: number,
  expired: number,
): Step {
  const lastMs = holds.at(-1) ?? nowMs;
  const held = slotsIn(holds);
  const freeMs = freeAtMs(holds, held + requested - windowSize(limit));
  const report = [before, held, lastMs, freeMs, expired, holds[2] ?? 0];
  return { accepted, state: holds, ttlMs: untilForgottenMs(limit, holds, nowMs), report };
}

/** One ttl beyond the last hold, so that expired holds are reported. */
const untilForgottenMs = ({ windowMs }: InFlightLimit, holds: State, nowMs: number): number =>
  holds.length === 0 ? 0 : (holds.at(-1) ?? 0) + windowMs - nowMs;

/** A copy without expired holds. */
const unexpired = (holds: State, nowMs: number): number[] => holds.slice(firstAfter(nowMs, holds, SIZE));

function slotsIn(holds: State): number {
  let slots = 0;
  for (let at = 1; at < holds.length; at += SIZE) slots += holds[at] ?? 0;
  return slots;
}

/** Slots of a holder that has an id. */
function countSlots(holds: State, holder: number): number {
  const at = findHold(holder, holds, SIZE);
  return at === undefined ? 0 : (holds[at + 1] ?? 0);
}

/** When slots that are taken now expire unless they are released. */
function expiresAtMs({ windowMs }: InFlightLimit, holder: number, nowMs: number): number {
  if (holder !== ANONYMOUS) return nowMs + windowMs;
  const partMs = Math.ceil(windowMs / PARTS);
  return Math.ceil((nowMs + windowMs) / partMs) * partMs;
}

/** A holder has the number of slots that it requested last. */
function take(holds: number[], holder: number, slots: number, untilMs: number): void {
  if (holder === ANONYMOUS) return takeAnonymous(holds, untilMs, slots);
  const at = findHold(holder, holds, SIZE);
  const before = at === undefined ? [] : holds.splice(at, SIZE);
  insert(holds, [holder, slots, Math.max(untilMs, before[2] ?? 0)]);
}

/**
 * Slots that are taken within one part of the ttl are one hold; if the clock ran backwards, they join the last hold.
 */
function takeAnonymous(holds: number[], untilMs: number, slots: number): void {
  for (let at = holds.length - SIZE; at >= 0; at -= SIZE) {
    if (holds[at] !== ANONYMOUS) continue;
    if ((holds[at + 2] ?? 0) < untilMs) break;
    holds[at + 1] = (holds[at + 1] ?? 0) + slots;
    return;
  }
  insert(holds, [ANONYMOUS, slots, untilMs]);
}

/** Releases slots of a holder, from its holds in order of expiry. */
function release(holds: number[], holder: number, slots: number): void {
  let left = slots;
  for (let at = 0; at < holds.length && left > 0; ) {
    const held = holds[at + 1] ?? 0;
    if (holds[at] !== holder) at += SIZE;
    else if (held > left) {
      holds[at + 1] = held - left;
      return;
    } else {
      holds.splice(at, SIZE);
      left -= held;
    }
  }
}

/** Time at which holds of this many slots will have expired; 0 if none need to, or there are fewer. */
function freeAtMs(holds: State, excess: number): number {
  let left = excess;
  for (let at = 0; at < holds.length && left > 0; at += SIZE) {
    left -= holds[at + 1] ?? 0;
    if (left <= 0) return holds[at + 2] ?? 0;
  }
  return 0;
}

/** Slots of a holder. */
export const ownSlots = (holder: number, state: State | undefined, nowMs: number): number =>
  holder === ANONYMOUS ? 0 : countSlots(unexpired(state ?? [], nowMs), holder);

/** The row of requests in flight. */
export const inFlight: NamedCounting<InFlightLimit> = {
  keys: ['ttl'],
  parse(numbers, { hasId, report }) {
    const limit = { ...numbers, counter: 'in_flight', algorithm: 'in_flight' } as const; // another ttl, the same slots
    const slots = windowSize(limit);
    if (!hasId || slots <= MAX_HELD_SLOTS) return limit;
    return report(
      'requests_per_unit',
      `in_flight with ids has at most ${MAX_HELD_SLOTS} slots (soft ones included), got ${slots}; without not_counted: hold it may have more`,
    );
  },
  write: ({ windowMs }) => [`ttl: ${windowMs}ms`],
  list: ({ windowMs }) => ({ ttl_ms: windowMs }),
  capacity: windowCapacity,
  longestMemoryMs: twoWindowsMs,
  hasHolders: true,
  standsAlone: (_limit, hits, claim) => hits < 0 || claimHolder(claim) === ANONYMOUS,
  step,
  describe(limit, [hitsBefore = 0, held = 0, lastMs = 0, freeMs = 0, expired = 0, firstMs = 0], nowMs, outcome, claim) {
    const { hits, accepted } = outcome;
    const fits = hitsToFit(hits) <= windowSize(limit);
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
  },
  refund(limit, state, nowMs, hits, chargedAtMs, claim) {
    const holder = claimHolder(claim);
    const holds = unexpired(state ?? [], nowMs);
    const held = slotsIn(holds);
    const untilMs = expiresAtMs(limit, holder, chargedAtMs);
    for (let at = 0; at < holds.length; at += SIZE) {
      if (holds[at] !== holder || holds[at + 2] !== untilMs) continue;
      const left = (holds[at + 1] ?? 0) - hits;
      if (left > 0) holds[at + 1] = left;
      else holds.splice(at, SIZE);
      break;
    }
    return finishStep(limit, holds, nowMs, held, true, 1, 0);
  },
  state: {
    longest: (limit, claim) =>
      SIZE * (claimHolder(claim) === ANONYMOUS ? PARTS + 1 : Math.min(windowSize(limit), MAX_HELD_SLOTS)),
    keepsEntries: true,
  },
  script: new URL('./in-flight.lua', import.meta.url),
  scriptArgs: (limit, _nowMs, claim) => [windowSize(limit), limit.windowMs, claimHolder(claim)],
};
