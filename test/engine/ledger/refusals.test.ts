import { NEVER_MS, unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, Operation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { backendThat, ledgerOf } from '../../helpers/ledger.ts';
import {
  fixedWindowOf,
  type PolicedLimit as Limit,
  leakyBucketOf,
  limitsOfEach,
  penaltyOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

const on = (key: string, limit: Limit, hits = 1, blocks = true): Debit => {
  return createDebit({ key: key as CounterKey }, { limit, policy: limit }, hits, blocks); // any key will do
};

/** A cache in front of a store that counts its calls. */
function cached(maxBytes = 1_000_000) {
  const clock = fakeClock();
  const inner = createMemoryBackend(clock, { maxCounters: 1_000_000 });
  const asked: (readonly Operation[])[] = [];
  const network = { isLive: true };
  const store: Backend = {
    ...inner,
    run(operations, how) {
      asked.push(operations);
      return inner.run(operations, how);
    },
    invalidations: () => ({ publish: () => {}, isLive: () => network.isLive }),
  };
  const ledger = ledgerOf(store, { clock, monotonicMs: clock, denyCacheBytes: maxBytes });
  const { refusals: cache } = ledger;
  if (!cache) throw new Error('expected a memory of refusals');
  const apply = async (spend: 'each' | 'all_or_nothing' | 'spare_others', ...debits: Debit[]) =>
    ledger.debit(debits, { spend, timeoutMs: 1_000 });
  return { clock, inner, cache, ledger, network, asked, apply, each: (...debits: Debit[]) => apply('each', ...debits) };
}

const limit = fixedWindowOf(2, unitMs.MINUTE);

test('refused hits are refused again without a call until a hit could pass', async () => {
  const { clock, asked, each } = cached();
  expect(await each(on('a', limit, 3))).toMatchObject([{ code: 'OVER_LIMIT' }]);
  const leftMs = unitMs.MINUTE - (clock() % unitMs.MINUTE);
  clock.advance(leftMs - 1);
  expect(await each(on('a', limit), on('b', limit), on('a', limit, 3))).toEqual([
    expect.objectContaining({ code: 'OVER_LIMIT', fromCache: true, limitRemaining: 0, retryAfterMs: 1, hitsBefore: 2 }),
    expect.not.objectContaining({ fromCache: true }),
    expect.objectContaining({ code: 'OVER_LIMIT', fromCache: true, durationUntilResetMs: 1, retryAfterMs: NEVER_MS }),
  ]);
  expect(asked.map((hits) => hits.length)).toEqual([1, 1]);
  clock.advance(1);
  expect(await each(on('a', limit))).toMatchObject([{ code: 'OK' }]);
});

test('a cached refusal of several hits promises them for the next refill at the latest', async () => {
  const { clock, each } = cached();
  const bucket = tokenBucketOf(60, unitMs.MINUTE, { burst: 10, refill: 'interval' });
  await each(on('a', bucket, 10));
  await each(on('a', bucket));
  const retryAfterMs = unitMs.MINUTE - (clock() % unitMs.MINUTE);
  expect(await each(on('a', bucket, 10))).toMatchObject([{ fromCache: true, retryAfterMs }]);
});

test('a cached refusal of several hits promises them once a leaky bucket has leaked them', async () => {
  const { each } = cached();
  const bucket = leakyBucketOf(60, unitMs.MINUTE, { burst: 10 });
  await each(on('a', bucket, 10));
  await each(on('a', bucket));
  expect(await each(on('a', bucket, 5))).toMatchObject([{ fromCache: true, retryAfterMs: 5_000 }]);
});

test('two hits that were refused and not charged leave room for one', async () => {
  const { each, apply } = cached();
  await each(on('a', limit));
  expect(await apply('all_or_nothing', on('a', limit, 2))).toMatchObject([{ code: 'OVER_LIMIT' }]);
  expect(await each(on('a', limit))).toMatchObject([{ code: 'OK' }]);
});

test('a hit that fills the limit exactly is not cached', async () => {
  const { cache, each } = cached();
  await each(on('a', limit, 2));
  expect(cache.size()).toBe(0);
});

describe('a peek', () => {
  test('is refused from the cache if the counter is above the limit', async () => {
    const { each, asked } = cached();
    await each(on('a', limit, 3));
    expect(await each(on('a', limit, 0))).toMatchObject([{ code: 'OVER_LIMIT', fromCache: true }]);
    expect(asked).toHaveLength(1);
  });

  test('that is refused is cached', async () => {
    const { each, asked, cache } = cached();
    const bucket = tokenBucketOf(1, unitMs.MINUTE);
    await each(on('a', bucket));
    await each(on('a', bucket, 0));
    expect(cache.size()).toBe(1);
    expect(await each(on('a', bucket))).toMatchObject([{ code: 'OVER_LIMIT', fromCache: true }]);
    expect(asked).toHaveLength(2);
  });

  test('calls the store if the counter may be exactly at the limit', async () => {
    const { apply, asked } = cached();
    await apply('all_or_nothing', on('a', limit, 2));
    await apply('all_or_nothing', on('a', limit)); // refused, but not counted
    expect(await apply('all_or_nothing', on('a', limit, 0))).toMatchObject([{ code: 'OK' }]);
    expect(asked).toHaveLength(3);
  });
});

test('a peek for more hits than are left is not cached as if they had been charged', async () => {
  const { each, cache } = cached();
  for (const one of limitsOfEach(2)) {
    const key = JSON.stringify(one);
    expect(await each({ ...on(key, one, 3), kind: 'peek' })).toMatchObject([{ code: 'OVER_LIMIT' }]);
    expect(await each(on(key, one))).toMatchObject([{ code: 'OK' }]);
  }
  expect(cache.size()).toBe(0);
});

describe('refunded hits', () => {
  test('drop the cached refusal', async () => {
    const { each } = cached();
    await each(on('a', limit, 3));
    expect(await each(on('a', limit, -3))).toMatchObject([{ code: 'OK' }]);
    expect(await each(on('a', limit))).toMatchObject([{ code: 'OK' }]);
  });

  test('drop the refusal even if they are refunded while it is in transit', async () => {
    const { each, cache } = cached();
    await Promise.all([each(on('a', limit, 3)), each(on('a', limit, -3))]);
    expect(cache.size()).toBe(0);
    expect(await each(on('a', limit))).toMatchObject([{ code: 'OK' }]);
  });
});

test.each([
  ['a larger limit', fixedWindowOf(9, unitMs.MINUTE)],
  ['a soft part', fixedWindowOf(2, unitMs.MINUTE, { soft: 5 })],
])('%s on the same counter calls the store', async (_, other) => {
  const { each } = cached();
  await each(on('a', limit, 3));
  expect(await each(on('a', { ...limit }))).toMatchObject([{ fromCache: true }]); // the same rules, loaded again
  expect(await each(on('a', other))).toMatchObject([{ code: 'OK' }]);
});

test('a caller with a longer max_delay calls the store', async () => {
  const { each } = cached();
  const queue = (maxDelayMs: number) => leakyBucketOf(1, 1_000, { maxDelayMs });
  await each(on('a', queue(0)));
  expect(await each(on('a', queue(0)))).toMatchObject([{ code: 'OVER_LIMIT' }]);
  expect(await each(on('a', queue(0)))).toMatchObject([{ fromCache: true }]);
  expect(await each(on('a', queue(1_000)))).toMatchObject([{ code: 'OK', delayMs: 1_000 }]);
});

test('a log that counts refusals is never cached, since each refusal delays when a hit can pass', async () => {
  const { each, cache } = cached();
  const log = slidingWindowLogOf(1, unitMs.MINUTE, { countDenied: true });
  for (let hit = 0; hit < 3; hit++) await each(on('a', log));
  expect(cache.size()).toBe(0);
});

test.each(['all_or_nothing', 'spare_others'] as const)(
  'with %s, a cached refusal leaves the other limits uncharged, but a non-blocking one does not',
  async (spend) => {
    const { apply, asked } = cached();
    const log = slidingWindowLogOf(1, unitMs.MINUTE);
    for (let time = 0; time < 2; time++) await apply('each', on('full', log));
    expect(await apply(spend, on('a', limit), on('full', log))).toMatchObject([
      { code: 'OK', limitRemaining: 2 },
      { code: 'OVER_LIMIT', fromCache: true },
    ]);
    expect(asked.at(-1)).toMatchObject([{ kind: 'peek', key: 'a', hits: 1 }]);
    expect(await apply(spend, on('a', limit), on('full', log, 1, false))).toMatchObject([
      { code: 'OK', limitRemaining: 1 },
      { code: 'OVER_LIMIT' },
    ]);
  },
);

test('a failure of the store is returned, and not cached', async () => {
  const unavailable = { code: 'UNAVAILABLE', reason: 'away' } as const;
  const away = backendThat((operations) => operations.map(() => unavailable));
  const ledger = ledgerOf(away, { denyCacheBytes: 1_000 });
  expect(ledger.debit([on('a', limit)], { spend: 'each', timeoutMs: 1 })).toEqual([unavailable]);
  expect(ledger.refusals?.size()).toBe(0);
});

test('the cache takes no more than its maximum memory, and drops the oldest refusals', async () => {
  const { cache, each } = cached(100 * 210);
  for (let at = 0; at < 5_000; at++) await each(on(`k${String(at).padStart(5, '0')}`, limit, 3));
  expect(cache.size()).toBeLessThanOrEqual(102);
  expect(cache.counts.evicted).toBe(5_000 - cache.size());
  expect(await each(on('k04999', limit))).toMatchObject([{ fromCache: true }]);
  expect(await each(on('k00000', limit))).toMatchObject([expect.not.objectContaining({ fromCache: true })]);
});

test('the cache counts its lookups and contents', async () => {
  const { cache, clock, each } = cached();
  await each(on('a', limit, 3));
  await each(on('a', limit));
  await each(on('a', fixedWindowOf(1, unitMs.MINUTE), 3)); // another limit: sent to the store, refused, and cached instead
  clock.advance(unitMs.MINUTE);
  await each(on('a', limit));
  expect(cache.counts).toEqual({ lookups: 4, hits: 1, expired: 1, evicted: 0, overwritten: 1 });
  cache.clear();
  expect(cache.size()).toBe(0);
});

test('no hit is refused that the store would admit, for any limit and schedule', async () => {
  const step = fc.record({ waitMs: fc.integer({ min: 0, max: 900 }), hits: fc.integer({ min: -1, max: 3 }) });
  const limits = limitsOfEach(3, 2_000);
  let refusals = 0;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...limits), fc.array(step, { maxLength: 60 }), async (tried, steps) => {
      const { clock, inner, each } = cached();
      for (const { waitMs, hits } of steps) {
        clock.advance(waitMs);
        const hit = on('a', tried, hits);
        const [answer] = await each(hit);
        if (!answer || !('fromCache' in answer)) continue;
        refusals++;
        const [asked] = await inner.run([hit], { spend: 'all_or_nothing', timeoutMs: 1_000 }); // does not count refusals
        expect(asked).toMatchObject({ code: 'OVER_LIMIT' });
      }
    }),
  );
  expect(refusals).toBeGreaterThan(10);
});

