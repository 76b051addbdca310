import '../../helpers/realm.ts';
import { after } from '../../../src/base/later.ts';
import { createEngine } from '../../../src/engine/index.ts';
import type { Debit } from '../../../src/engine/ledger/debit.ts';
import { Crossings } from '../../../src/parts/notify/crossings.ts';
import { fakeClock } from '../../helpers/clock.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const MINUTE = 60_000;
const RULES = `
domain: d
descriptors:
  - { key: window, rate_limit: { unit: minute, requests_per_unit: 10, notify: [80%, 100%, 50%] } }
  - { key: bucket, rate_limit: { unit: minute, requests_per_unit: 10, algorithm: token_bucket, notify: 100% } }
  - { key: day, rate_limit: { unit: day, requests_per_unit: 10, notify: [50%, 100%] } }
  - { key: penalty, rate_limit: { unit: minute, requests_per_unit: 10, penalty: { block: 1s }, notify: 80% } }
  - { key: none, rate_limit: { unit: minute, requests_per_unit: 0, notify: 100% } }
  - { key: month, rate_limit: { unit: month, alignment: calendar, requests_per_unit: 10, notify: 80% } }
  - { key: quiet, rate_limit: { unit: minute, requests_per_unit: 1 } }
`;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

type Store = 'memory' | { readonly redis: string };

/** An engine whose debits are watched, as in a service with NOTIFY. */
async function openWatched(store: Store = 'memory', clock = fakeClock()) {
  const engine = await createEngine({ rules: { text: RULES }, store, ...(store === 'memory' && { clock }) });
  closing.push(() => engine.close());
  const crossings = new Crossings(store === 'memory' ? clock : Date.now);
  const debit = engine.decider.ledger.debit.bind(engine.decider.ledger);
  engine.decider.ledger.debit = (debits: readonly Debit[], how) => {
    return after(debit(debits, how), (entries) => {
      crossings.note(debits, entries);
      return entries;
    });
  };
  return { engine, crossings };
}

/** The percentages that hits of one request passed. */
async function spend(
  { engine, crossings }: Awaited<ReturnType<typeof openWatched>>,
  key: string,
  hits = 1,
  value = 'a',
): Promise<readonly number[]> {
  await engine.decide({ domain: 'd', descriptors: [{ entries: [{ key, value }], hits }] });
  return crossings.take().crossings.map(({ percent }) => percent);
}

test('each share of a window is passed once, by the hits that pass it', async () => {
  const clock = fakeClock(0);
  const watched = await openWatched('memory', clock);
  const passed: (readonly number[])[] = [];
  for (let hit = 0; hit < 12; hit++) passed.push(await spend(watched, 'window'));
  expect(passed).toEqual([[], [], [], [], [50], [], [], [80], [], [100], [], []]);
  clock.advance(MINUTE);
  expect(await spend(watched, 'window', 9)).toEqual([50, 80]);
  expect(await spend(watched, 'window', 9)).toEqual([100]); // refused
  expect(await spend(watched, 'window', 9, 'b')).toEqual([50, 80]); // of another counter
});

test('a bucket that is filled up and emptied again is passed once in the time of its window', async () => {
  const clock = fakeClock(0);
  const watched = await openWatched('memory', clock);
  expect(await spend(watched, 'bucket', 10)).toEqual([100]);
  clock.advance(MINUTE / 10);
  expect(await spend(watched, 'bucket')).toEqual([]);
  clock.advance(MINUTE);
  expect(await spend(watched, 'bucket', 10)).toEqual([100]);
});

test('a share has one id in a calendar month, and another one in the next month', async () => {
  const ids: (string | undefined)[] = [];
  for (const day of ['2026-11-02', '2026-11-20', '2026-12-01']) {
    const watched = await openWatched('memory', fakeClock(Date.parse(day)));
    await watched.engine.decide({ domain: 'd', descriptors: [{ entries: [{ key: 'month', value: 'a' }], hits: 8 }] });
    ids.push(watched.crossings.take().crossings[0]?.id);
  }
  expect(ids[1]).toBe(ids[0]);
  expect(ids[2]).not.toBe(ids[0]);
});

test('a share of a limit with a penalty is passed once in each window', async () => {
  const clock = fakeClock(MINUTE - 1_000);
  const watched = await openWatched('memory', clock);
  expect(await spend(watched, 'penalty', 8)).toEqual([80]);
  clock.advance(1_000);
  expect(await spend(watched, 'penalty', 8)).toEqual([80]);
});

test('peeks, refunds and limits without notify pass no share; a limit of 0 is passed by its first refusal', async () => {
  const watched = await openWatched();
  await spend(watched, 'window', 7);
  expect(await spend(watched, 'window', 0)).toEqual([]);
  expect(await spend(watched, 'window', -7)).toEqual([]);
  expect(await spend(watched, 'quiet', 5)).toEqual([]);
  expect([await spend(watched, 'none'), await spend(watched, 'none')]).toEqual([[100], []]);
});

test('more crossings than can be delivered are counted', async () => {
  const watched = await openWatched();
  for (let at = 0; at < 250; at++)
    await watched.engine.decide({
      domain: 'd',
      descriptors: [{ entries: [{ key: 'bucket', value: `${at}` }], hits: 10 }],
    });
  const { crossings, dropped } = watched.crossings.take();
  expect([crossings.length, dropped]).toEqual([200, 50]);
  expect(watched.crossings.take()).toEqual({ crossings: [], dropped: 0 });
});

describe.each(['memory', 'redis'] as const)('with counters in %s', (name) => {
  let redis: Redis | undefined;
  beforeAll(async () => {
    if (name === 'redis') redis = await startRedis();
  });
  afterAll(() => redis?.stop());

  test('any requests pass each share when the sum of admitted hits reaches it', async () => {
    const watched = await openWatched(redis ? { redis: `redis://127.0.0.1:${redis.port}` } : 'memory');
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 12 }), async (requests) => {
        const value = `v${run++}`;
        let used = 0;
        let told = 0;
        for (const hits of requests) {
          const { overallCode } = await watched.engine.decide({
            domain: 'd',
            descriptors: [{ entries: [{ key: 'day', value }], hits }],
          });
          const before = used;
          if (overallCode === 'OK') used += hits;
          else if (hits > 1) used = 10; // a window counts refused hits
          const isToldOf100 = told === 100;
          const expected = [50, 100].filter(
            (share) => before < share / 10 && used >= share / 10 && !(share === 100 && isToldOf100),
          );
          if (expected.includes(100)) told = 100;
          expect(watched.crossings.take().crossings.map(({ percent }) => percent)).toEqual(expected);
        }
      }),
      { numRuns: 60 },
    );
  });
});
