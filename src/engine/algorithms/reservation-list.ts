import type { State } from './limit.ts';

/** The most requests that a counter holds: those with a reservation, then the most recently settled ones. */
export const MAX_RESERVATIONS = 1_000;

/** Numbers in an entry: holder, hits (0: settled), when it expires or was settled, when it was made. */
const SIZE = 4;

/** The most numbers in a list of reservations. */
export const MAX_RESERVATION_NUMBERS = MAX_RESERVATIONS * SIZE;

/** The reservations that count now. */
interface OnHold {
  readonly hits: number;
  readonly count: number;
  /** When the first of them to expire was made, and when the last expires; 0: there is none. */
  readonly firstMadeMs: number;
  readonly lastMs: number;
}

/** A view of the reservations in a state, without a copy. */
export interface ReservationList {
  readonly numbers: State;
  /** The index of the first entry. */
  readonly first: number;
}

/** The times that determine whether an entry counts. */
export interface Moment {
  readonly nowMs: number;
  /** Reservations made before this time do not count: their window is over. */
  readonly startMs: number;
}

/** The entries that are kept: each for one ttl after its end. @param first  index of the first entry */
export function remembered(state: State, first: number, ttlMs: number, nowMs: number): ReservationList {
  let at = first;
  while (at < state.length && (state[at + 2] ?? 0) + ttlMs <= nowMs) at += SIZE;
  return { numbers: state, first: at };
}

/** When the list may be dropped. */
export const forgottenAtMs = ({ numbers, first }: ReservationList, ttlMs: number): number =>
  numbers.length <= first ? 0 : (numbers.at(-2) ?? 0) + ttlMs;

export function placeOf({ numbers, first }: ReservationList, holder: number): number | undefined {
  if (holder === 0) return undefined;
  for (let at = first; at < numbers.length; at += SIZE) if (numbers[at] === holder) return at;
  return undefined;
}

/** Whether an entry can still be committed in time. */
const isOpen = (entries: State, at: number, nowMs: number): boolean =>
  (entries[at + 1] ?? 0) > 0 && (entries[at + 2] ?? 0) > nowMs;

const counts = (entries: State, at: number, { nowMs, startMs }: Moment): boolean =>
  isOpen(entries, at, nowMs) && (entries[at + 3] ?? 0) >= startMs;

/** Hits of one reservation that count now. */
export const hitsAt = (entries: State, at: number, moment: Moment): number =>
  counts(entries, at, moment) ? (entries[at + 1] ?? 0) : 0;

/** @param own  index of an entry to leave out */
export function onHold({ numbers: entries, first }: ReservationList, moment: Moment, own?: number): OnHold {
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
export const hasRoom = ({ numbers, first }: ReservationList, nowMs: number): boolean =>
  numbers.length - first < MAX_RESERVATIONS * SIZE || !isOpen(numbers, first, nowMs);

/** A copy of the entries. @param own  index of an entry to leave out */
export function copyOf({ numbers, first }: ReservationList, own?: number): number[] {
  const copy = numbers.slice(first);
  if (own !== undefined) copy.splice(own - first, SIZE);
  return copy;
}

/** Inserts after entries that expire earlier or at the same time. Does nothing if the list is full. */
export function insert(entries: number[], entry: readonly [number, number, number, number], nowMs: number): void {
  if (entries.length >= MAX_RESERVATIONS * SIZE) {
    if (isOpen(entries, 0, nowMs)) return;
    entries.splice(0, SIZE);
  }
  let at = entries.length;
  while (at > 0 && (entries[at - 2] ?? 0) > entry[2]) at -= SIZE;
  entries.splice(at, 0, ...entry);
}

/**
 * When enough reservations will have expired, at the latest; 0: never. Reads each entry only a few times, independent
 * of `passes`.
 *
 * @param own     index of an entry to leave out
 * @param passes  whether the request passes beside this many hits on hold; must be monotonic: if it passes, it also
 * passes beside fewer
 */
export function freeAtMs(
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
