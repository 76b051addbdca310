import '../../helpers/realm.ts';
import { randomUUID } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import type { Clock } from '../../../src/base/clock.ts';
import type { Unavailable } from '../../../src/engine/backends/backend.ts';
import { type Counter, type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import { sharedCounters } from '../../../src/engine/backends/shared-counters.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { createDebit, type Debit, type LedgerEntry } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { encodeBatch } from '../../../src/parts/redis/batch.ts';
import { decodeBatch } from '../../../src/parts/redis/batch-reply.ts';
import { script } from '../../../src/parts/redis/script.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { anyLimitOf, fixedWindowOf, limitsOfEach, type PolicedLimit } from '../../helpers/limits.ts';
import {
  previousLimit,
  previousOnRedis,
  previousScript,
  RECORDED_FROM_MS,
  type RecordedCall,
  recordedCounters,
  recordedShared,
  sameAnswer,
  sharesCounter,
} from '../../helpers/previous-build.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const START_MS = RECORDED_FROM_MS;
const HOUR_MS = 3_600_000;
const PATIENT_MS = 10_000;

let server: Redis;
let connection: Connection;
let closing: (() => Promise<void>)[];
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
});
beforeEach(async () => {
  closing = [];
  await connection.flushall();
});
afterEach(async () => {
  for (const close of closing) await close();
});
afterAll(async () => {
  connection.disconnect();
  await server.stop();
});

type Reply = Pick<LedgerEntry, 'code' | 'degraded' | 'fromLease'> | Unavailable;

/** A process of either build that counts in the same Redis. */
interface Instance {
  debit(request: readonly Debit[], timeoutMs: number): Promise<readonly Reply[]>;
}

interface InstanceOptions {
  readonly clock: Clock;
  /** Redis also decides by that clock. */
  readonly replay?: boolean;
}

async function previous({ clock }: InstanceOptions): Promise<Instance> {
  const own = await openReady(server);
  closing.push(async () => own.disconnect());
  const instance = previousOnRedis(own, clock);
  return { debit: (request) => instance.debit(request, 'each') };
}

async function present({ clock, replay = false }: InstanceOptions): Promise<Instance> {
  const monotonicMs = (): number => performance.now();
  const ledger: Ledger = ledgerOf(new RedisBackend(await openReady(server), clock, { replay }), {
    ...{ clock, monotonicMs, instance: randomUUID() },
  });
  closing.push(() => ledger.close());
  return { debit: async (request, timeoutMs) => ledger.debit(request, { spend: 'each', timeoutMs }) };
}

const entry = { key: 'user', value: 'alice' };
const counterOf = (limit: Limit): Counter => ({ key: createCounterKeys('')(limit, 'demo', [entry]) });
const hit = (limit: PolicedLimit, hits = 1, counter = counterOf(limit)): Debit =>
  createDebit(counter, { limit, policy: limit }, hits, true);

/** Each instance sends the debit `times` times, all at once. */
async function ask(instances: readonly Instance[], debit: Debit, times: number) {
  const asked = instances.flatMap((one) => Array.from({ length: times }, () => one.debit([debit], PATIENT_MS)));
  return (await Promise.all(asked)).flat().map((reply) => {
    if (reply.code === 'UNAVAILABLE') throw new Error(reply.reason);
    return reply;
  });
}

/** The number of admitted hits. */
const admitted = async (...args: Parameters<typeof ask>): Promise<number> =>
  (await ask(...args)).filter(({ code }) => code === 'OK').length;

test.each(recordedCounters)(
  'the previous build has the key $key, which this build uses if the state is the same',
  (recorded) => {
    const own = createCounterKeys('');
    expect(own(previousLimit(recorded.limit), 'demo', [entry])).toBe(recorded.key);
    expect(own(recorded.limit, 'demo', [entry]) === recorded.key).toBe(
      !['fixed_window', 'token_bucket'].includes(recorded.limit.algorithm),
    );
  },
);

const both = (options: InstanceOptions): Promise<readonly [Instance, Instance]> =>
  Promise.all([previous(options), present(options)]);

test('during an upgrade, each build admits the limit of a fixed window once', async () => {
  const limit = fixedWindowOf(20, 24 * HOUR_MS);
  const before = await previous({ clock: Date.now });
  const [one, other] = [await present({ clock: Date.now }), await present({ clock: Date.now })];
  const old = hit(previousLimit(limit), 1, counterOf(previousLimit(limit)));
  const counted = [admitted([before], old, 50), admitted([one, other], hit(limit), 25)];
  expect(await Promise.all(counted)).toEqual([20, 20]);
  expect(await admitted([before], old, 5)).toBe(0); // a rollback finds the counts of its build
});

