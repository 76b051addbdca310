import '../../../helpers/realm.ts';
import { WINDOW_SLOTS } from '../../../../src/parts/lab/sketches/rotating-top.ts';
import { EXACT, SAMPLED, Sample } from '../../../../src/parts/lab/sketches/sample.ts';
import { numbers } from '../../../helpers/numbers.ts';

const weights = (sample: Sample, count: number): readonly number[] =>
  Array.from({ length: count }, () => sample.weightOf(1));

const sumOf = (found: readonly number[]): number => found.reduce((sum, weight) => sum + weight, 0);
const counted = (found: readonly number[]): readonly number[] => found.filter((weight) => weight > 0);

/** A sample whose current ten seconds follow busy ones and begin with this ratio. */
function sampling(oneIn: number, random: () => number): Sample {
  const sample = new Sample(random);
  weights(sample, SAMPLED * oneIn);
  sample.rotate();
  return sample;
}

test('the first 20,000 hits in ten seconds are all counted, and a decreasing share of the following ones', () => {
  const sample = new Sample(numbers(1));
  expect(weights(sample, EXACT)).toEqual(new Array(EXACT).fill(1));
  const found = counted(weights(sample, 1_280_000 - EXACT));
  expect([...new Set(found)]).toEqual([4, 8, 16, 32, 64, 128]);
  expect(found.length).toBeLessThan(7 * (SAMPLED / 2));
  expect(Math.abs(sumOf(found) + EXACT - 1_280_000)).toBeLessThan(128);
});

test.each([4, 32, 256])('ten seconds after busy ones count one in %i from their start', (oneIn) => {
  const sample = sampling(oneIn, numbers(2));
  const found = Array.from({ length: SAMPLED / 2 }, () => counted(weights(sample, oneIn)));
  expect(found.every((block) => block.length === 1 && block[0] === oneIn)).toBe(true);
});

test('each position in a block is chosen by a separate random number', () => {
  let places: number[] = [];
  const sample = sampling(16, () => ((places.shift() ?? 7) + 0.5) / 16);
  weights(sample, 7); // up to the position chosen before
  const chosen = [0, 15, 3, 15, 0];
  places = [...chosen];
  weights(sample, 9);
  for (const place of chosen) expect(weights(sample, 16).findIndex((weight) => weight > 0)).toBe(place);
});

test('ten seconds after calm ones are counted completely', () => {
  const sample = sampling(32, numbers(3));
  weights(sample, 100);
  sample.rotate();
  expect(weights(sample, 100)).toEqual(new Array(100).fill(1));
});

test('a request counts once for each of its hits in the sample, regardless of their number', () => {
  const random = numbers(4);
  const sample = sampling(64, random);
  let hits = 0;
  let found = 0;
  let furthest = 0;
  for (let request = 0; request < 50_000; request++) {
    const own = request % 100 === 0 ? 10_000 : 1 + Math.floor(random() * 300);
    hits += own;
    found += sample.weightOf(own);
    furthest = Math.max(furthest, Math.abs(found - hits) / sample.oneIn);
  }
  expect(hits).toBeGreaterThan(10_000_000);
  expect(furthest).toBeLessThan(1);
});

test('with few requests, each is counted, regardless of its number of hits', () => {
  const sample = new Sample(numbers(5));
  const each = [1, 1_000_000, 4_294_967_295, 3];
  expect(each.map((hits) => sample.weightOf(hits))).toEqual(each);
  expect(sample.oneIn).toBe(1);
});

test('periodic traffic is counted as accurately as any other', () => {
  const sample = sampling(64, numbers(6));
  const byPlace = new Array<number>(64).fill(0);
  for (let at = 0; at < 640_000; at++) byPlace[at % 64] = (byPlace[at % 64] ?? 0) + sample.weightOf(1);
  for (const found of byPlace) expect(Math.abs(found - 10_000)).toBeLessThan(5 * Math.sqrt(64 * 10_000));
});

test('a minute is reported as sampled if any part of it was, with the highest ratio', () => {
  const sample = new Sample(numbers(7));
  weights(sample, EXACT - 1);
  expect(sample.oneIn).toBe(1);
  weights(sample, SAMPLED * 5);
  expect(sample.oneIn).toBe(8);
  sample.rotate(); // the next ten seconds start with that ratio
  for (let slot = 1; slot < WINDOW_SLOTS; slot++) sample.rotate();
  expect(sample.oneIn).toBe(8);
  sample.rotate();
  expect(sample.oneIn).toBe(1);
});
