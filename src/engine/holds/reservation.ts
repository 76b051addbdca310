import { type RateLimit, rateFor, rateNames } from '../algorithms/index.ts';
import {
  type Algorithm,
  type AnyLimit,
  type Charge,
  MAX_COUNT,
  peekedHits,
  type State,
  type Step,
} from '../algorithms/limit.ts';
import { showCount } from '../algorithms/money.ts';
import { ANONYMOUS, type Claim } from './claim.ts';
import { type Counting, peek } from './counting.ts';
import { findHold, firstAfter, insert as insertHold } from './hold-list.ts';
import { type ReservationEvent, reservationEvents } from './reports.ts';
import { describeReservation, endsTogether, OWN_NUMBERS } from './reservation-report.ts';

/** How rules treat hits beyond those reserved: they are charged, or not. */
export const overruns = ['debt', 'clip'] as const;

/** How rules treat reservations that are never committed: they stay charged, or become free. */
export const lapses = ['charge', 'free'] as const;

/** A limit whose hits are reserved first, and charged when the number used is known. */
export interface ReservationLimit extends AnyLimit {
  readonly algorithm: 'reservation';
  /** The limit that counts charged hits. */
  readonly inner: RateLimit;
  /** A reservation that is not committed lapses after this time. */
  readonly ttlMs: number;
  readonly onOverrun: (typeof overruns)[number];
  readonly onLapse: (typeof lapses)[number];
  /** The minimum reserved: a fixed number of hits, or the 95th percentile of the counter's recent requests. */
  readonly estimate?: number | 'p95' | undefined;
}

/** The input of a step: an operation, and the counter's state. */
interface StepInput {
  readonly limit: ReservationLimit;
  readonly holder: number;
  readonly commits: boolean;
  readonly row: Algorithm<RateLimit>;
  readonly state: State;
  /** State of the counter of charged hits; undefined if nothing has been charged. */
  readonly inner: State | undefined;
  readonly entries: ReservationList;
  /** Hits of reservations that have lapsed since the last step, and how many these are. */
  readonly lapsed: number;
  readonly lapses: number;
  readonly nowMs: number;
  readonly hits: number;
  readonly charge: Charge;
}

/** The result of a step, except for the state. */
interface Done {
  readonly event: ReservationEvent;
  readonly accepted: boolean;
  /** Hits reserved, now or before. */
  readonly reserved?: number;
  readonly charged?: number;
  /** Hits used beyond those reserved. */
  readonly overrun?: number;
  /** Hits that were counted as used when they lapsed, and are not. */
  readonly corrected?: number;
  readonly freeMs?: number;
}