test('both builds use the same keys as envoyproxy/ratelimit', async () => {
  const clock = fakeClock(START_MS);
  const limit = fixedWindowOf(20, HOUR_MS);
  const options = { prefix: '', own: createCounterKeys(''), jitterMaxSeconds: 0, clock, random: () => 0 };
  const counter = sharedCounters(options)(limit, 'demo', [entry]);
  expect(counter).toEqual({ key: recordedShared.key, shared: recordedShared.shared });
  expect(await admitted(await both({ clock, replay: true }), hit(limit, 1, counter), 15)).toBe(20);
});

const continued = [
  ...recordedCounters.filter(({ limit }) => sharesCounter(limit)),
  { ...recordedShared, limit: fixedWindowOf(10, HOUR_MS) },
].map((recorded) => ({ shared: undefined, ...recorded }));
test.each(continued)(
  'this build continues from each state of $key for $limit.requestsPerUnit hits with the answers and the state of the previous build',
  async ({ key, shared, limit, calls }) => {
    const clock = fakeClock(START_MS);
    const backend = new RedisBackend(await openReady(server), clock, { replay: true });
    closing.push(() => backend.close());
    const old = await previous({ clock });
    const counter: Counter = { key: key as CounterKey, shared }; // it was recorded as one
    let before: RecordedCall['stored'];
    for (const { nowMs, hits, answer, ttlMs, stored } of calls) {
      clock.set(nowMs);
      for (const build of ['previous', 'present']) {
        await (before ? connection.set(key, before, 'PX', HOUR_MS) : connection.del(key));
        const operation = hit(limit, hits, counter);
        const startMs = Date.now();
        const [reply] =
          build === 'present'
            ? await backend.run([operation], { spend: 'each', timeoutMs: PATIENT_MS })
            : await old.debit([operation], PATIENT_MS);
        const at = { build, nowMs, hits };
        expect({ at, ...reply }).toMatchObject(
          build === 'present' ? { at, ...sameAnswer(limit, answer) } : { at, code: answer.code },
        );
        expect({ at, stored: await connection.getBuffer(key) }).toEqual({ at, stored: stored ?? null });
        const leftMs = await connection.pttl(key);
        expect(Date.now() + leftMs).toBeGreaterThanOrEqual(startMs + ttlMs);
      }
      before = stored;
    }
  },
);

/** One request on one counter, by one build. */
interface Call {
  readonly byMs: number;
  readonly hits: number;
  readonly build: 'previous' | 'present';
}

const anyCalls: fc.Arbitrary<readonly Call[]> = fc.array(
  fc.record({
    byMs: fc.oneof(fc.constant(0), fc.integer({ min: -5, max: 2_000 }), fc.integer({ min: 0, max: HOUR_MS })),
    hits: fc.integer({ min: -5, max: 20 }),
    build: fc.constantFrom('previous', 'present'),
  }),
  { minLength: 1, maxLength: 15 },
);

const scripts = {
  previous: {
    text: previousScript.text,
    run: (operation: Debit, nowMs: number) => ({
      packed: previousScript.pack(operation, 'each', nowMs),
      codeOf: previousScript.codeOf,
    }),
  },
  present: {
    text: script.text,
    run: (operation: Debit, nowMs: number) => {
      const batch = encodeBatch([{ operations: [operation], spend: 'each' }], nowMs);
      return { packed: batch.packed, codeOf: (reply: Buffer) => decodeBatch(reply, batch)[0]?.[0]?.code };
    },
  },
};

/** One call, and the counter's contents afterwards. Nothing expires, since the schedule's clock is not the server's. */
async function run(build: Call['build'], key: CounterKey, limit: Limit, hits: number, nowMs: number) {
  const { packed, codeOf } = scripts[build].run(hit(limit, hits, { key }), nowMs);
  const calls = connection.multi().callBuffer('EVAL', scripts[build].text, 1, key, packed, nowMs);
  const [[error, reply] = [], , [, state] = []] = (await calls.persist(key).getBuffer(key).exec()) ?? [];
  if (error) throw error;
  return { code: codeOf(reply as Buffer), state }; // the script replies with bytes
}

const namesWithSharedCounters = limitsOfEach(1)
  .filter(sharesCounter)
  .map(({ algorithm }) => algorithm as keyof typeof anyLimitOf); // shared limits are not among them

test.each([...new Set(namesWithSharedCounters)])(
  'a counter of %s changed by both builds, in any order, has the same state and decisions as if changed by this one only',
  async (name) => {
    await fc.assert(
      fc.asyncProperty(anyLimitOf[name], anyCalls, async (limit, calls) => {
        const [mixed, alone] = [randomUUID(), randomUUID()] as unknown as [CounterKey, CounterKey]; // any text will do
        const pairs: Promise<unknown>[][] = [];
        let nowMs = START_MS;
        for (const { byMs, hits, build } of calls) {
          nowMs += byMs;
          pairs.push([run(build, mixed, limit, hits, nowMs), run('present', alone, limit, hits, nowMs)]);
        }
        for (const pair of pairs) {
          const [one, other] = await Promise.all(pair);
          expect(one).toEqual(other);
        }
      }),
      { numRuns: 50 },
    );
  },
);
