import { type ObservedRule, RuleSketch } from '../../../src/parts/advise/rule-sketch.ts';
import { WeightedValues } from '../../../src/parts/advise/weighted-values.ts';
import { heapBytes } from '../../helpers/heap.ts';
import { numbers } from '../../helpers/numbers.ts';

const MINUTE_MS = 60_000;
const START_MS = 1_700_000_040_000; // the start of a minute
const MAX_KEYS = 2_000;

const sketch = (maxKeys = MAX_KEYS, left = 100_000): RuleSketch =>
  new RuleSketch({
    windowMs: MINUTE_MS,
    maxKeys,
    seed: 1,
    budget: { left },
    admittedKeys: { left: 1_000 },
    makeRoom: () => false,
  });

const add = (to: RuleSketch, key: string, timeMs: number, more: { hits?: number; isRefused?: boolean } = {}): void =>
  to.add({
    key,
    timeMs,
    hits: 1,
    isRefused: false,
    client: undefined,
    level: 0,
    ...more,
  });

function observe(one: RuleSketch): ObservedRule {
  const observed = one.observed();
  if (!observed) throw new Error('nothing was seen');
  return observed;
}

test('the figures of a few keys are exact', () => {
  const one = sketch();
  for (const [key, atMs] of [
    ['a', 0],
    ['a', 10],
    ['b', 59_999],
    ['a', 60_000],
    ['a', 3 * 86_400_000],
  ] as const)
    add(one, key, START_MS + atMs);
  add(one, 'b', START_MS + 60_001, { hits: 7, isRefused: true });
  const { requests, hits, refusedHits, keys, oneIn, days, windows, admitted, followed } = observe(one);
  expect({ requests, hits, refusedHits, keys, oneIn, days }).toEqual({
    requests: 6,
    hits: 12,
    refusedHits: 7,
    keys: 2,
    oneIn: 1,
    days: 2,
  });
  expect([windows.windows, windows.max, windows.quantile(0.5), windows.above(1)]).toEqual([5, 7, 1, 7]);
  expect(admitted).toMatchObject({ key: 'a', hits: 2 });
  expect(followed.map(({ key, arrivals }) => [key, arrivals.busiest])).toEqual([
    ['a', 2],
    ['b', 7],
  ]);
});

test('hundreds of thousands of keys are tracked by a sample that has the quantiles of all and includes the heaviest keys', () => {
  const random = numbers(7);
  const one = sketch();
  const KEYS = 400_000;
  const before = heapBytes();
  for (let key = 0; key < KEYS; key++) {
    const hits = 1 + Math.floor(100 * random());
    add(one, `user-${key}`, START_MS + Math.floor((key / KEYS) * 30 * MINUTE_MS), { hits });
    if (key % 100 === 0) add(one, 'bot', START_MS + Math.floor((key / KEYS) * 30 * MINUTE_MS), { hits: 100 });
  }
  expect(heapBytes() - before).toBeLessThan(12 * 2 ** 20);
  const { keys, oneIn, followed, windows, requests, untracked } = observe(one);
  expect(requests).toBe(KEYS + KEYS / 100);
  expect(untracked).toBe(0);
  expect(oneIn).toBeGreaterThanOrEqual(128);
  expect(Math.abs(keys / KEYS - 1)).toBeLessThan(4 * (1.2 / Math.sqrt(MAX_KEYS / 2)));
  const busiest = new WeightedValues(followed.map(({ arrivals, weight }) => ({ value: arrivals.busiest, weight })));
  expect(Math.abs(busiest.quantile(0.5) - 50)).toBeLessThan(7);
  expect(Math.abs(windows.quantile(0.9) - 90)).toBeLessThan(7);
  const bot = followed.find(({ key }) => key === 'bot');
  expect(bot).toMatchObject({ weight: 1 });
  expect(bot?.arrivals.hits).toBe(KEYS);
});

test('keys beyond the limit are counted, and the others are still tracked', () => {
  const one = sketch(MAX_KEYS, 2);
  for (const key of ['a', 'b', 'c', 'a']) add(one, key, START_MS);
  const { keys, untracked, requests } = observe(one);
  expect({ keys, untracked, requests }).toEqual({ keys: 2, untracked: 1, requests: 4 });
});

test('arrivals of a one-in-four sample count four times', () => {
  const one = sketch();
  for (let key = 0; key < 4_000; key++)
    one.add({
      key: `k${key}`,
      timeMs: START_MS,
      hits: 1,
      isRefused: false,
      client: undefined,
      level: 2,
    });
  const { keys, oneIn } = observe(one);
  expect(oneIn).toBe(4);
  expect(Math.abs(keys - 4_000)).toBeLessThan(500);
});
