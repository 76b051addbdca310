import { type Rate, type RateLimit, rateFor, rateNames, rates } from '../../engine/algorithms/index.ts';
import {
  type AnyLimit,
  type Charge,
  MAX_COUNT,
  peekedHits,
  type State,
  type Step,
} from '../../engine/algorithms/limit.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import { type Opened, steppedOpen } from '../../engine/algorithms/stepped.ts';
import { ANONYMOUS, type Claim } from '../../engine/holds/claim.ts';
import { type Counting, peek } from '../../engine/holds/counting.ts';
import { type HoldList, insertHold, removeHold, searchHold } from '../../engine/holds/hold-list.ts';
import { reservationEvents } from '../../engine/holds/reports.ts';
import type { Reserving } from '../../engine/holds/reserving.ts';
import { compiled } from '../../engine/lua/compiled.ts';
import { describeReservation, endsTogether, OWN_NUMBERS } from './reservation-report.ts';

/** How rules treat hits beyond those reserved: they are charged, or not. */
export const overruns = ['debt', 'clip'] as const;

/** How rules treat reservations that are never committed: they stay charged, or become free. */
export const lapses = ['charge', 'free'] as const;

/** A limit whose hits are reserved first, and charged when the number used is known. */
export interface ReservationLimit extends AnyLimit, Reserving {
  readonly algorithm: 'reservation';
  readonly onOverrun: (typeof overruns)[number];
}

/** Maximum number of requests that a counter holds: those with a reservation, then the most recently settled ones. */
const MAX_RESERVATIONS = 1_000;

/** Numbers in an entry: holder, hits (0 if settled), when it expires or was settled, when it was made. */
const SIZE = 4;

/** Of sums and times that are not known. */
const UNKNOWN_MS = -9_007_199_254_740_991;

const PEEKED = reservationEvents.indexOf('peeked');
const REFUSED = reservationEvents.indexOf('refused');
const REFUSED_ALONE = reservationEvents.indexOf('refused_alone');
const RESERVED = reservationEvents.indexOf('reserved');
const COMMITTED = reservationEvents.indexOf('committed');
const LATE = reservationEvents.indexOf('late');
const UNKNOWN = reservationEvents.indexOf('unknown');
const REPEATED = reservationEvents.indexOf('repeated');
const GIVEN_BACK = reservationEvents.indexOf('given_back');
const FULL = reservationEvents.indexOf('full');

interface ReservationNumbers {
  /** The place of the counter's algorithm. */
  readonly algorithm: number;
  /** 1 if reservations end with a window of the counter. */
  readonly endsWithWindow: number;
  readonly ttlMs: number;
  /** 1 if hits beyond those reserved are not charged. */
  readonly clips: number;
  /** `ANONYMOUS` for none. */
  readonly holder: number;
  /** 1 if the hits are those used. */
  readonly commits: number;
  /** 1 if lapsed reservations are charged. */
  readonly chargesLapsed: number;
  /** How long a lapsed reservation is remembered. */
  readonly memoryMs: number;
  /** Hits that must fit for a peek to be accepted. */
  readonly peekedHits: number;
  /** The counter's own limit. */
  readonly inner: RateLimit;
}

interface Reservations extends HoldList {
  /** State of the counter of charged hits; undefined if nothing has been charged. */
  inner: State | undefined;
  /** Of the counter's last step. */
  innerTtlMs: number;
  innerReport: State;
  /** Start of the current window; 0 if reservations do not end with a window. */
  startMs: number;
  /** Hits of reservations that have lapsed since the last step, and how many these are. */
  lapsed: number;
  lapses: number;
  /** The number of reservations that count, which `held` is the sum of; those made before `sinceMs` do not. */
  count: number;
  sinceMs: number;
  /** When the first of them to expire was made, and when the last expires; 0 if there is none. */
  firstMadeMs: number;
  lastMs: number;
  /** For each entry the sum of the hits that count up to it, if it is known. */
  sums: number[] | undefined;
  /** What the next step begins with, if this is a copy. */
  kept: Reservations | undefined;
}

