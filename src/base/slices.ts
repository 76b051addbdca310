import { setImmediate as nextTurn } from 'node:timers/promises';

let lastTurn: Promise<unknown> = Promise.resolve();

/** The next free turn of the event loop, so that concurrent work gets its turns in sequence. */
function ownTurn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => nextTurn());
  return lastTurn;
}

/** Yields at most `count` items in each turn of the event loop, so that calls are answered in between. */
export async function* inTurns<T>(items: Iterable<T>, count: number): AsyncGenerator<readonly T[]> {
  let slice: T[] = [];
  for (const item of items) {
    if (slice.length === 0) await ownTurn(); // the first too, so that those of many questions do not share one
    slice.push(item);
    if (slice.length < count) continue;
    yield slice;
    slice = [];
  }
  if (slice.length > 0) yield slice;
}

/** Yields the first `count` items, and creates no further ones. */
export function* take<T>(count: number, items: Iterable<T>): Iterable<T> {
  let left = count;
  if (left === 0) return;
  for (const item of items) {
    yield item;
    if (--left === 0) return;
  }
}
