import { setImmediate as nextTurn } from 'node:timers/promises';

/** The items that are processed in one turn of the event loop, for example lines of a page: about a millisecond. */
export const SLICE_ITEMS = 1_000;

/** A slice ends earlier if its items take longer, such as rules that are created when they are first listed. */
const SLICE_MS = 1;
/** The number of items between readings of the clock. */
const TIMED_ITEMS = 8;

let lastTurn: Promise<unknown> = Promise.resolve();

/** The next turn of the event loop that is not taken by other work: concurrent work gets its turns in sequence. */
function ownTurn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => nextTurn());
  return lastTurn;
}

/** The client that waits for the work. */
export interface Asker {
  readonly isGone: boolean;
}

/**
 * The items in slices, at most `count` per turn of the event loop, so that requests are answered in between.
 *
 * @param count  less than `SLICE_ITEMS` if an item is more work than a line of a page
 * @param asker  once it is gone, no more items follow, since nothing would read the result
 */
export async function* inSlices<T>(
  items: Iterable<T>,
  count = SLICE_ITEMS,
  asker?: Asker,
): AsyncGenerator<readonly T[]> {
  let slice: T[] = [];
  if (count < SLICE_ITEMS) await ownTurn(); // else the first items of many requests would run in one turn
  let sinceMs = performance.now();
  for (const item of items) {
    if (asker?.isGone) return;
    slice.push(item);
    const isLate = slice.length % TIMED_ITEMS === 0 && performance.now() - sinceMs > SLICE_MS;
    if (slice.length < count && !isLate) continue;
    yield slice;
    slice = [];
    await ownTurn();
    sinceMs = performance.now();
  }
  if (slice.length > 0) yield slice;
}

/** The concatenated texts, one Buffer per slice, each created on demand. */
export async function* encodedSlices(texts: Iterable<string>): AsyncGenerator<Buffer> {
  for await (const slice of inSlices(texts)) yield Buffer.from(slice.join(''));
}

/** All of these buffers. */
export async function encodeInSlices(texts: Iterable<string>): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = [];
  for await (const piece of encodedSlices(texts)) pieces.push(piece);
  return pieces;
}

/** The texts in the order of `sort`, sorted in slices. */
export async function sortInSlices(texts: Iterable<string>): Promise<readonly string[]> {
  let runs: (readonly string[])[] = [];
  for await (const slice of inSlices(texts)) runs.push(slice.toSorted());
  while (runs.length > 1) {
    const merged: (readonly string[])[] = [];
    for (let at = 0; at < runs.length; at += 2) merged.push(await mergeInSlices(runs[at] ?? [], runs[at + 1] ?? []));
    runs = merged;
  }
  return runs[0] ?? [];
}

async function mergeInSlices(one: readonly string[], other: readonly string[]): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const slice of inSlices(merge(one, other))) all.push(...slice);
  return all;
}

/** Merges two sorted lists. */
function* merge(one: readonly string[], other: readonly string[]): Iterable<string> {
  let at = 0;
  for (const text of one) {
    for (let next = other[at]; next !== undefined && next < text; next = other[++at]) yield next;
    yield text;
  }
  yield* other.slice(at);
}

export function* joined<T>(one: Iterable<T>, other: Iterable<T>): Iterable<T> {
  yield* one;
  yield* other;
}

/** The first `count` items. No further items are created. */
export function* take<T>(count: number, items: Iterable<T>): Iterable<T> {
  let left = count;
  if (left === 0) return;
  for (const item of items) {
    yield item;
    if (--left === 0) return;
  }
}
