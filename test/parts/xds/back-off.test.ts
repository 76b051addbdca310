import { retryDelayMs } from '../../../src/parts/xds/client.ts';

const waits = (
  backOff: Parameters<typeof retryDelayMs>[0],
  failures: readonly number[],
  random = 0,
): readonly number[] => failures.map((count) => retryDelayMs(backOff, count, () => random));

test('each wait is twice the previous one, up to the longest', () => {
  const backOff = { initialMs: 10_000, maxMs: 60_000, jitter: false };
  expect(waits(backOff, [1, 2, 3, 4, 5, 5_000], 0.9)).toEqual([10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
});

test('jitter shortens a wait by up to half', () => {
  const backOff = { initialMs: 10_000, maxMs: 60_000, jitter: true };
  expect([0, 0.5, 0.999_9].map((random) => waits(backOff, [1, 4], random))).toEqual([
    [10_000, 60_000],
    [7_500, 45_000],
    [5_001, 30_003],
  ]);
});

test('no wait is shorter than 100 ms, even if set so', () => {
  expect(waits({ initialMs: 0, maxMs: 0, jitter: false }, [1, 2, 50])).toEqual([100, 100, 100]);
  expect(waits({ initialMs: 0, maxMs: 60_000, jitter: false }, [1, 2, 3])).toEqual([100, 200, 400]);
});

test('the longest wait applies if it is shorter than the first', () => {
  expect(waits({ initialMs: 10_000, maxMs: 500, jitter: false }, [1, 2])).toEqual([500, 500]);
});
