import {
  type Algorithm,
  type AnyLimit,
  type Charge,
  MAX_COUNT,
  type ReservationEvent,
  reservationEvents,
  type State,
  type Step,
} from './limit.ts';
import {
  copyOf,
  forgottenAtMs,
  freeAtMs,
  hasRoom,
  hitsAt,
  insert,
  MAX_RESERVATION_NUMBERS,
  type Moment,
  onHold,
  placeOf,
  type ReservationList,
  remembered,
} from './reservation-list.ts';
import { describeReservation } from './reservation-report.ts';

/** How rules treat hits beyond those reserved: they are charged, or not. */
export const overruns = ['debt', 'clip'] as const;

/** A limit whose hits are reserved first, and charged when the number used is known. */
export interface ReservationLimit extends AnyLimit {
  readonly algorithm: 'reservation';
  /** The limit that counts charged hits. */
  readonly inner: AnyLimit;
  /** A reservation that is not committed becomes free after this time. */
  readonly ttlMs: number;
  readonly onOverrun: (typeof overruns)[number];
  /** The minimum reserved: a fixed number of hits, or the 95th percentile of the counter's recent requests. */
  readonly estimate?: number | 'p95' | undefined;
  /** Identifies the request that reserves or commits; 0: no id. Below 2^53. */
  readonly holder: number;
  /** The hits are those that a request has used. */
  readonly commits: boolean;
}

/** The algorithms that can count beside reservations: the row of a limit, and its place in the table, from 1. */
interface OtherAlgorithms {
  rowOf(limit: AnyLimit): Algorithm;
  placeOf(limit: AnyLimit): number;
}

/** The largest part of a limit that is reserved for one request based on other requests' use. */
const LARGEST_SHARE = 0.5;

/** The input of a step: an operation, and the counter's state. */
interface StepInput {
  readonly limit: ReservationLimit;
  readonly row: Algorithm;
  readonly state: State;
  /** Undefined: nothing has been charged. */
  readonly inner: State | undefined;
  readonly entries: ReservationList;
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
  readonly freeMs?: number;
}

/**
 * Reserve, then commit: a list of reservations beside the counter of another algorithm. Twin of reservation.lua.
 * State: the length of the counter's own state, that state, then for each reservation its holder, hits, when it expires
 * and when it was made (ms since the epoch); sorted by expiry. An expired reservation is kept for one more ttl, and so
 * is a settled one, with 0 hits, so that late and repeated commits are recognized.
 * Report: the event's place, hits reserved, charged and overrun, hits on hold after the step, the number of
 * reservations, when the first of them was made and the last expires, when the requested hits can be reserved at the
 * latest; then the counter's own report.
 *
 * To reserve, the unchanged algorithm tests without a charge whether the hits on hold and the requested ones pass
 * together. To commit, it charges the hits used, even beyond the limit. If windows end for all requests at once
 * (`fixed_window`, except with `first_hit`), a reservation counts in the window in which it was made, and a commit is
 * charged to the window of its own time.
 *
 * @param nowMs   may run backwards (clock skew): nothing expires then
 * @param hits    reserve: hits to hold, 0 to peek; commit: hits used; negative: charged hits to return
 * @param charge  false: returns the outcome, but leaves the counter unchanged
 */
function run(input: StepInput): Step {
  const { limit, row, inner, entries, nowMs, hits, charge } = input;
  if (limit.commits || (charge === 'regardless' && hits >= 0)) return commit(input);
  if (hits >= 0) return reserve(input);
  return stepOf(input, row.step(limit.inner, inner, nowMs, hits, charge), entries, {
    event: 'given_back',
    accepted: true,
  });
}

