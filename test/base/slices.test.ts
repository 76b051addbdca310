import { encoded, inTurns, PIECE_ITEMS } from '../../src/base/slices.ts';
import { mostStepsInATurn } from '../helpers/turns.ts';

/** Texts that are created one after another; each counts as a step. */
function* made(count: number, step = (): void => {}): Iterable<string> {
  for (let at = 0; at < count; at++) {
    step();
    yield `${at} `;
  }
}

test('items come in order, at most as many per turn as asked for, even for several askers', async () => {
  const all: string[][] = [[], []];
  const most = await mostStepsInATurn((step) =>
    Promise.all(
      all.map(async (own) => {
        for await (const slice of inTurns(made(1_005), 10))
          for (const item of slice) {
            step();
            own.push(item);
          }
      }),
    ),
  );
  expect(all).toEqual([[...made(1_005)], [...made(1_005)]]);
  expect(most).toBe(10);
});

test('texts are encoded in pieces, each when it is taken', () => {
  let steps = 0;
  const pieces = encoded(made(2 * PIECE_ITEMS + 1, () => steps++))[Symbol.iterator]();
  expect([pieces.next().value?.toString(), steps]).toEqual([[...made(PIECE_ITEMS)].join(''), PIECE_ITEMS]);
  expect(Buffer.concat([...encoded(made(2_500))]).toString()).toBe([...made(2_500)].join(''));
});