test('a repeated refusal by a block names the time when the limit has room', async () => {
  const { clock, each } = cached();
  const day = penaltyOf(fixedWindowOf(2, unitMs.DAY), { blockMs: unitMs.HOUR, longestMs: unitMs.HOUR });
  const roomMs = unitMs.DAY - (clock() % unitMs.DAY);
  await each(on('a', day, 2));
  expect(await each(on('a', day))).toMatchObject([{ code: 'OVER_LIMIT', retryAfterMs: roomMs }]);
  clock.advance(unitMs.MINUTE);
  const again = { code: 'OVER_LIMIT', fromCache: true, retryAfterMs: roomMs - unitMs.MINUTE };
  expect(await each(on('a', day))).toMatchObject([again]);
  expect(await each(on('a', day, 2))).toMatchObject([again]);
});

test.each([
  ['last', (own: Limit) => ({ ...own, above: 1 })],
  ['first', (own: Limit) => ({ above: 1, ...own })],
])('a known block holds for its own rule and for those that it refuses as well (watched %s)', async (_, watch) => {
  const { clock, cache, each } = cached();
  const own = penaltyOf(fixedWindowOf(2, unitMs.DAY), { blockMs: unitMs.HOUR, longestMs: unitMs.HOUR });
  const watched = { limit: watch(own), policy: { watches: true } } as const;
  const watching = createDebit({ key: 'a' as CounterKey }, watched, 0, true); // any key will do
  const roomMs = unitMs.DAY - (clock() % unitMs.DAY);
  await each(on('a', own, 3));
  await each(on('a', own));
  await each(watching);
  expect(cache.recall(on('a', own))).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: roomMs });
  expect(cache.recall(watching)).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: unitMs.HOUR });
  cache.clear();
  clock.advance(1);
  await each(watching);
  expect(cache.recall(on('a', own))).toMatchObject({ code: 'OVER_LIMIT' });
});

