import { setImmediate as nextTurn } from 'node:timers/promises';

/** Items of a piece, for example lines of a page or names in a message: about a millisecond of work. */
export const PIECE_ITEMS = 1_000;

let lastTurn: Promise<unknown> = Promise.resolve();

/** The next turn of the event loop that is not taken by other work: concurrent work gets its turns in sequence. */
function ownTurn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => nextTurn());
  return lastTurn;
}

/** The items, at most `count` in each turn of the event loop, so that calls are answered in between. */
export async function* inTurns<T>(items: Iterable<T>, count: number): AsyncGenerator<readonly T[]> {
  for (const slice of pieces(items, count)) {
    await ownTurn(); // before the first as well, else that of many questions would run in one turn
    yield slice;
  }
}

/** The items in pieces of `count`. */
function* pieces<T>(items: Iterable<T>, count: number): Iterable<readonly T[]> {
  let piece: T[] = [];
  for (const item of items) {
    piece.push(item);
    if (piece.length < count) continue;
    yield piece;
    piece = [];
  }
  if (piece.length > 0) yield piece;
}

/** The concatenated texts in pieces, each created when it is taken. */
export function* encoded(texts: Iterable<string>): Iterable<Buffer> {
  for (const piece of pieces(texts, PIECE_ITEMS)) yield Buffer.from(piece.join(''));
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
