import { encodeInSlices, inSlices, SLICE_ITEMS, sortInSlices } from '../../src/base/slices.ts';
import fc from '../helpers/property.ts';
import { mostStepsInATurn } from '../helpers/turns.ts';

/** Texts that are created one after another; each counts as a step. */
function* made(count: number, step: () => void): Iterable<string> {
  for (let at = 0; at < count; at++) {
    step();
    yield String((at * 617_129) % count);
  }
}

afterEach(() => jest.restoreAllMocks());

/** Stops the clock, which then advances only by the steps of work. */
function stopClock(): { passMs(ms: number): void } {
  let nowMs = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
  return {
    passMs(ms) {
      nowMs += ms;
    },
  };
}

test('items come in order, at most one slice per turn', async () => {
  stopClock();
  const all: string[] = [];
  const most = await mostStepsInATurn(async (step) => {
    for await (const slice of inSlices(made(5_500, step))) all.push(...slice);
  });
  expect(all).toEqual([...made(5_500, () => {})]);
  expect(most).toBe(SLICE_ITEMS);
});

test('a slice ends sooner if its items take long', async () => {
  const { passMs } = stopClock();
  const lengths: number[] = [];
  for await (const slice of inSlices(made(200, () => passMs(0.02)))) lengths.push(slice.length);
  expect(lengths).toEqual([56, 56, 56, 32]);
});

test('texts are encoded and sorted with the same result as at once, one slice per turn', async () => {
  stopClock();
  const texts = [...made(5_500, () => {})];
  expect(Buffer.concat(await encodeInSlices(texts)).toString()).toBe(texts.join(''));
  expect(await sortInSlices(texts)).toEqual(texts.toSorted());
  const most = await mostStepsInATurn((step) => encodeInSlices(made(5_500, step)));
  expect(most).toBe(SLICE_ITEMS);
  expect(await mostStepsInATurn((step) => sortInSlices(made(5_500, step)))).toBe(SLICE_ITEMS);
});

test('any texts are sorted', async () => {
  const anyTexts = fc.array(fc.string({ unit: 'binary', maxLength: 3 }), { minLength: 50, maxLength: 100 });
  await fc.assert(
    fc.asyncProperty(anyTexts, async (texts) => {
      const many = Array.from({ length: 40 }, () => texts).flat();
      expect(await sortInSlices(many)).toEqual(many.toSorted());
    }),
    { numRuns: 10 },
  );
});
