import type { Redis as Connection } from 'ioredis';
import { type Spend, spends } from '../../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import type { Claim } from '../../../src/engine/holds/claim.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { openReady } from '../../helpers/connection.ts';
import { anyClaimOn, anyLimit } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const TIMEOUT_MS = 10_000;
const NO_EXPIRY = -1; // a reply of PTTL

let server: Redis;
let connection: Connection;
let store: Backend;
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
  store = new RedisBackend(connection, Date.now);
});
beforeEach(() => connection.flushall());
afterAll(async () => {
  await store.close();
  await server.stop();
});

const counterKeys = createCounterKeys('');

async function hit(limit: Limit, counter: string, hits: number, spend: Spend = 'each', claim: Claim = {}) {
  const key = counterKeys(limit, counter, []);
  const [decision] = await store.run([{ ...operationOf({ key }, limit, hits, true), ...claim }], {
    spend,
    timeoutMs: TIMEOUT_MS,
  });
  return decision;
}

async function ttlsMs(): Promise<number[]> {
  return Promise.all((await connection.keys('*')).map((key) => connection.pttl(key)));
}

test('every counter always has an expiry time, regardless of spent hits', async () => {
  const anyHits = fc.oneof(fc.integer({ min: -3, max: 10 }), fc.integer({ min: 0, max: 1_000_000 }));
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        anyLimit.chain((limit) =>
          fc.record({
            limit: fc.constant(limit),
            claim: anyClaimOn(limit),
            hits: fc.array(anyHits, { minLength: 1, maxLength: 5 }),
          }),
        ),
        { minLength: 1, maxLength: 5 },
      ),
      fc.constantFrom(...spends),
      async (counters, spend) => {
        for (const [at, { limit, claim, hits }] of counters.entries()) {
          for (const some of hits)
            expect(await hit(limit, String(at), some, spend, claim)).not.toMatchObject({ code: 'UNAVAILABLE' });
        }
        expect(await ttlsMs()).not.toContain(NO_EXPIRY);
        await connection.flushall();
      },
    ),
    { numRuns: 150 },
  );
});
