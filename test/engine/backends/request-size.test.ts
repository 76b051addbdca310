import {
  afterEarlierHits,
  isForItself,
  type RequestOperation,
  signedHits,
  standsAlone,
  triedHits,
} from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { encodeBatch } from '../../../src/parts/redis/batch.ts';
import { decodeBatch } from '../../../src/parts/redis/batch-reply.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { fixedWindowOf, inFlightOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';

const clock = fakeClock();
const limit = fixedWindowOf(10, 60_000);
const keyOf = createCounterKeys('');

/** The operations of one request, and how often their keys have been read. */
function counted(count: number) {
  let reads = 0;
  const operations = Array.from({ length: count }, (_, at): RequestOperation => {
    const key = keyOf(limit, at % 2 === 0 ? 'a' : `${at}`, []);
    const operation = operationOf({ key }, limit, 1, true);
    return Object.defineProperty(operation, 'key', {
      get() {
        reads++;
        return key;
      },
    });
  });
  return { operations, reads: () => reads };
}

function readsInMemory(count: number): number {
  const { operations, reads } = counted(count);
  createMemoryBackend(clock, { maxCounters: 1_000 }).run(operations, { spend: 'all_or_nothing', timeoutMs: 0 });
  return reads();
}

function readsOfReply(count: number): number {
  const { operations, reads } = counted(count);
  const batch = encodeBatch([{ operations, spend: 'all_or_nothing' }], clock());
  const before = reads();
  const replies = operations.flatMap((_, at) => [at % 2 === 0 ? 0 : 1, 2, clock(), 10]);
  decodeBatch(Buffer.from(Float64Array.from([clock(), ...replies]).buffer), batch);
  return reads() - before;
}

test.each([
  ['in memory', readsInMemory],
  ["of Redis' reply", readsOfReply],
])('the work %s for a refused request is proportional to the number of its descriptors', (_, readsFor) => {
  expect(readsFor(400)).toBeLessThanOrEqual(4 * readsFor(100));
});

const refusal = {
  code: 'OVER_LIMIT' as const,
  limitRemaining: 0,
  durationUntilResetMs: 1_000,
  retryAfterMs: 1_000,
  delayMs: 0,
  soft: false,
};

test('the earlier hits of a request make the same count as if they were added one by one', () => {
  const limits = [limit, inFlightOf(5, 60_000)];
  const anyOperation = fc
    .record({ counter: fc.nat(2), hits: fc.integer({ min: -9, max: 9 }), isPeek: fc.boolean() })
    .map(({ counter, hits, isPeek }) => {
      const own = limits[counter % 2] ?? limit;
      const operation = operationOf({ key: keyOf(own, `${counter}`, []) }, own, hits, true);
      return isPeek ? { ...operation, kind: 'peek' as const, hits: Math.abs(hits) } : operation;
    });
  fc.assert(
    fc.property(fc.array(anyOperation, { maxLength: 12 }), fc.nat(20), (operations, hitsBefore) => {
      for (const [at, tried] of triedHits(operations).entries()) {
        const own = operations[at] as RequestOperation; // in range
        const earlier = operations.slice(0, at).filter((one) => one.key === own.key && !isForItself(one));
        const added = earlier.filter((one) => !standsAlone(one) && own.kind !== 'peek');
        expect(tried.cumulative).toBe(
          [...(isForItself(own) ? [] : earlier), own].reduce((sum, one) => sum + signedHits(one), 0),
        );
        expect(afterEarlierHits({ ...refusal, hitsBefore }, tried).hitsBefore).toBe(
          added.reduce((sum, one) => Math.max(sum + signedHits(one), 0), hitsBefore),
        );
      }
    }),
  );
});
