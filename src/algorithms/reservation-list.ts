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

/** What decides whether an entry counts. */
export interface Moment {
  readonly nowMs: number;
  /** Reservations that were made earlier do not count: their window is over. */
  readonly startMs: number;
}

/** The entries that are remembered: each for one ttl after its end. @param first  where they begin */
export function remembered(state: State, first: number, ttlMs: number, nowMs: number): number[] {
  let at = first;
  while (at < state.length && (state[at + 2] ?? 0) + ttlMs <= nowMs) at += SIZE;
  return state.slice(at);
}

/** When the list may be forgotten. */
export const forgottenAtMs = (entries: State, ttlMs: number): number =>
  entries.length === 0 ? 0 : (entries.at(-2) ?? 0) + ttlMs;

export function placeOf(entries: State, holder: number): number | undefined {
  if (holder === 0) return undefined;
  for (let at = 0; at < entries.length; at += SIZE) if (entries[at] === holder) return at;
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

export function onHold(entries: State, moment: Moment): OnHold {
  let [hits, count, firstMadeMs, lastMs] = [0, 0, 0, 0];
  for (let at = 0; at < entries.length; at += SIZE) {
    if (!counts(entries, at, moment)) continue;
    if (count === 0) firstMadeMs = entries[at + 3] ?? 0;
    lastMs = entries[at + 2] ?? 0;
    hits += entries[at + 1] ?? 0;
    count++;
  }
  return { hits, count, firstMadeMs, lastMs };
}

/** The first entry that can be forgotten for another one; undefined: none. */
function idleIn(entries: State, nowMs: number): number | undefined {
  for (let at = 0; at < entries.length; at += SIZE) if (!isOpen(entries, at, nowMs)) return at;
  return undefined;
}

export const hasRoom = (entries: State, nowMs: number): boolean =>
  entries.length < MAX_RESERVATIONS * SIZE || idleIn(entries, nowMs) !== undefined;

export const without = (entries: State, at: number): number[] => entries.toSpliced(at, SIZE);

/** Inserts behind those that expire earlier, or at the same moment. Without room nothing is remembered. */
export function insert(entries: number[], entry: readonly [number, number, number, number], nowMs: number): void {
  if (entries.length >= MAX_RESERVATIONS * SIZE) {
    const idle = idleIn(entries, nowMs);
    if (idle === undefined) return;
    entries.splice(idle, SIZE);
  }
  let at = entries.length;
  while (at > 0 && (entries[at - 2] ?? 0) > entry[2]) at -= SIZE;
  entries.splice(at, 0, ...entry);
}

/**
 * When enough reservations have expired, at the latest; 0: never enough.
 *
 * @param passes  whether the request passes beside so many hits on hold; if it does, then also beside fewer
 */
export function freeAtMs(entries: State, moment: Moment, passes: (onHold: number) => boolean): number {
  const ends: number[] = [];
  const left: number[] = []; // on hold when the one before has expired
  let { hits } = onHold(entries, moment);
  for (let at = 0; at < entries.length; at += SIZE) {
    if (!counts(entries, at, moment)) continue;
    hits -= entries[at + 1] ?? 0;
    ends.push(entries[at + 2] ?? 0);
    left.push(hits);
  }
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (passes(left[middle] ?? 0)) high = middle;
    else low = middle + 1;
  }
  return ends[low] ?? 0;
}
