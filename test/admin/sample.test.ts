import '../helpers/realm.ts';
import { WINDOW_SLOTS } from '../../src/admin/rotating-top.ts';
import { SAMPLED, Sample } from '../../src/admin/sample.ts';
import { numbers } from '../helpers/numbers.ts';

const EACH = 20_000;

const weights = (sample: Sample, count: number): readonly number[] =>
  Array.from({ length: count }, () => sample.weight());

const sumOf = (found: readonly number[]): number => found.reduce((sum, weight) => sum + weight, 0);

test('the first 20,000 of ten seconds are counted each, and one of each 32 behind them, as 32', () => {
  const sample = new Sample(numbers(1));
  expect(weights(sample, EACH)).toEqual(new Array(EACH).fill(1));
  for (let block = 0; block < 10_000; block++) {
    const found = weights(sample, SAMPLED).filter((weight) => weight > 0);
    expect(found).toEqual([SAMPLED]);
  }
});

test('each place of a block is chosen by a random number of its own', () => {
  const places = [0, 15, 7, 15, 0, 3];
  let next = 0;
  const sample = new Sample(() => ((places[next++] ?? 0) + 0.5) / SAMPLED);
  weights(sample, EACH);
  for (const place of places.slice(0, -1))
    expect(weights(sample, SAMPLED).findIndex((weight) => weight > 0)).toBe(place);
});

test('ten seconds behind busy ones are sampled from their start, and those behind calm ones are counted whole', () => {
  const sample = new Sample(numbers(2));
  weights(sample, EACH);
  sample.rotate();
  expect(sumOf(weights(sample, 16_000))).toBe(16_000);
  expect(weights(sample, 16_000).filter((weight) => weight > 0)).toHaveLength(16_000 / SAMPLED);
  sample.rotate();
  weights(sample, 100);
  sample.rotate();
  expect(weights(sample, 100)).toEqual(new Array(100).fill(1));
});

test('a minute is reported as sampled while any of it was', () => {
  const sample = new Sample(numbers(3));
  weights(sample, EACH);
  expect(sample.oneIn).toBe(1);
  weights(sample, SAMPLED);
  expect(sample.oneIn).toBe(SAMPLED);
  for (let slot = 1; slot < WINDOW_SLOTS; slot++) sample.rotate();
  expect(sample.oneIn).toBe(SAMPLED);
  sample.rotate();
  expect(sample.oneIn).toBe(1);
});
