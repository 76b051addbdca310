import type { State } from './limit.ts';

/** The most requests that a counter knows: those that have a reservation, then those that were settled last. */
export const MAX_RESERVATIONS = 1_000;

/** Numbers of an entry: holder, hits (0: settled), when it expires or was settled, when it was made. */
const SIZE = 4;

/** Reservations that count now. */
export interface OnHold {
  readonly hits: number;
  readonly count: number;
  /** When the first of them to expire was made, and when the last expires; 0: there is none. */
  readonly firstMadeMs: number;
  readonly lastMs: number;
}

/** Reservations within a state that is not copied for them. */
export interface ReservationList {
  readonly numbers: State;
  /** Where the first begins. */
  readonly first: number;
}

/** What decides whether an entry counts. */
export interface Moment {
  readonly nowMs: number;
  /** Reservations that were made earlier do not count: their window is over. */
  readonly startMs: number;
}

/** The entries that are remembered: each for one ttl after its end. @param first  where they begin */
export function remembered(state: State, first: number, ttlMs: number, nowMs: number): ReservationList {
  let at = first;
  while (at < state.length && (state[at + 2] ?? 0) + ttlMs <= nowMs) at += SIZE;
  return { numbers: state, first: at };
}

/** When the list may be forgotten. */
export const forgottenAtMs = ({ numbers, first }: ReservationList, ttlMs: number): number =>
  numbers.length <= first ? 0 : (numbers.at(-2) ?? 0) + ttlMs;

export function placeOf({ numbers, first }: ReservationList, holder: number): number | undefined {
  if (holder === 0) return undefined;
  for (let at = first; at < numbers.length; at += SIZE) if (numbers[at] === holder) return at;
  return undefined;
}

/** Whether it can still be committed in time. */
const isOpen = (entries: State, at: number, nowMs: number): boolean =>
  (entries[at + 1] ?? 0) > 0 && (entries[at + 2] ?? 0) > nowMs;

const counts = (entries: State, at: number, { nowMs, startMs }: Moment): boolean =>
  isOpen(entries, at, nowMs) && (entries[at + 3] ?? 0) >= startMs;

/** Hits of one reservation that count now. */
export const hitsAt = (entries: State, at: number, moment: Moment): number =>
  counts(entries, at, moment) ? (entries[at + 1] ?? 0) : 0;

/** @param own  where an entry is that is left out */
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

/** Whether another entry may be added: the first can be forgotten for it, or there are few. */
export const hasRoom = ({ numbers, first }: ReservationList, nowMs: number): boolean =>
  numbers.length - first < MAX_RESERVATIONS * SIZE || !isOpen(numbers, first, nowMs);

/** A copy of the entries. @param own  where one is that is left out */
export function copyOf({ numbers, first }: ReservationList, own?: number): number[] {
  const copy = numbers.slice(first);
  if (own !== undefined) copy.splice(own - first, SIZE);
  return copy;
}

/** Inserts behind those that expire earlier, or at the same moment. Without room nothing is remembered. */
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
 * When enough reservations have expired, at the latest; 0: never enough. Reads each entry a few times, whatever
 * `passes` says.
 *
 * @param own     where an entry is that is left out
 * @param passes  whether the request passes beside so many hits on hold; if it does, then also beside fewer
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
  let left = hitsIn(low, high); // on hold when those before `low` have expired
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
