import '../../helpers/realm.ts';
import { quantileMs } from '../../../src/operate/observe/histogram.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';
import { Ring, Series } from '../../../src/operate/status/series.ts';
import { ServiceSeries } from '../../../src/operate/status/service-series.ts';

test('a ring keeps the last rows, the oldest first', () => {
  const ring = new Ring(3, 2);
  for (let row = 1; row <= 5; row++) ring.push([row, row * 10]);
  expect(ring.column(0)).toEqual([3, 4, 5]);
  expect(ring.column(1)).toEqual([30, 40, 50]);
  expect(ring.sum(0)).toBe(12);
});

test('an hour has the mean rate and the highest latency of each 30 seconds', () => {
  const series = new Series(['mean', 'max']);
  for (let second = 1; second <= 60; second++) series.push([second <= 30 ? 10 : 20, second]);
  expect(series.column('1h', 0)).toEqual([10, 20]);
  expect(series.column('1h', 1)).toEqual([30, 60]);
  expect(series.column('60s', 0)).toHaveLength(60);
  expect(series.column('10m', 0)).toEqual([10, 10, 10, 20, 20, 20]);
  expect(series.column('24h', 0)).toEqual([]);
});

test('the memory of a series does not grow with time', () => {
  const series = new Series(['mean']);
  const { bytes } = series;
  for (let second = 0; second < 200_000; second++) series.push([second]);
  expect(series.bytes).toBe(bytes);
  expect(series.column('24h', 0)).toHaveLength(144);
});

test.each<[number, readonly number[], number]>([
  [0.5, [0, 0, 0], 0],
  [0.5, [100, 0, 0], 0.5],
  [0.99, [0, 100, 0], 1.99],
  [0.5, [0, 0, 10], 2],
])('the %p quantile of %p calls is %p ms', (quantile, counts, expected) => {
  expect(quantileMs(quantile, counts, [1, 2])).toBe(expected);
});

test('requests are counted by their outcome, of which each has one', () => {
  const statistics = createStatistics(0.8);
  const series = new ServiceSeries();
  series.begin(statistics);
  const durations = { counts: [], boundsMs: [] };
  Object.assign(statistics.answers, { OK: 5, OVER_LIMIT: 3 });
  Object.assign(statistics.degradedAnswers, { OK: 2, OVER_LIMIT: 1 });
  Object.assign(statistics.undecided, { store: 20, late: 10 });
  series.gather(statistics, durations, { lagMs: 0 });
  expect(series.last).toMatchObject({ passed: 3, refused: 2, degraded: 3, undecided: 30, unmatched: 0 });
  expect(series.undecidedBy()).toEqual({ store: 20, late: 10 });
  expect(series.lastMinute()).toEqual({ passed: 3, refused: 2, degraded: 3, undecided: 30, offered: 38, unmatched: 0 });
  expect(series.requestsOfMinute(statistics)).toBe(38);
  const after = (seconds: number): typeof series => {
    for (let at = 0; at < seconds; at++) series.gather(statistics, durations, { lagMs: 0 });
    return series;
  };
  expect(after(59).undecidedBy()).toEqual({ store: 20, late: 10 });
  expect(after(1).undecidedBy()).toEqual({});
});
