import type { Decision, Limit, StoreFailurePolicy } from '../../src/algorithms/limit.ts';
import { createGuard } from '../../src/stores/guard.ts';
import type { CounterKey } from '../../src/stores/key.ts';
import { createMemoryStore } from '../../src/stores/memory.ts';
import type { Hit, Store, Unavailable } from '../../src/stores/store.ts';
import { fakeClock } from '../helpers/clock.ts';
import { fixedWindowOf, tokenBucketOf } from '../helpers/limits.ts';
import { eventually } from '../helpers/statsd.ts';

const clock = fakeClock();
const each = { spend: 'each', timeoutMs: 1_000 } as const;

let isAway: boolean;
let inner: Store;
let guard: Store;
beforeEach(() => {
  isAway = false;
  const memory = createMemoryStore(clock, { maxCounters: 1_000 });
  const unavailable: Unavailable = { code: 'UNAVAILABLE', reason: 'away' };
  inner = {
    ...memory,
    apply: async (hits, how) => (isAway ? hits.map(() => unavailable) : memory.apply(hits, how)),
    state: () => (isAway ? { ready: false, reason: 'away' } : { ready: true }),
  };
  guard = createGuard(inner, { clock, maxCounters: 100, lookIntervalMs: 5, timeoutMs: 1_000 });
});
afterEach(() => guard.close());

const limitWith = (
  onStoreFailure?: StoreFailurePolicy,
  localShare?: number,
  limit: Limit = fixedWindowOf(6),
): Limit => ({
  ...limit,
  ...(onStoreFailure && { onStoreFailure }),
  ...(localShare && { localShare }),
});
const hit = (limit: Limit, hits = 1, key = 'k'): Hit => ({ key: key as CounterKey, limit, hits, blocks: true });
const codesOf = (answers: readonly (Decision | Unavailable)[]) => answers.map(({ code }) => code);

test('while the store is there, it decides', async () => {
  for (const policy of [undefined, 'allow', 'deny', 'local'] as const) {
    const limit = limitWith(policy);
    const [answer] = await guard.apply([hit(limit, 1, `${policy}`)], each);
    expect(answer).toMatchObject({ code: 'OK', limitRemaining: 5 });
    expect(answer).not.toHaveProperty('degraded');
  }
});

test('while it is away, each limit has its policy', async () => {
  isAway = true;
  expect(await guard.apply([hit(limitWith('allow'))], each)).toMatchObject([{ code: 'OK', degraded: 'allow' }]);
  expect(await guard.apply([hit(limitWith('deny'))], each)).toMatchObject([
    { code: 'OVER_LIMIT', degraded: 'deny', retryAfterMs: 1_000 },
  ]);
  expect(await guard.apply([hit(limitWith('local'))], each)).toMatchObject([
    { code: 'OK', degraded: 'local', limitRemaining: 5 },
  ]);
});

test('where one limit of a request has none, the request has no answer, and nothing is counted', async () => {
  isAway = true;
  const local = limitWith('local');
  const answers = await guard.apply([hit(local), hit(limitWith(), 1, 'other')], each);
  expect(codesOf(answers)).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
  expect(await guard.apply([hit(local)], each)).toMatchObject([{ limitRemaining: 5 }]);
});

test('a process that counts by itself admits its share of the limit', async () => {
  isAway = true;
  const limit = limitWith('local', 3);
  const answers = [];
  for (let times = 0; times < 4; times++) answers.push(...(await guard.apply([hit(limit)], each)));
  expect(codesOf(answers)).toEqual(['OK', 'OK', 'OVER_LIMIT', 'OVER_LIMIT']);
});

test('what was counted here is counted in the store when that is back, once', async () => {
  const limit = limitWith('local');
  await guard.apply([hit(limit, 2)], each);
  isAway = true;
  await guard.apply([hit(limit, 3)], each);
  isAway = false;
  const standsAt = async (hits: number) => {
    const [answer] = await inner.apply([hit(limit, 0)], each);
    return answer !== undefined && 'hitsBefore' in answer && answer.hitsBefore === hits;
  };
  await eventually(() => standsAt(5));
  isAway = true;
  await guard.apply([hit(limit, 1)], each); // a second outage owes what it counted itself, and no more
  isAway = false;
  await eventually(() => standsAt(6));
  expect(await guard.apply([hit(limit)], each)).toMatchObject([{ code: 'OVER_LIMIT' }]);
});

test('what the limit has no room for is not counted; what it has room for is', async () => {
  const limit = limitWith('local', undefined, tokenBucketOf(6));
  await guard.apply([hit(limit, 4)], each);
  isAway = true;
  await guard.apply([hit(limit, 5)], each);
  isAway = false;
  await eventually(async () => {
    const [answer] = await inner.apply([hit(limit, 0)], each);
    return answer?.code === 'OVER_LIMIT';
  });
});

test('what was counted in a window that is over is not brought back', async () => {
  const limit = limitWith('local');
  isAway = true;
  await guard.apply([hit(limit, 6)], each);
  clock.advance(60_000);
  isAway = false;
  await guard.apply([hit(limit, 0, 'another')], each);
  await new Promise((resolve) => setTimeout(resolve, 50)); // some looks of the guard
  expect(await inner.apply([hit(limit, 0)], each)).toMatchObject([{ hitsBefore: 0 }]);
});

test('at its end a process brings back what it still owes, where the store is there', async () => {
  const limit = limitWith('local');
  const left = { ...inner, close: async () => {} };
  const ending = createGuard(left, { clock, maxCounters: 100, lookIntervalMs: 1_000_000, timeoutMs: 1_000 });
  isAway = true;
  const keys = Array.from({ length: 100 }, (_, at) => `key-${at}`);
  await ending.apply(
    keys.map((key) => hit(limit, 2, key)),
    each,
  );
  isAway = false;
  await ending.close();
  const stands = await inner.apply(
    keys.map((key) => hit(limit, 0, key)),
    each,
  );
  expect(stands.map((answer) => 'hitsBefore' in answer && answer.hitsBefore)).toEqual(keys.map(() => 2));
});

test('and ends all the same where it is not', async () => {
  isAway = true;
  await guard.apply([hit(limitWith('local'))], each);
  await guard.close();
});