/**
 * Reserve, then commit: a list of reservations beside the counter of another algorithm. Twin of reservation.lua.
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
 * charged to the window of its own time. A lapsed reservation is charged by the next step, unless the window in which
 * it has lapsed is over, and corrected by a late commit. A peek sees it as charged, but leaves it to the next step. A
 * charge of 0 hits by nobody does nothing else.
 *
 * @param nowMs   may run backwards (clock skew): nothing expires then
 * @param hits    reserve: hits to hold, 0 to peek; commit: hits used; negative for charged hits to return
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
function run(input: StepInput): Step {
  const { limit, commits, row, inner, entries, nowMs, hits, charge } = input;
  if (commits || (charge === 'regardless' && hits >= 0)) return commit(input);
  if (hits >= 0) return reserve(hits === 0 ? { ...input, charge: false } : input);
  return finishStep(input, row.step(limit.inner, inner, nowMs, hits, charge), entries, {
    event: 'given_back',
    accepted: true,
  });
}

function reserve(input: StepInput): Step {
  const { limit, holder, row, inner, entries, nowMs, hits, charge } = input;
  const { ttlMs } = limit;
  const peek = row.step(limit.inner, inner, nowMs, 0, false);
  const moment: Moment = { nowMs, startMs: currentWindowStart(input, peek) };
  const own = findEntry(entries, holder);
  const held = onHold(entries, moment, own).hits;
  const required = hits === 0 ? peekedHits(row) : hits;
  const tryWith = (others: number): Step =>
    row.step(limit.inner, inner, nowMs, Math.min(others + required, MAX_COUNT), false);
  const isRenewed = own !== undefined && hits > 0 && hits <= hitsAt(entries.numbers, own, moment);
  const isFull = own === undefined && !hasRoom(entries, nowMs);
  if (!isRenewed && (isFull || !tryWith(held).accepted)) {
    const alone = tryWith(0);
    if (!alone.accepted) return finishStep(input, alone, entries, { event: 'refused_alone', accepted: false });
    const freeMs = freeAtMs(entries, moment, own, (left) => tryWith(left).accepted);
    const roomMs = isFull ? (entries.numbers[entries.first + 2] ?? 0) : 0; // the first to expire
    const event = isFull ? 'full' : 'refused';
    return finishStep(input, peek, entries, { event, accepted: false, freeMs: Math.max(freeMs, roomMs) });
  }
  if (hits === 0) return finishStep(input, peek, entries, { event: 'peeked', accepted: true });
  const done: Done = { event: 'reserved', accepted: true, reserved: hits };
  if (!charge) return finishStep(input, peek, entries, done);
  const next = copyEntries(entries, own);
  const untilMs = Math.max(nowMs + ttlMs, own === undefined ? 0 : (entries.numbers[own + 2] ?? 0));
  insert(next, [holder, hits, untilMs, Math.max(nowMs, moment.startMs)], nowMs);
  return finishStep(input, peek, { numbers: next, first: 0 }, done);
}

function commit(input: StepInput): Step {
  const { limit, holder, commits, row, inner, entries, nowMs, hits, charge } = input;
  const used = Math.max(hits, 0);
  const own = commits ? findEntry(entries, holder) : undefined;
  const kept = own === undefined ? 0 : (entries.numbers[own + 1] ?? 0);
  const reserved = Math.abs(kept);
  const event =
    own === undefined
      ? settlesOnly(input)
        ? 'peeked'
        : 'unknown'
      : reserved === 0
        ? 'repeated'
        : timely(entries.numbers[own + 2] ?? 0, nowMs);
  const isReserved = event === 'committed' || event === 'late';
  const most = limit.onOverrun === 'clip' && isReserved ? reserved : used;
  const charged = event === 'repeated' ? 0 : Math.min(used, most);
  const overrun = isReserved ? Math.max(used - reserved, 0) : 0;
  const isCharged = own !== undefined && kept < 0 && isLapseCharged(input, entries.numbers[own + 2] ?? 0);
  const owed = event === 'repeated' ? 0 : charged - (isCharged ? reserved : 0);
  const next = row.step(limit.inner, inner, nowMs, owed, charge ? 'regardless' : false);
  const corrected = kept < 0 && limit.onLapse === 'charge' ? reserved : 0;
  const done: Done = { event, accepted: true, reserved, charged, overrun, corrected };
  if (!charge || event === 'repeated' || !commits || holder === ANONYMOUS)
    return finishStep(input, next, entries, done);
  const left = copyEntries(entries, own);
  insert(left, [holder, 0, nowMs, nowMs], nowMs);
  return finishStep(input, next, { numbers: left, first: 0 }, done);
}

/** Whether a commit of nobody only charges what has lapsed. */
const settlesOnly = ({ commits, hits }: StepInput): boolean => !commits && hits === 0;

const timely = (untilMs: number, nowMs: number): 'committed' | 'late' => (untilMs <= nowMs ? 'late' : 'committed');

/** Whether a reservation that lapsed at this time counts in the counter. */
const isLapseCharged = (input: StepInput, untilMs: number): boolean =>
  input.limit.onLapse === 'charge' &&
  untilMs >= currentWindowStart(input, input.row.step(input.limit.inner, input.inner, input.nowMs, 0, false));

/** Charges what has lapsed since the last step, and leaves out what is too old for a late commit. */
function lapse(input: StepInput): StepInput {
  const { limit, row, inner, entries, nowMs } = input;
  const { numbers } = entries;
  const first = firstAfter(nowMs - limit.ttlMs, numbers, SIZE, entries.first);
  const places: number[] = [];
  for (let at = entries.first; at < numbers.length && (numbers[at + 2] ?? 0) <= nowMs; at += SIZE)
    if ((numbers[at + 1] ?? 0) > 0) places.push(at);
  if (places.length === 0) return { ...input, entries: { numbers, first } };
  const left = numbers.slice(first);
  let [lapsed, owed] = [0, 0];
  for (const at of places) {
    const hits = numbers[at + 1] ?? 0;
    lapsed += hits;
    if (isLapseCharged(input, numbers[at + 2] ?? 0)) owed += hits;
    if (at >= first) left[at - first + 1] = -hits;
  }
  const next = owed === 0 ? undefined : row.step(limit.inner, inner, nowMs, Math.min(owed, MAX_COUNT), 'regardless');
  const counter = next && next.ttlMs > 0 ? next.state : inner;
  return { ...input, inner: counter, entries: { numbers: left, first: 0 }, lapsed, lapses: places.length };
}

/** Start of the current window; 0 if reservations do not end with a window. @param peek  of the counter */
const currentWindowStart = ({ limit }: StepInput, { state }: Step): number =>
  endsTogether(limit.inner) ? (state[0] ?? 0) : 0;

