import type { Verdict } from '../../../src/engine/decide/decide.ts';
import { ArrivalLog, type ArrivalSample } from '../../../src/parts/advise/arrival-log.ts';
import { LiveAdvice } from '../../../src/parts/advise/live-advice.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { answerOf, verdictOf } from '../../helpers/verdicts.ts';

const MINUTE_MS = 60_000;
const START_MS = 1_700_000_040_000; // the start of a minute
const rules = rulesFrom(`domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 10 }
`);
const [rule] = rules.rules;

/** The verdict of the rule's limit on a hit. */
function limited(user: string, before: number): Verdict {
  const verdict = verdictOf(['user'], { before });
  if (verdict.kind !== 'limited' || !rule) throw new Error('the rule limits');
  return { ...verdict, rule, found: { entries: [{ key: 'user', value: user }] } };
}

function answer(log: ArrivalLog, user: string, before = 0): void {
  const descriptors = [
    {
      entries: [{ key: 'user', value: user }],
      limit: null,
      hits_addend: null,
      is_negative_hits: false,
    },
  ];
  log.answered({ domain: 'demo', descriptors, hits_addend: 0 }, answerOf([limited(user, before)]));
}

test('nothing is logged before the first collection, and each arrival is collected once', () => {
  const clock = fakeClock(START_MS);
  const log = new ArrivalLog(clock);
  answer(log, 'ann');
  expect(log.take({ seed: 1, level: 0 })).toEqual({ level: 0, arrivals: [] });
  answer(log, 'ann');
  clock.advance(5);
  answer(log, 'bob', 10);
  const common = { rule: 'demo.user', hits: 1, client: undefined };
  expect(log.take({ seed: 1, level: 0 })).toEqual({
    level: 0,
    arrivals: [
      { ...common, key: '4:demo|4:user|3:ann', timeMs: START_MS, refusedBy: undefined },
      { ...common, key: '4:demo|4:user|3:bob', timeMs: START_MS + 5, refusedBy: MINUTE_MS },
    ],
  });
  expect(log.take({ seed: 1, level: 0 }).arrivals).toEqual([]);
});

test('arrivals under an override, whose limit is not of the rule, are left out as those of an exempt caller are', () => {
  const log = new ArrivalLog(fakeClock(START_MS));
  log.take({ seed: 1, level: 0 });
  const verdict = limited('ann', 10);
  if (verdict.kind !== 'limited') throw new Error('the rule limits');
  const found = { ...verdict.found, overridden: true } as const;
  log.answered({ domain: 'demo', descriptors: [], hits_addend: 0 }, answerOf([{ ...verdict, found }]));
  expect(log.take({ seed: 1, level: 0 }).arrivals).toEqual([]);
});

test('a process with too many arrivals drops half of the keys, and all processes drop the same ones', () => {
  const [busy, calm] = [new ArrivalLog(fakeClock(START_MS)), new ArrivalLog(fakeClock(START_MS))];
  for (const log of [busy, calm]) log.take({ seed: 9, level: 0 });
  for (let hit = 0; hit <= 5_000; hit++) answer(busy, `user-${hit % 1_000}`);
  const { level, arrivals } = busy.take({ seed: 9, level: 0 });
  expect(level).toBe(1);
  const keys = new Set(arrivals.map(({ key }) => key));
  expect(keys.size).toBeGreaterThan(400);
  expect(keys.size).toBeLessThan(600);
  calm.take({ seed: 9, level });
  for (let user = 0; user < 1_000; user++) answer(calm, `user-${user}`);
  expect(new Set(calm.take({ seed: 9, level }).arrivals.map(({ key }) => key))).toEqual(keys);
});

test('a key that two processes answer has the same windows as in one process', async () => {
  const clock = fakeClock(START_MS);
  const logs = [new ArrivalLog(clock), new ArrivalLog(clock)] as const;
  const live = new LiveAdvice({
    maxBytes: 10_000_000,
    seed: 3,
    hash: undefined,
    rules: () => rules,
    every: () => () => {},
    ask: async ({ question }) => logs.map((log) => ({ process: '', reply: log.take(question as ArrivalSample) })),
  });
  await live.collect();
  for (let minute = 0; minute < 12; minute++)
    for (let second = 0; second < 60; second += 10) {
      for (let user = 0; user < 30; user++) answer(logs[(second / 10) % 2 === 0 ? 0 : 1], `user-${user}`);
      clock.advance(10_000);
      if (second % 30 === 0) await live.collect();
    }
  const { limits } = (await live.advice({})) as { readonly limits: readonly Record<string, unknown>[] };
  expect(limits).toEqual([
    expect.objectContaining({
      confidence: expect.objectContaining({ requests: 12 * 6 * 30, keys: 30, oneIn: 1 }),
      busiest: { p50: 6, p90: 6, p99: 6, p999: 6, max: 6 },
      windows: { p50: 6, p90: 6, p99: 6, p999: 6, max: 6 },
    }),
  ]);
  expect(await live.advice({ rule: 'demo.other' })).toMatchObject({ limits: [] });
  live.close();
});