describe('a refusal in transit', () => {
  /** Sends a request that is refused; the counter changes while the reply is in transit. */
  const rememberedAfter = (change: (of: ReturnType<typeof cached>) => void): number => {
    const of = cached();
    const [debit, askedMs] = [on('a', limit, 3), of.clock()];
    const decision = { code: 'OVER_LIMIT', hitsBefore: 2, limitRemaining: 0, durationUntilResetMs: 60_000 } as const;
    change(of);
    of.cache.remember(
      debit,
      { ...decision, retryAfterMs: 60_000, delayMs: 0, soft: false },
      { isCharged: true, calledAtMs: askedMs },
    );
    return of.cache.size();
  };

  test('is cached if nothing has changed', () => {
    expect(rememberedAfter(() => {})).toBe(1);
  });

  test('is not cached if its counter has changed in the same millisecond', () => {
    expect(rememberedAfter(({ cache }) => cache.drop('a' as CounterKey))).toBe(0);
  });

  test.each(['a', 'another'])('is not cached after more changes than are listed, the first of them of %s', (first) => {
    const change = ({ cache, clock }: ReturnType<typeof cached>): void => {
      clock.advance(1);
      for (const key of [first, ...Array.from({ length: 20_000 }, (_, at) => `other-${at}`)])
        cache.drop(key as CounterKey);
    };
    expect(rememberedAfter(change)).toBe(0);
  });
});