/** @param next  of the counter */
function finishStep(input: StepInput, next: Step, entries: ReservationList, done: Done): Step {
  const { limit, nowMs } = input;
  const { event, accepted, reserved = 0, charged = 0, overrun = 0, corrected = 0, freeMs = 0 } = done;
  const { hits, count, firstMadeMs, lastMs } = onHold(entries, { nowMs, startMs: currentWindowStart(input, next) });
  const inner = next.ttlMs > 0 ? next.state : [];
  const isRead = input.charge === false;
  const { lapsed, lapses } = isRead ? NONE_LAPSED : input;
  const used = isRead ? 0 : charged - corrected + (limit.onLapse === 'charge' ? lapsed : 0);
  const stays = isRead && input.lapsed > 0; // the next step that may charge does it
  const kept = stays ? { numbers: input.state, first: 0 } : entries;
  const numbers = [reservationEvents.indexOf(event), reserved, charged, overrun, hits, count, firstMadeMs, lastMs];
  return {
    accepted,
    state:
      stays || isAsBefore(input, inner, entries)
        ? input.state
        : [inner.length, ...inner].concat(entries.numbers.slice(entries.first)),
    ttlMs: Math.max(next.ttlMs, forgottenAtMs(kept, lapseMemoryMs(limit)) - nowMs, 0),
    report: [...numbers, freeMs, lapsed, lapses, used, ...(next.report ?? next.state)],
  };
}

const NONE_LAPSED = { lapsed: 0, lapses: 0 };

/** Whether these parts equal the input state, so that a long state is not copied for nothing. */
const isAsBefore = ({ state, entries: given }: StepInput, inner: State, entries: ReservationList): boolean =>
  entries === given &&
  entries.first === 1 + inner.length &&
  state[0] === inner.length &&
  inner.every((number, at) => number === state[1 + at]);

/** Takes back a commit's hits, or a reservation. What has lapsed is left to the next step. */
function refund(input: StepInput, hits: number, chargedAtMs: number): Step {
  const { limit, holder, commits, row, inner, entries, nowMs } = input;
  const done: Done = { event: 'given_back', accepted: true };
  if (commits) return finishStep(input, row.refund(limit.inner, inner, nowMs, hits, chargedAtMs), entries, done);
  const own = findEntry(entries, holder);
  const { numbers } = entries;
  const isItself = own !== undefined && numbers[own + 1] === hits && numbers[own + 2] === chargedAtMs + limit.ttlMs;
  const peek = row.step(limit.inner, inner, nowMs, 0, false);
  return finishStep(input, peek, isItself ? { numbers: copyEntries(entries, own), first: 0 } : entries, done);
}

function createInput(limit: ReservationLimit, state: State = [], nowMs: number, claim: Claim = {}): StepInput {
  const { holder = ANONYMOUS, commits = false } = claim;
  const first = 1 + (state[0] ?? 0);
  const inner = first > 1 ? state.slice(1, first) : undefined;
  const entries = { numbers: state, first: firstAfter(nowMs - lapseMemoryMs(limit), state, SIZE, first) };
  const row = rateFor(limit.inner);
  return { limit, holder, commits, row, state, inner, entries, ...NONE_LAPSED, nowMs, hits: 0, charge: false };
}

/**
 * How long a reservation is remembered after it has lapsed, so that the next step can charge it. A later step ignores
 * it, since stores drop counters then.
 */
const lapseMemoryMs = ({ inner, ttlMs, onLapse }: ReservationLimit): number =>
  onLapse === 'free' ? ttlMs : Math.max(ttlMs, rateFor(inner).longestMemoryMs(inner));

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
  step: (limit, state, nowMs, hits, charge, claim) =>
    run({ ...lapse(createInput(limit, state, nowMs, claim)), hits, charge }),
  describe: ({ inner }, report, nowMs, outcome) => describeReservation(inner, report, nowMs, outcome),
  refund: (limit, state, nowMs, hits, chargedAtMs, claim) =>
    refund(createInput(limit, state, nowMs, claim), hits, chargedAtMs),
  state: {
    longest: ({ inner }) => (rateFor(inner).state.longest?.(inner) ?? 0) + MAX_RESERVATION_NUMBERS,
    keepsEntries: true,
  },
  script: new URL('./reservation.lua', import.meta.url),
  scriptArgs: (limit, nowMs, { holder = ANONYMOUS, commits = false } = {}) => {
    const { inner, ttlMs, onOverrun, onLapse } = limit;
    return [
      rateNames.indexOf(inner.algorithm) + 1,
      endsTogether(inner) ? 1 : 0,
      ttlMs,
      onOverrun === 'clip' ? 1 : 0,
      holder,
      commits ? 1 : 0,
      onLapse === 'charge' ? 1 : 0,
      lapseMemoryMs(limit),
      ...rateFor(inner).scriptArgs(inner, nowMs),
    ];
  },
};

/** Maximum number of requests that a counter holds: those with a reservation, then the most recently settled ones. */
const MAX_RESERVATIONS = 1_000;