function reserve(input: StepInput): Step {
  const { limit, row, inner, entries, nowMs, hits, charge } = input;
  const { holder, ttlMs } = limit;
  const peek = row.step(limit.inner, inner, nowMs, 0, false);
  const moment: Moment = { nowMs, startMs: startOf(input, peek) };
  const own = placeOf(entries, holder);
  const held = onHold(entries, moment, own).hits;
  const required = hits === 0 ? (row.peekedHits ?? 1) : hits;
  const tryWith = (others: number): Step =>
    row.step(limit.inner, inner, nowMs, Math.min(others + required, MAX_COUNT), false);
  const isRenewed = own !== undefined && hits > 0 && hits <= hitsAt(entries.numbers, own, moment);
  const isFull = own === undefined && !hasRoom(entries, nowMs);
  if (!isRenewed && (isFull || !tryWith(held).accepted)) {
    const alone = tryWith(0);
    if (!alone.accepted) return stepOf(input, alone, entries, { event: 'refused_alone', accepted: false });
    const freeMs = freeAtMs(entries, moment, own, (left) => tryWith(left).accepted);
    const roomMs = isFull ? (entries.numbers[entries.first + 2] ?? 0) : 0; // the first to expire
    const event = isFull ? 'full' : 'refused';
    return stepOf(input, peek, entries, { event, accepted: false, freeMs: Math.max(freeMs, roomMs) });
  }
  if (hits === 0) return stepOf(input, peek, entries, { event: 'peeked', accepted: true });
  const done: Done = { event: 'reserved', accepted: true, reserved: hits };
  if (!charge) return stepOf(input, peek, entries, done);
  const next = copyOf(entries, own);
  const untilMs = Math.max(nowMs + ttlMs, own === undefined ? 0 : (entries.numbers[own + 2] ?? 0));
  insert(next, [holder, hits, untilMs, Math.max(nowMs, moment.startMs)], nowMs);
  return stepOf(input, peek, { numbers: next, first: 0 }, done);
}

function commit(input: StepInput): Step {
  const { limit, row, inner, entries, nowMs, hits, charge } = input;
  const used = Math.max(hits, 0);
  const own = limit.commits ? placeOf(entries, limit.holder) : undefined;
  const reserved = own === undefined ? 0 : (entries.numbers[own + 1] ?? 0);
  const event =
    own === undefined ? 'unknown' : reserved === 0 ? 'repeated' : timely(entries.numbers[own + 2] ?? 0, nowMs);
  const isReserved = event === 'committed' || event === 'late';
  const most = limit.onOverrun === 'clip' && isReserved ? reserved : used;
  const charged = event === 'repeated' ? 0 : Math.min(used, most);
  const overrun = isReserved ? Math.max(used - reserved, 0) : 0;
  const next = row.step(limit.inner, inner, nowMs, charged, charge ? 'regardless' : false);
  const done: Done = { event, accepted: true, reserved, charged, overrun };
  if (!charge || event === 'repeated' || !limit.commits || limit.holder === 0)
    return stepOf(input, next, entries, done);
  const left = copyOf(entries, own);
  insert(left, [limit.holder, 0, nowMs, nowMs], nowMs);
  return stepOf(input, next, { numbers: left, first: 0 }, done);
}

const timely = (untilMs: number, nowMs: number): 'committed' | 'late' => (untilMs <= nowMs ? 'late' : 'committed');

/** When the current window began; 0: reservations do not end with a window. @param peek  of the counter */
const startOf = ({ limit, row }: StepInput, { state }: Step): number =>
  row.endsTogether?.(limit.inner) ? (state[0] ?? 0) : 0;

/** @param next  of the counter */
function stepOf(input: StepInput, next: Step, entries: ReservationList, done: Done): Step {
  const { limit, nowMs } = input;
  const { event, accepted, reserved = 0, charged = 0, overrun = 0, freeMs = 0 } = done;
  const { hits, count, firstMadeMs, lastMs } = onHold(entries, { nowMs, startMs: startOf(input, next) });
  const inner = next.ttlMs > 0 ? next.state : [];
  const numbers = [reservationEvents.indexOf(event), reserved, charged, overrun, hits, count, firstMadeMs, lastMs];
  return {
    accepted,
    state: isAsBefore(input, inner, entries)
      ? input.state
      : [inner.length, ...inner].concat(entries.numbers.slice(entries.first)),
    ttlMs: Math.max(next.ttlMs, forgottenAtMs(entries, limit.ttlMs) - nowMs, 0),
    report: [...numbers, freeMs, ...(next.report ?? next.state)],
  };
}

/** Whether these parts equal the input state, so that a long state is not copied for nothing. */
const isAsBefore = ({ state, entries: given }: StepInput, inner: State, entries: ReservationList): boolean =>
  entries === given &&
  entries.first === 1 + inner.length &&
  state[0] === inner.length &&
  inner.every((number, at) => number === state[1 + at]);