const stepInner = (
  limit: ReservationNumbers,
  inner: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step => (rates[limit.algorithm] as Rate).step(limit.inner, inner, nowMs, hits, charge);

const refundInner = (
  limit: ReservationNumbers,
  inner: State | undefined,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step => (rates[limit.algorithm] as Rate).refund(limit.inner, inner, nowMs, hits, chargedAtMs);

/** Whether an entry can still be committed in time. */
const isOpen = (list: Reservations, at: number, nowMs: number): boolean =>
  (list[at + 1] ?? 0) > 0 && (list[at + 2] ?? 0) > nowMs;

/** @param startMs  reservations made before this time do not count: their window is over */
const counts = (list: Reservations, at: number, nowMs: number, startMs: number): boolean =>
  isOpen(list, at, nowMs) && (list[at + 3] ?? 0) >= startMs;

const ownPlace = (limit: ReservationNumbers, list: Reservations): number =>
  limit.holder === ANONYMOUS ? -1 : searchHold(list, SIZE, limit.holder);

const windowStartIn = (limit: ReservationNumbers, inner: State): number =>
  limit.endsWithWindow === 1 ? (inner[0] ?? 0) : 0;

/** How many of the first numbers of a counter's state do not count. */
const droppedIn = (inner: State): number => (inner as Opened).dropped ?? 0;

export function open(_limit: ReservationNumbers, numbers: number[], _nowMs: number): Reservations {
  const length = numbers.length;
  const first = length === 0 ? 0 : 1 + (numbers[0] ?? 0);
  const list = numbers as Reservations; // it becomes one here
  list.inner = undefined;
  if (first > 1) {
    const inner: number[] = [];
    for (let at = 1; at < first; at++) inner[at - 1] = numbers[at] ?? 0;
    list.inner = inner;
  }
  list.live = first;
  list.dropped = first;
  list.searches = 0;
  list.sinceMs = UNKNOWN_MS;
  writeInner(list);
  return list;
}

/** Drops entries that expired at this time or before. */
function dropBefore(list: Reservations, timeMs: number): void {
  const length = list.length;
  let live = list.live;
  while (live < length && (list[live + 2] ?? 0) <= timeMs) live += SIZE;
  list.live = live;
  list.dropped = live;
}

/** Whether an entry has expired without a commit, and is remembered. */
const isLapsed = (limit: ReservationNumbers, list: Reservations, at: number, nowMs: number): boolean =>
  (list[at + 1] ?? 0) > 0 && (list[at + 2] ?? 0) + limit.memoryMs > nowMs;

/** What a state has before the entries. */
function writeInner(list: Reservations): void {
  const inner = list.inner;
  list.before = inner === undefined ? [[0]] : [[inner.length - droppedIn(inner)], inner];
}

/**
 * Reserve, then commit: a list of reservations beside the counter of another algorithm.
 * State: the length of the counter's own state, that state, then for each reservation its holder, hits, when it expires
 * and when it was made (ms since the epoch); sorted by expiry. A lapsed reservation is kept for one more ttl with
 * negative hits, and a settled one with 0 hits, so that late and repeated commits are recognized.
 * Report: the event's place, hits reserved, charged and overrun, hits on hold after the step, the number of
 * reservations, when the first of them was made and the last expires, when the requested hits can be reserved at the
 * latest, the hits that have lapsed since the last step, in how many reservations, the usage that the step adds; then
 * the counter's own report.
 *
 * To reserve, the unchanged algorithm tests without a charge whether the hits on hold and the requested ones pass
 * together. To commit, it charges the hits used, even beyond the limit. If windows end for all requests at once
 * (`fixed_window`, except with `first_hit`), a reservation counts in the window in which it was made, and a commit is
 * charged to the window of its own time. A lapsed reservation is charged by the next step, at the time at which it
 * lapsed, and corrected by a late commit, as far as it still counts. A peek sees it as charged, but leaves it to the
 * next step. A charge of 0 hits by nobody does nothing else.
 *
 * @param nowMs   may run backwards (clock skew): nothing expires then
 * @param hits    reserve: hits to hold, 0 to peek; commit: hits used; negative for charged hits to return
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
export function step(limit: ReservationNumbers, list: Reservations, nowMs: number, hits: number, charge: Charge): Step {
  if (limit.commits === 1 || (charge === 'regardless' && hits >= 0)) return commit(limit, list, nowMs, hits, charge);
  if (hits >= 0) return reserve(limit, list, nowMs, hits, hits > 0 && charge);
  const own = lapse(limit, list, nowMs, charge);
  const next: Step = stepInner(limit, own.inner, nowMs, hits, charge);
  keepInner(limit, own, next.state, next.ttlMs, next.report ?? next.state);
  return finishStep(limit, own, nowMs, charge, true, GIVEN_BACK, 0, 0, 0, 0, 0);
}

/** Takes back a commit's hits, or a reservation. What has lapsed is left to the next step. */
export function refund(
  limit: ReservationNumbers,
  list: Reservations,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step {
  dropBefore(list, nowMs - limit.memoryMs);
  if (limit.commits === 1) {
    const back: Step = refundInner(limit, list.inner, nowMs, hits, chargedAtMs);
    keepInner(limit, list, back.state, back.ttlMs, back.report ?? back.state);
  } else {
    const own = ownPlace(limit, list);
    if (own >= 0 && list[own + 1] === hits && list[own + 2] === chargedAtMs + limit.ttlMs) remove(list, own, nowMs);
    const next: Step = stepInner(limit, list.inner, nowMs, 0, false);
    keepInner(limit, list, next.state, next.ttlMs, next.report ?? next.state);
  }
  return finishStep(limit, list, nowMs, false, true, GIVEN_BACK, 0, 0, 0, 0, 0);
}

function reserve(limit: ReservationNumbers, list: Reservations, nowMs: number, hits: number, charge: Charge): Step {
  const own = lapse(limit, list, nowMs, charge);
  const inner = own.inner;
  const now: Step = stepInner(limit, inner, nowMs, 0, false);
  const startMs = windowStartIn(limit, now.state);
  sumHolds(own, nowMs, startMs);
  const place = ownPlace(limit, own);
  const ownHits = place >= 0 && counts(own, place, nowMs, startMs) ? (own[place + 1] ?? 0) : 0;
  const required = hits === 0 ? limit.peekedHits : hits;
  const isRenewed = place >= 0 && hits > 0 && hits <= ownHits;
  const isFull = place < 0 && !hasRoom(own, nowMs);
  if (!isRenewed && (isFull || !fits(limit, inner, nowMs, own.held - ownHits + required))) {
    const alone: Step = stepInner(limit, inner, nowMs, Math.min(required, MAX_COUNT), false);
    if (!alone.accepted) {
      keepInner(limit, own, alone.state, alone.ttlMs, alone.report ?? alone.state);
      return finishStep(limit, own, nowMs, charge, false, REFUSED_ALONE, 0, 0, 0, 0, 0);
    }
    let freeMs = freeAtMs(limit, own, inner, nowMs, required, place, ownHits);
    if (isFull) freeMs = Math.max(freeMs, own[own.live + 2] ?? 0); // the first to expire
    keepInner(limit, own, now.state, now.ttlMs, now.report ?? now.state);
    return finishStep(limit, own, nowMs, charge, false, isFull ? FULL : REFUSED, 0, 0, 0, freeMs, 0);
  }
  keepInner(limit, own, now.state, now.ttlMs, now.report ?? now.state);
  const event = hits === 0 ? PEEKED : RESERVED;
  if (charge) {
    const untilMs = Math.max(nowMs + limit.ttlMs, place < 0 ? 0 : (own[place + 2] ?? 0));
    if (place >= 0) remove(own, place, nowMs);
    add(own, limit.holder, hits, untilMs, Math.max(nowMs, startMs), nowMs);
  }
  return finishStep(limit, own, nowMs, charge, true, event, hits, 0, 0, 0, 0);
}

function commit(limit: ReservationNumbers, list: Reservations, nowMs: number, hits: number, charge: Charge): Step {
  const own = lapse(limit, list, nowMs, charge);
  const used = Math.max(hits, 0);
  const place = limit.commits === 1 ? ownPlace(limit, own) : -1;
  const kept = place < 0 ? 0 : (own[place + 1] ?? 0);
  const untilMs = place < 0 ? 0 : (own[place + 2] ?? 0);
  const reserved = kept < 0 ? -kept : kept;
  const unknown = limit.commits === 0 && used === 0 ? PEEKED : UNKNOWN; // a charge of 0 hits only settles
  const event = place < 0 ? unknown : reserved === 0 ? REPEATED : untilMs <= nowMs ? LATE : COMMITTED;
  const isReserved = event === COMMITTED || event === LATE;
  const most = limit.clips === 1 && isReserved ? reserved : used;
  const charged = event === REPEATED ? 0 : Math.min(used, most);
  const overrun = isReserved ? Math.max(used - reserved, 0) : 0;
  const owed = charged - (kept < 0 && isLapseCharged(limit, own, nowMs, untilMs) ? reserved : 0);
  const next: Step = stepInner(limit, own.inner, nowMs, Math.max(owed, 0), charge ? 'regardless' : false);
  keepInner(limit, own, next.state, next.ttlMs, next.report ?? next.state);
  if (charge && owed < 0) {
    const back: Step = refundInner(limit, own.inner, nowMs, -owed, untilMs);
    keepInner(limit, own, back.state, back.ttlMs, back.report ?? back.state);
  }
  if (charge && event !== REPEATED && limit.commits === 1 && limit.holder !== ANONYMOUS) {
    if (place >= 0) remove(own, place, nowMs);
    add(own, limit.holder, 0, nowMs, nowMs, nowMs);
  }
  const corrected = kept < 0 && limit.chargesLapsed === 1 ? reserved : 0;
  return finishStep(limit, own, nowMs, charge, true, event, reserved, charged, overrun, 0, corrected);
}

/** Whether a reservation that lapsed at this time was charged to the current window. */
function isLapseCharged(limit: ReservationNumbers, list: Reservations, nowMs: number, untilMs: number): boolean {
  if (limit.chargesLapsed === 0) return false;
  const now: Step = stepInner(limit, list.inner, nowMs, 0, false);
  return untilMs >= windowStartIn(limit, now.state);
}

/**
 * Charges what has lapsed since the last step at the time at which it lapsed, and drops what is too old for a late
 * commit. A step without a charge leaves this to the next one.
 *
 * @returns the list, or a copy if the step changes nothing
 */
function lapse(limit: ReservationNumbers, list: Reservations, nowMs: number, charge: Charge): Reservations {
  const length = list.length;
  let lapsed = 0;
  let lapses = 0;
  for (let at = list.live; at < length; at += SIZE) {
    if ((list[at + 2] ?? 0) > nowMs) break;
    if (isLapsed(limit, list, at, nowMs)) {
      lapsed += list[at + 1] ?? 0;
      lapses++;
    }
  }
  const own = lapsed > 0 && charge === false ? copyOf(limit, list, nowMs) : list;
  own.lapsed = lapsed;
  own.lapses = lapses;
  if (lapsed > 0) chargeLapsed(limit, own, nowMs);
  dropBefore(own, nowMs - limit.ttlMs);
  return own;
}

function chargeLapsed(limit: ReservationNumbers, list: Reservations, nowMs: number): void {
  const length = list.length;
  for (let at = list.live; at < length; at += SIZE) {
    const untilMs = list[at + 2] ?? 0;
    if (untilMs > nowMs) break;
    const hits = list[at + 1] ?? 0;
    if (isLapsed(limit, list, at, nowMs)) {
      if (limit.chargesLapsed === 1) {
        const next: Step = stepInner(limit, list.inner, untilMs, Math.min(hits, MAX_COUNT), 'regardless');
        if (next.ttlMs > 0) list.inner = closedCopy(next.state);
      }
      list[at + 1] = -hits;
    }
  }
}

/** A state without the numbers that do not count, which the next step opens at its own time. */
function closedCopy(state: State): State {
  const numbers: number[] = [];
  const end = state.length;
  for (let at = droppedIn(state); at < end; at++) numbers[numbers.length] = state[at] ?? 0;
  return numbers;
}

function copyOf(limit: ReservationNumbers, list: Reservations, nowMs: number): Reservations {
  const numbers = [0];
  const inner = list.inner;
  if (inner !== undefined) {
    const end = inner.length;
    for (let at = droppedIn(inner); at < end; at++) numbers[numbers.length] = inner[at] ?? 0;
    numbers[0] = numbers.length - 1;
  }
  const length = list.length;
  for (let at = list.live; at < length; at++) numbers[numbers.length] = list[at] ?? 0;
  const copy = open(limit, numbers, nowMs);
  copy.kept = list;
  return copy;
}

/** Keeps the result of the counter's step, unless it is like a new one. */
function keepInner(limit: ReservationNumbers, list: Reservations, state: State, ttlMs: number, report: State): void {
  list.inner = ttlMs > 0 ? state : undefined;
  list.innerTtlMs = ttlMs;
  list.innerReport = report;
  list.startMs = windowStartIn(limit, state);
}

/** @param freeMs  when the hits can be reserved. @param corrected  hits that were counted as used when they lapsed */
function finishStep(
  limit: ReservationNumbers,
  list: Reservations,
  nowMs: number,
  charge: Charge,
  accepted: boolean,
  event: number,
  reserved: number,
  charged: number,
  overrun: number,
  freeMs: number,
  corrected: number,
): Step {
  sumHolds(list, nowMs, list.startMs);
  if (list.lastMs === UNKNOWN_MS) findEnds(list, nowMs, list.startMs);
  const madeMs = list.firstMadeMs;
  const report = [event, reserved, charged, overrun, list.held, list.count, madeMs, list.lastMs, freeMs, 0, 0, 0];
  if (charge) {
    report[9] = list.lapsed;
    report[10] = list.lapses;
    report[11] = charged - corrected + (limit.chargesLapsed === 1 ? list.lapsed : 0);
  }
  const inner = list.innerReport;
  const count = inner.length;
  for (let at = 0; at < count; at++) report[OWN_NUMBERS + at] = inner[at] ?? 0;
  writeInner(list);
  const state = list.kept ?? list;
  const length = state.length;
  const rememberedMs = length > state.live ? (state[length - 2] ?? 0) + limit.memoryMs - nowMs : 0;
  return { accepted, state, ttlMs: Math.max(list.innerTtlMs, rememberedMs, 0), report };
}

function fits(limit: ReservationNumbers, inner: State | undefined, nowMs: number, hits: number): boolean {
  const trial: Step = stepInner(limit, inner, nowMs, Math.min(hits, MAX_COUNT), false);
  return trial.accepted;
}

/** Whether another entry can be added: there are few, or the first one can be dropped. */
const hasRoom = (list: Reservations, nowMs: number): boolean =>
  list.length - list.live < MAX_RESERVATIONS * SIZE || !isOpen(list, list.live, nowMs);

/** Sums the reservations that count. */
function sumHolds(list: Reservations, nowMs: number, startMs: number): void {
  if (list.sinceMs === startMs) return;
  const length = list.length;
  let held = 0;
  let count = 0;
  for (let at = list.live; at < length; at += SIZE) {
    if (counts(list, at, nowMs, startMs)) {
      held += list[at + 1] ?? 0;
      count++;
    }
  }
  list.held = held;
  list.count = count;
  list.sinceMs = startMs;
  list.lastMs = UNKNOWN_MS;
  list.sums = undefined;
}

function findEnds(list: Reservations, nowMs: number, startMs: number): void {
  const length = list.length;
  let first = list.live;
  let last = length - SIZE;
  while (first < length && !counts(list, first, nowMs, startMs)) first += SIZE;
  while (last > first && !counts(list, last, nowMs, startMs)) last -= SIZE;
  list.firstMadeMs = first < length ? (list[first + 3] ?? 0) : 0;
  list.lastMs = first < length ? (list[last + 2] ?? 0) : 0;
}

/** Adds an entry to the sums, or subtracts it. */
function sumEntry(list: Reservations, at: number, by: number, nowMs: number): void {
  if (list.sinceMs !== UNKNOWN_MS && counts(list, at, nowMs, list.sinceMs)) {
    list.held += by * (list[at + 1] ?? 0);
    list.count += by;
  }
  list.lastMs = UNKNOWN_MS;
  list.sums = undefined;
}

function remove(list: Reservations, place: number, nowMs: number): void {
  sumEntry(list, place, -1, nowMs);
  removeHold(list, SIZE, place);
}

/** Does nothing if the list is full. */
function add(list: Reservations, holder: number, hits: number, untilMs: number, madeMs: number, nowMs: number): void {
  if (list.length - list.live >= MAX_RESERVATIONS * SIZE) {
    if (isOpen(list, list.live, nowMs)) return;
    list.live += SIZE;
    list.dropped = list.live;
  }
  const place = insertHold(list, SIZE, holder, hits, untilMs);
  list[place + 3] = madeMs;
  sumEntry(list, place, 1, nowMs);
}

/**
 * Latest time at which enough reservations will have expired for the hits to fit; 0 if there is none.
 *
 * @param own      index of an entry to leave out; -1 for none
 * @param ownHits  its hits that count
 */
function freeAtMs(
  limit: ReservationNumbers,
  list: Reservations,
  inner: State | undefined,
  nowMs: number,
  hits: number,
  own: number,
  ownHits: number,
): number {
  const live = list.live;
  const others = list.held - ownHits;
  const sums = list.sums ?? sumUp(list, nowMs);
  const end = sums.length;
  let low = 0;
  while (low < end && freedBy(sums, live, low, own, ownHits) === 0) low++;
  let high = end;
  let middle = low; // most often the first suffices
  while (low < high) {
    if (fits(limit, inner, nowMs, others - freedBy(sums, live, middle, own, ownHits) + hits)) high = middle;
    else low = middle + 1;
    middle = Math.floor((low + high) / 2);
  }
  return low < end ? (list[live + low * SIZE + 2] ?? 0) : 0;
}

/** Hits that are free once an entry and those before it have expired. */
const freedBy = (sums: number[], live: number, entry: number, own: number, ownHits: number): number =>
  (sums[entry] ?? 0) - (own >= 0 && own <= live + entry * SIZE ? ownHits : 0);

function sumUp(list: Reservations, nowMs: number): number[] {
  const length = list.length;
  const sums: number[] = [];
  let sum = 0;
  for (let at = list.live; at < length; at += SIZE) {
    if (counts(list, at, nowMs, list.sinceMs)) sum += list[at + 1] ?? 0;
    sums[sums.length] = sum;
  }
  list.sums = sums;
  return sums;
}

/**
 * How long a reservation is remembered after it has lapsed, so that the next step can charge it. A later step ignores
 * it, since stores drop counters then.
 */
const lapseMemoryMs = ({ inner, ttlMs, onLapse }: ReservationLimit): number =>
  onLapse === 'free' ? ttlMs : Math.max(ttlMs, rateFor(inner).longestMemoryMs(inner));

const counted = steppedOpen<ReservationLimit, ReservationNumbers, Reservations, Claim>({
  compiled: compiled.reservation,
  numbers: (limit, _nowMs, { holder = ANONYMOUS, commits = false } = {}) => {
    const { inner, ttlMs, onOverrun, onLapse } = limit;
    return {
      algorithm: rateNames.indexOf(inner.algorithm),
      endsWithWindow: endsTogether(inner) ? 1 : 0,
      ttlMs,
      clips: onOverrun === 'clip' ? 1 : 0,
      holder,
      commits: commits ? 1 : 0,
      chargesLapsed: onLapse === 'charge' ? 1 : 0,
      memoryMs: lapseMemoryMs(limit),
      peekedHits: peekedHits(rateFor(inner)),
      inner,
    };
  },
  open,
  step,
  refund,
});

/** The row of reservations: rules have `reserve` beside the algorithm that counts. */
export const reservation: Counting<ReservationLimit> = {
  notARate: 'the hits of reserve are known only when they are committed',
  named: ({ inner }) => inner.algorithm,
  words: (_limit, rate) => `${rate}, reserved`,
  reserves: true,
  write: ({ inner, ttlMs, onOverrun, onLapse, estimate }) => [
    ...rateFor(inner).write(inner),
    `reserve: { ttl: ${ttlMs}ms, on_overrun: ${onOverrun}, on_lapse: ${onLapse}${estimate === undefined ? '' : `, estimate: ${estimate}`} }`,
  ],
  list: ({ inner, ttlMs, onOverrun, onLapse, estimate }) => ({
    ...rateFor(inner).list(inner),
    reserve: {
      ttl_ms: ttlMs,
      on_overrun: onOverrun,
      on_lapse: onLapse,
      ...(estimate !== undefined && { estimate }),
    },
  }),
  capacity: ({ inner }) => rateFor(inner).capacity(inner),
  longestMemoryMs: (limit) => limit.ttlMs + lapseMemoryMs(limit),
  hasHolders: true,
  heldAt({ inner }) {
    const { first, last, unit } = rateFor(inner).heldAt(inner);
    return { first: OWN_NUMBERS + first, last: OWN_NUMBERS + last, unit };
  },
  account(limit, state, nowMs) {
    const { hitsBefore: used, reservation: { held = 0 } = {} } = peek(reservation, limit, state, nowMs);
    return { terms: [showCount(limit, used - held), `${showCount(limit, held)} on hold`], used };
  },
  standsAlone: (_limit, _hits, { commits = false }) => commits,
  ...counted,
  describe: ({ inner }, report, nowMs, outcome) => describeReservation(inner, report, nowMs, outcome),
  state: {
    longest: ({ inner }) => (rateFor(inner).state.longest?.(inner) ?? 0) + MAX_RESERVATIONS * SIZE,
    keepsEntries: true,
  },
  scriptArgs: (limit, nowMs, claim) => [
    ...counted.scriptArgs(limit, nowMs, claim),
    ...rateFor(limit.inner).scriptArgs(limit.inner, nowMs),
  ],
};
