import { setImmediate as nextTurn } from 'node:timers/promises';

/** Items that are worked on in one turn of the event loop, lines of a page for example: about a millisecond. */
export const SLICE_ITEMS = 1_000;

let lastTurn: Promise<unknown> = Promise.resolve();

/** The next turn of the event loop that no other work has asked for: work that is done at the same time takes turns. */
function ownTurn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => nextTurn());
  return lastTurn;
}

/**
 * The items, so many in a turn of the event loop at most, so that requests are answered in between.
 *
 * @param count  less than `SLICE_ITEMS` where an item is more work than a line of a page
 */
export async function* inSlices<T>(items: Iterable<T>, count = SLICE_ITEMS): AsyncGenerator<readonly T[]> {
  let slice: T[] = [];
  for (const item of items) {
    slice.push(item);
    if (slice.length < count) continue;
    yield slice;
    slice = [];
    await ownTurn();
  }
  if (slice.length > 0) yield slice;
}

/** The texts one after the other, a Buffer for each slice, made when it is asked for. */
export async function* encodedSlices(texts: Iterable<string>): AsyncGenerator<Buffer> {
  for await (const slice of inSlices(texts)) yield Buffer.from(slice.join(''));
}

/** The same, as a whole. */
export async function encodeInSlices(texts: Iterable<string>): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = [];
  for await (const piece of encodedSlices(texts)) pieces.push(piece);
  return pieces;
}

/** The texts in the order of `sort`, made in slices. */
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

/** Two sorted lists as one. */
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