/** Takes back a commit's hits, or a reservation. */
function refund(input: StepInput, hits: number, chargedAtMs: number): Step {
  const { limit, row, inner, entries, nowMs } = input;
  const done: Done = { event: 'given_back', accepted: true };
  if (limit.commits) return stepOf(input, row.refund(limit.inner, inner, nowMs, hits, chargedAtMs), entries, done);
  const own = placeOf(entries, limit.holder);
  const { numbers } = entries;
  const isItself = own !== undefined && numbers[own + 1] === hits && numbers[own + 2] === chargedAtMs + limit.ttlMs;
  const peek = row.step(limit.inner, inner, nowMs, 0, false);
  return stepOf(input, peek, isItself ? { numbers: copyOf(entries, own), first: 0 } : entries, done);
}

/** The row of reservations in the table of algorithms: rules have `reserve` beside the algorithm that counts. */
export function reservationOver(others: OtherAlgorithms): Algorithm<ReservationLimit> {
  const { rowOf } = others;
  const inputOf = (limit: ReservationLimit, state: State = [], nowMs: number): StepInput => {
    const first = 1 + (state[0] ?? 0);
    const inner = first > 1 ? state.slice(1, first) : undefined;
    const entries = remembered(state, first, limit.ttlMs, nowMs);
    return { limit, row: rowOf(limit.inner), state, inner, entries, nowMs, hits: 0, charge: false };
  };
  return {
    keys: [],
    parse: () => undefined, // rules do not name it
    write: ({ inner, ttlMs, onOverrun, estimate }) => [
      ...rowOf(inner).write(inner),
      `reserve: { ttl: ${ttlMs}ms, on_overrun: ${onOverrun}${estimate === undefined ? '' : `, estimate: ${estimate}`} }`,
    ],
    list: ({ inner, ttlMs, onOverrun, estimate }) => ({
      ...rowOf(inner).list(inner),
      reserve: { ttl_ms: ttlMs, on_overrun: onOverrun, ...(estimate !== undefined && { estimate }) },
    }),
    capacity: ({ inner }) => rowOf(inner).capacity(inner),
    longestMemoryMs: ({ inner, ttlMs }) => Math.max(rowOf(inner).longestMemoryMs(inner), 2 * ttlMs),
    isSame: (one, other) =>
      one.inner.algorithm === other.inner.algorithm &&
      one.ttlMs === other.ttlMs &&
      one.onOverrun === other.onOverrun &&
      rowOf(one.inner).isSame(one.inner, other.inner),
    holdFor: (limit, holder) => ({ ...limit, holder }),
    atLeast({ inner, estimate = 0 }, usualHits) {
      if (estimate !== 'p95') return estimate;
      // without this bound, a high estimate could refuse all requests, and would then never change
      return Math.min(usualHits() ?? 0, Math.floor((rowOf(inner).capacity(inner) + inner.soft) * LARGEST_SHARE));
    },
    learns: ({ estimate }) => estimate === 'p95',
    standsAlone: ({ commits }) => commits,
    repeatableForMs: ({ commits, holder, ttlMs }) => (commits && holder !== 0 ? ttlMs : 0),
    step: (limit, state, nowMs, hits, charge) => run({ ...inputOf(limit, state, nowMs), hits, charge }),
    describe: ({ inner }, report, nowMs, outcome) => describeReservation(rowOf(inner), inner, report, nowMs, outcome),
    refund: (limit, state, nowMs, hits, chargedAtMs) => refund(inputOf(limit, state, nowMs), hits, chargedAtMs),
    refusalHoldsMs: () => 0, // a commit of fewer hits than reserved may come at any time
    canOwe: false, // commits are always charged, requests never
    stateVersion: 1,
    longestState: ({ inner }) => (rowOf(inner).longestState?.(inner) ?? 0) + MAX_RESERVATION_NUMBERS,
    hasLongState: true,
    callsOthers: true,
    script: new URL('./reservation.lua', import.meta.url),
    scriptArgs: ({ inner, ttlMs, onOverrun, holder, commits }, nowMs) => [
      others.placeOf(inner),
      rowOf(inner).endsTogether?.(inner) ? 1 : 0,
      ttlMs,
      onOverrun === 'clip' ? 1 : 0,
      holder,
      commits ? 1 : 0,
      ...rowOf(inner).scriptArgs(inner, nowMs),
    ],
  };
}
