import { spends } from '../../../src/engine/algorithms/limit.ts';
import type { Operation, Replies } from '../../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import fc from '../../helpers/property.ts';
import { codesOf, newKey, STORE_TIMEOUT_MS, sharedStores, withRedis } from '../../helpers/shared-stores.ts';
import { childOf, fairShareOf, type Leaf, spendOf } from '../../helpers/shares.ts';

const clock = fakeClock();
const onClock = withRedis(clock);

const how = { spend: 'each', timeoutMs: STORE_TIMEOUT_MS } as const;

/** Two organisations of two teams: with reservations, except the last team, and ceilings. */
const leaves = [1, 2, 3, 4].map((id): Leaf => {
  const [org, team] = [Math.ceil(id / 2), id];
  const path = [
    childOf({ key: 'org', reserve: org === 1 ? 10 : 5, weight: org, ceiling: org === 1 ? 16 : 15 }),
    childOf({ key: 'team', reserve: [4, 3, 2, 0][team - 1] ?? 0 }),
  ];
  return { children: [org + 100, team], path, demand: 0, ...(team === 4 && { threshold: 60 }) };
});

describe.each(Object.entries(sharedStores))('in %s', (_, open) => {
  test('400 parallel calls of 40 children on several instances take the whole limit and not a hit more', async () => {
    const [stores, key, whole] = [open(), newKey(), fairShareOf(1, { burst: 100 })];
    const spendAt = (at: number) => {
      const child = childOf({ weight: 1 + (at % 3) });
      const leaf = { children: [1 + (at % 40)], path: [child], demand: 0, threshold: 100 };
      return (stores[at % stores.length] ?? stores[0]).run([spendOf(key, whole, leaf)], how);
    };
    const startedMs = Date.now();
    const replies = await Promise.all(Array.from({ length: 400 }, async (__, at) => await spendAt(at)));
    const passed = replies.flatMap(codesOf).filter((code) => code === 'OK').length;
    expect(passed).toBeGreaterThanOrEqual(100);
    expect(passed).toBeLessThanOrEqual(100 + Math.floor((Date.now() - startedMs) / 1_000) + 1);
  });
});

test('Redis decides as memory does, whatever is spent, peeked at, charged and given back', async () => {
  const anyOperation = fc.record({
    leaf: fc.constantFrom(...leaves),
    hits: fc.oneof(fc.integer({ min: -3, max: 8 }), fc.constantFrom(0, 100, 2 ** 40)),
    kind: fc.constantFrom(undefined, undefined, undefined, 'charge', 'refund', 'peek'),
    blocks: fc.boolean(),
  });
  const anyCall = fc.record({
    spend: fc.constantFrom(...spends),
    afterMs: fc.constantFrom(0, 0, 1, 13, 250, 999, 1_700, 5_000, -40),
    operations: fc.array(anyOperation, { minLength: 1, maxLength: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(anyCall, { maxLength: 20 }), async (calls) => {
      const memory = createMemoryBackend(clock, { maxCounters: 1_000 });
      const [key, whole] = [newKey(), fairShareOf(20)];
      for (const { spend, afterMs, operations } of calls) {
        clock.advance(afterMs);
        const run = operations.map(({ leaf, hits, kind, blocks }): Operation => {
          const { policy: _, ...plain } = spendOf(key, whole, leaf, hits);
          const isOther = kind === 'refund' || kind === 'charge';
          if (kind === undefined || (spend !== 'each' && isOther)) return { ...plain, blocks };
          return { ...plain, kind, chargedAtMs: clock() - 100 } as Operation;
        });
        const answers = await Promise.all(
          [memory, onClock.redis].map(async (store): Promise<Replies> => await store.run(run, { ...how, spend })),
        );
        expect(answers[1]).toEqual(answers[0]);
      }
    }),
    { numRuns: 150, endOnFailure: true },
  );
});

test('Redis forgets children that are silent', async () => {
  const [key, whole] = [newKey(), fairShareOf()];
  for (let round = 0; round < 20; round++) {
    const own = Array.from({ length: 100 }, (_, id) => ({
      ...{ children: [1 + round * 100 + id], path: [childOf()] },
      ...{ demand: 0 },
    }));
    await onClock.redis.run(
      own.map((leaf) => spendOf(key, whole, leaf)),
      how,
    );
    clock.advance(61_000);
  }
  expect(await onClock.connection.hlen(key)).toBeLessThan(1_000);
});
