import { inTurns } from '../../src/base/slices.ts';
import { mostStepsInATurn } from '../helpers/turns.ts';

/** Texts that are created one after another. */
function* made(count: number): Iterable<string> {
  for (let at = 0; at < count; at++) yield `${at} `;
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
