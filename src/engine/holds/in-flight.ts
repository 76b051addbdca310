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
import { windowed, windowSize } from '../algorithms/window.ts';
import { ANONYMOUS, type Claim } from './claim.ts';
import { type Counting, type NamedCounting, peek } from './counting.ts';
import { listSharing, type Sharing, writeSharing } from './fair-share.ts';
import { findHold, firstAfter, insert } from './hold-list.ts';
import { shareReasons } from './reports.ts';
import {
  ACCEPTED,
  hasMark,
  type Judgement,
  judge,
  MAX_WAITING,
  markCall,
  openSlots,
  reportShare,
  SHARED_SIZE,
  sharingArgs,
  slotShareScript,
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
export const holdSize = ({ path }: Partial<Sharing>): number => (path ? SHARED_SIZE : 3);

/** When the last hold of a list expires; 0 if it is empty. */
export const lastExpiry = (holds: State, size: number): number => holds[holds.length - size + 2] ?? 0;

/**
 * Requests in flight: slots that are taken until they are released or their ttl is over. Twin of in-flight.lua.
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
const step: Counting<InFlightLimit>['step'] = (limit, state, nowMs, hits, charge, claim = {}) => {
  const size = holdSize(limit);
  const holder = claimHolder(claim);
  const before = state && lastExpiry(state, size) + limit.windowMs > nowMs ? state : []; // the counter has expired
  const holds = before.slice(firstAfter(nowMs, before, size));
  const held = slotsIn(holds, size);
  const expired = slotsIn(before, size) - held;
  const own = holder === ANONYMOUS ? 0 : countSlots(holds, holder, size);
  const requested = hitsToFit(hits);
  const numbers = sharingArgs(limit, claim);
  const shared = limit.path && openSlots(windowSize(limit), numbers, holds, requested - own);
  const isHeld = hits < 0 || requested <= own;
  const judgement = isHeld || !shared ? ACCEPTED : judge(shared.levels, requested - own, shared.floor);
  const accepted = isHeld || (shared ? judgement[0] === 0 : held - own + requested <= windowSize(limit));
  if (charge && hits < 0) release(holds, holder, -hits, size);
  const isTaken = charge === 'regardless' || (charge && (accepted || holder === ANONYMOUS));
  const slots = Math.min(hits, MAX_COUNT - (held - own));
  if (slots > 0 && isTaken) take(holds, [holder, slots, expiresAtMs(limit, holder, nowMs), ...labels(numbers, size)]);
  if (shared && charge && hits !== 0) markCall(holds, shared, judgement, nowMs);
  const next = finishStep(limit, holds, nowMs, { held, requested, expired, accepted, judgement, numbers });
  return charge && hits !== 0 ? next : { ...next, state: before, ttlMs: untilForgottenMs(limit, before, nowMs) };
};

/** The children of a request, as in its hold. */
const labels = (numbers: readonly number[], size: number): readonly number[] =>
  [3, 7, 11].slice(0, size - 3).map((at) => numbers[at] ?? 0);

/** A step before its report. */
interface Stepped {
  /** Slots that were held before. */
  readonly held: number;
  readonly requested: number;
  readonly expired: number;
  readonly accepted: boolean;
  readonly judgement: Judgement;
  /** See `sharingArgs`. */
  readonly numbers: readonly number[];
}

function finishStep(limit: InFlightLimit, holds: number[], nowMs: number, stepped: Stepped): Step {
  const { held: before, requested, expired, accepted, judgement, numbers } = stepped;
  const size = holdSize(limit);
  const held = slotsIn(holds, size);
  let [first, last] = [0, holds.length - size]; // of those with slots
  while (holds[first + 1] === 0) first += size;
  while (holds[last + 1] === 0) last -= size;
  const share = limit.path ? reportShare(openSlots(windowSize(limit), numbers, holds), judgement) : [];
  const excess = Math.max(held + requested - windowSize(limit), judgement[0] === 0 ? 0 : 1);
  const freeMs = freeAtMs(holds, excess, size);
  const report = [before, held, holds[last + 2] ?? nowMs, freeMs, expired, holds[first + 2] ?? 0, ...share];
  return { accepted, state: holds, ttlMs: untilForgottenMs(limit, holds, nowMs), report };
}

/** One ttl beyond the last hold, so that expired holds are reported. */
const untilForgottenMs = (limit: InFlightLimit, holds: State, nowMs: number): number =>
  holds.length === 0 ? 0 : lastExpiry(holds, holdSize(limit)) + limit.windowMs - nowMs;

function slotsIn(holds: State, size: number): number {
  let slots = 0;
  for (let at = 1; at < holds.length; at += size) slots += holds[at] ?? 0;
  return slots;
}

/** Slots of a holder that has an id. */
function countSlots(holds: State, holder: number, size: number): number {
  const at = findHold(holder, holds, size);
  return at === undefined ? 0 : (holds[at + 1] ?? 0);
}

/** When slots that are taken now expire unless they are released. */
function expiresAtMs({ windowMs }: InFlightLimit, holder: number, nowMs: number): number {
  if (holder !== ANONYMOUS) return nowMs + windowMs;
  const partMs = Math.ceil(windowMs / PARTS);
  return Math.ceil((nowMs + windowMs) / partMs) * partMs;
}

type Hold = readonly [holder: number, slots: number, untilMs: number, ...children: number[]];

/** A holder has the number of slots that it requested last. */
function take(holds: number[], hold: Hold): void {
  const [holder, slots, untilMs, ...children] = hold;
  if (holder === ANONYMOUS) return takeAnonymous(holds, hold);
  const at = findHold(holder, holds, hold.length);
  const before = at === undefined ? [] : holds.splice(at, hold.length);
  insert(holds, [holder, slots, Math.max(untilMs, before[2] ?? 0), ...children]);
}

/**
 * Slots that are taken within one part of the ttl are one hold; if the clock ran backwards, they join the last hold.
 */
function takeAnonymous(holds: number[], hold: Hold): void {
  const [, slots, untilMs] = hold;
  for (let at = holds.length - hold.length; at >= 0; at -= hold.length) {
    if (holds[at] !== ANONYMOUS) continue;
    if ((holds[at + 2] ?? 0) < untilMs) break;
    holds[at + 1] = (holds[at + 1] ?? 0) + slots;
    return;
  }
  insert(holds, hold);
}

/** Releases slots of a holder, from its holds in order of expiry. */
function release(holds: number[], holder: number, slots: number, size: number): void {
  let left = slots;
  for (let at = 0; at < holds.length && left > 0; ) {
    const held = holds[at + 1] ?? 0;
    if (holds[at] !== holder) at += size;
    else if (held > left) {
      holds[at + 1] = held - left;
      return;
    } else {
      holds.splice(at, size);
      left -= held;
    }
  }
}

/** Time at which holds of this many slots will have expired; 0 if none need to, or there are fewer. */
function freeAtMs(holds: State, excess: number, size: number): number {
  let left = excess;
  for (let at = 0; at < holds.length && left > 0; at += size) {
    left -= holds[at + 1] ?? 0;
    if (left <= 0) return holds[at + 2] ?? 0;
  }
  return 0;
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
  keys: ['ttl', 'adapt', 'share'],
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
  step,
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
  refund(limit, state, nowMs, hits, chargedAtMs, claim = {}) {
    const size = holdSize(limit);
    const holder = claimHolder(claim);
    const holds = (state ?? []).slice(firstAfter(nowMs, state ?? [], size));
    const held = slotsIn(holds, size);
    const untilMs = expiresAtMs(limit, holder, chargedAtMs);
    for (let at = 0; at < holds.length; at += size) {
      if (holds[at] !== holder || holds[at + 2] !== untilMs || holds[at + 1] === 0) continue;
      const left = (holds[at + 1] ?? 0) - hits;
      if (left > 0) holds[at + 1] = left;
      else holds.splice(at, size);
      break;
    }
    const numbers = sharingArgs(limit, claim);
    return finishStep(limit, holds, nowMs, {
      held,
      requested: 1,
      expired: 0,
      accepted: true,
      judgement: ACCEPTED,
      numbers,
    });
  },
  state: {
    longest: (limit, claim) => {
      const holds = claimHolder(claim) === ANONYMOUS ? PARTS + 1 : Math.min(windowSize(limit), MAX_HELD_SLOTS);
      return holdSize(limit) * (limit.path ? holds + MAX_WAITING : holds);
    },
    keepsEntries: true,
  },
  sharing: [slotShareScript],
  script: new URL('./in-flight.lua', import.meta.url),
  scriptArgs: (limit, _nowMs, claim = {}) => [
    windowSize(limit),
    limit.windowMs,
    claimHolder(claim),
    ...sharingArgs(limit, claim),
  ],
};