/** Numbers in an entry: holder, hits (0 if settled), when it expires or was settled, when it was made. */
const SIZE = 4;

/** Maximum number of integers in a list of reservations. */
const MAX_RESERVATION_NUMBERS = MAX_RESERVATIONS * SIZE;

/** The reservations that count now. */
interface OnHold {
  readonly hits: number;
  readonly count: number;
  /** When the first of them to expire was made, and when the last expires; 0 if there is none. */
  readonly firstMadeMs: number;
  readonly lastMs: number;
}

/** A view of the reservations in a state, without a copy. */
interface ReservationList {
  readonly numbers: State;
  /** The index of the first entry. */
  readonly first: number;
}

/** The times that determine whether an entry counts. */
interface Moment {
  readonly nowMs: number;
  /** Reservations made before this time do not count: their window is over. */
  readonly startMs: number;
}

/** When the list may be dropped. */
const forgottenAtMs = ({ numbers, first }: ReservationList, ttlMs: number): number =>
  numbers.length <= first ? 0 : (numbers.at(-2) ?? 0) + ttlMs;

const findEntry = ({ numbers, first }: ReservationList, holder: number): number | undefined =>
  holder === ANONYMOUS ? undefined : findHold(holder, numbers, SIZE, first);

/** Whether an entry can still be committed in time. */
const isOpen = (entries: State, at: number, nowMs: number): boolean =>
  (entries[at + 1] ?? 0) > 0 && (entries[at + 2] ?? 0) > nowMs;

const counts = (entries: State, at: number, { nowMs, startMs }: Moment): boolean =>
  isOpen(entries, at, nowMs) && (entries[at + 3] ?? 0) >= startMs;

/** Hits of one reservation that count now. */
const hitsAt = (entries: State, at: number, moment: Moment): number =>
  counts(entries, at, moment) ? (entries[at + 1] ?? 0) : 0;

/** @param own  index of an entry to leave out */
function onHold({ numbers: entries, first }: ReservationList, moment: Moment, own?: number): OnHold {
  let [hits, count, firstMadeMs, lastMs] = [0, 0, 0, 0];
  for (let at = first; at < entries.length; at += SIZE) {
    if (at === own || !counts(entries, at, moment)) continue;
    if (count === 0) firstMadeMs = entries[at + 3] ?? 0;
    lastMs = entries[at + 2] ?? 0;
    hits += entries[at + 1] ?? 0;
    count++;
  }
  return { hits, count, firstMadeMs, lastMs };
}

/** Whether another entry can be added: there are few, or the first one can be dropped. */
const hasRoom = ({ numbers, first }: ReservationList, nowMs: number): boolean =>
  numbers.length - first < MAX_RESERVATIONS * SIZE || !isOpen(numbers, first, nowMs);

/** A copy of the entries. @param own  index of an entry to leave out */
function copyEntries({ numbers, first }: ReservationList, own?: number): number[] {
  const copy = numbers.slice(first);
  if (own !== undefined) copy.splice(own - first, SIZE);
  return copy;
}

/** Inserts an entry; does nothing if the list is full. */
function insert(entries: number[], entry: readonly [number, number, number, number], nowMs: number): void {
  if (entries.length >= MAX_RESERVATIONS * SIZE) {
    if (isOpen(entries, 0, nowMs)) return;
    entries.splice(0, SIZE);
  }
  insertHold(entries, entry);
}

/**
 * Latest time at which enough reservations will have expired; 0 if there is none. Reads each entry only a few times,
 * independent of `passes`.
 *
 * @param own     index of an entry to leave out
 * @param passes  whether the request passes beside this many hits on hold; must be monotonic: if it passes, it also
 *                passes beside fewer
 */
function freeAtMs(
  { numbers: entries, first: begin }: ReservationList,
  moment: Moment,
  own: number | undefined,
  passes: (onHold: number) => boolean,
): number {
  const hitsIn = (from: number, to: number): number => {
    let hits = 0;
    for (let at = from; at < to; at += SIZE) if (at !== own) hits += hitsAt(entries, at, moment);
    return hits;
  };
  let low = begin;
  while (low < entries.length && (low === own || !counts(entries, low, moment))) low += SIZE;
  let high = entries.length;
  let left = hitsIn(low, high); // on hold once entries before `low` have expired
  const first = hitsIn(low, Math.min(low + SIZE, high));
  if (passes(left - first)) return low < high ? (entries[low + 2] ?? 0) : 0;
  while (low < high) {
    const middle = low + Math.floor((high - low) / SIZE / 2) * SIZE;
    const gone = hitsIn(low, middle + SIZE);
    if (passes(left - gone)) high = middle;
    else {
      low = middle + SIZE;
      left -= gone;
    }
  }
  return low < entries.length ? (entries[low + 2] ?? 0) : 0;
}
