import { type Spend, spends } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, Operation, Replies, RequestOperation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import type { ReservationReport } from '../../../src/engine/holds/reports.ts';
import { lapses, type ReservationLimit } from '../../../src/parts/reservations/reservation.ts';
import { fakeClock } from '../../helpers/clock.ts';
import {
  fixedWindowOf,
  limitsOfEach,
  reservationOf,
  slidingWindowCounterOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';
import { codesOf, newKey, STORE_TIMEOUT_MS, sharedStores, withRedis } from '../../helpers/shared-stores.ts';

const REQUESTS = 400;
const MAX_RESERVATIONS = 1_000;
const DAY_MS = 86_400_000;

const storeClock = fakeClock();
const onClock = withRedis(storeClock);

const reserve = (key: CounterKey, limit: ReservationLimit, holder: number, hits: number): RequestOperation =>
  heldBy(operationOf({ key }, limit, hits, true), holder);
const commit = (key: CounterKey, limit: ReservationLimit, holder: number, hits: number): RequestOperation => ({
  ...heldBy(operationOf({ key }, limit, hits, false), holder),
  commits: true,
  kind: 'spend',
});

async function report(store: Backend, operation: RequestOperation): Promise<ReservationReport | undefined> {
  const [reply] = await store.run([operation], { spend: 'each', timeoutMs: STORE_TIMEOUT_MS });
  return reply && 'reservation' in reply ? reply.reservation : undefined;
}

/** The charged hits, and those on hold. */
async function standing(store: Backend, key: CounterKey, limit: ReservationLimit) {
  const [reply] = await store.run([reserve(key, limit, 0, 0)], { spend: 'each', timeoutMs: STORE_TIMEOUT_MS });
  if (!reply || !('reservation' in reply)) throw new Error('the store does not answer');
  const held = reply.reservation?.held ?? 0;
  return { charged: reply.hitsBefore - held, held };
}

const counters: readonly Limit[] = [
  fixedWindowOf(1_000, DAY_MS),
  fixedWindowOf(1_000, DAY_MS, { alignment: 'first_hit' }),
  slidingWindowCounterOf(1_000, DAY_MS),
  tokenBucketOf(1, DAY_MS, { burst: 1_000 }),
];

describe.each(Object.entries(sharedStores))('in %s', (_, open) => {
  const run = (store: Backend, operations: readonly RequestOperation[], spend: Spend) =>
    store.run(operations, { spend, timeoutMs: STORE_TIMEOUT_MS });

  test.each(
    counters.map((inner, at) => ({
      spend: spends[at % spends.length] ?? 'each',
      name: inner.counter,
      inner: inner as never,
    })),
  )(
    `${REQUESTS} parallel requests reserve exactly the limit, and charge what they use, with spend: $spend on $name`,
    async ({ spend, inner }) => {
      const [stored, key, limit] = [open(), newKey(), reservationOf(inner)];
      const storeOf = (at: number): Backend => stored[at % stored.length] ?? stored[0];
      const answers = await Promise.all(
        Array.from({ length: REQUESTS }, async (__, at) => {
          const [code] = codesOf(await run(storeOf(at), [reserve(key, limit, at + 1, 7)], spend));
          return code;
        }),
      );
      const passed = answers.flatMap((code, at) => (code === 'OK' ? [at] : []));
      expect(passed).toHaveLength(142); // 142 × 7 = 994 of 1,000
      expect(await standing(stored[0], key, limit)).toEqual({ charged: 0, held: 994 });
      await Promise.all(passed.map((at) => run(storeOf(at + 1), [commit(key, limit, at + 1, 5)], spend)));
      expect(await standing(stored[0], key, limit)).toEqual({ charged: 710, held: 0 });
    },
  );

  test('a commit charges the used hits once, and frees the rest', async () => {
    const [[store], key, limit] = [open(), newKey(), reservationOf(fixedWindowOf(100, DAY_MS))];
    expect(await report(store, reserve(key, limit, 1, 60))).toMatchObject({
      event: 'reserved',
      reserved: 60,
      held: 60,
    });
    expect(codesOf(await run(store, [reserve(key, limit, 2, 60)], 'each'))).toEqual(['OVER_LIMIT']);
    expect(await report(store, commit(key, limit, 1, 20))).toMatchObject({ event: 'committed', charged: 20, held: 0 });
    expect(await report(store, commit(key, limit, 1, 20))).toMatchObject({ event: 'repeated', charged: 0 });
    expect(await report(store, commit(key, limit, 3, 30))).toMatchObject({ event: 'unknown', charged: 30 });
    expect(await standing(store, key, limit)).toEqual({ charged: 50, held: 0 });
    expect(await report(store, reserve(key, limit, 4, 50))).toMatchObject({ event: 'reserved' });
    expect(await report(store, commit(key, limit, 4, 0))).toMatchObject({ event: 'committed', charged: 0 });
    expect(await standing(store, key, limit)).toEqual({ charged: 50, held: 0 });
  });

  test.each([
    { onOverrun: 'debt', charged: 130 },
    { onOverrun: 'clip', charged: 60 },
  ] as const)(
    'with 130 used and 60 reserved hits, on_overrun: $onOverrun charges $charged',
    async ({ onOverrun, charged }) => {
      const [[store], key, limit] = [open(), newKey(), reservationOf(fixedWindowOf(100, DAY_MS), { onOverrun })];
      await report(store, reserve(key, limit, 1, 60));
      expect(await report(store, commit(key, limit, 1, 130))).toMatchObject({
        event: 'committed',
        charged,
        overrun: 70,
      });
      expect(await standing(store, key, limit)).toEqual({ charged, held: 0 });
    },
  );

  test.each(spends)(
    'a request that another limit refuses keeps no reservation, except with spend: each; here %s',
    async (spend) => {
      const [[store], key, other] = [open(), newKey(), newKey()];
      const limit = reservationOf(fixedWindowOf(100, DAY_MS));
      const asked = [reserve(key, limit, 1, 10), operationOf({ key: other }, fixedWindowOf(0), 1, true)];
      expect(codesOf(await run(store, asked, spend))).toEqual(['OK', 'OVER_LIMIT']);
      expect(await standing(store, key, limit)).toEqual({ charged: 0, held: spend === 'each' ? 10 : 0 });
    },
  );

  test.each(spends)(
    'a commit is charged even if another limit of its request refuses, with spend: %s',
    async (spend) => {
      const [[store], key, other] = [open(), newKey(), newKey()];
      const limit = reservationOf(fixedWindowOf(100, DAY_MS));
      await report(store, reserve(key, limit, 1, 10));
      await run(store, [commit(key, limit, 1, 7), operationOf({ key: other }, fixedWindowOf(0), 1, true)], spend);
      expect(await standing(store, key, limit)).toEqual({ charged: 7, held: 0 });
    },
  );

  test.each(limitsOfEach(10, DAY_MS))(
    'a peek beside reservations that fill the limit is answered as beside as many charged hits, by $algorithm',
    async (inner) => {
      const [[store], charged, reserved] = [open(), newKey(), newKey()];
      const limit = reservationOf(inner as never); // no reservation itself
      await run(store, [operationOf({ key: charged }, inner, 10, true)], 'each');
      expect(codesOf(await run(store, [reserve(reserved, limit, 1, 10)], 'each'))).toEqual(['OK']);
      const peeks = [operationOf({ key: charged }, inner, 0, true), reserve(reserved, limit, 2, 0)];
      const [besideCharged, besideReserved] = codesOf(await run(store, peeks, 'each'));
      expect(besideReserved).toBe(besideCharged);
      expect(besideReserved).toBe(inner.algorithm === 'fixed_window' ? 'OK' : 'OVER_LIMIT');
    },
  );

  test(`a counter holds ${MAX_RESERVATIONS} requests; further ones are refused, or displace settled ones`, async () => {
    const [[store], key, limit] = [open(), newKey(), reservationOf(fixedWindowOf(1_000_000, DAY_MS))];
    await run(
      store,
      Array.from({ length: MAX_RESERVATIONS }, (__, at) => reserve(key, limit, at + 1, 1)),
      'each',
    );
    const [refusal] = await run(store, [reserve(key, limit, 5_000, 1)], 'each');
    expect(refusal).toMatchObject({ code: 'OVER_LIMIT', reservation: { open: MAX_RESERVATIONS } });
    expect(await report(store, commit(key, limit, 3, 1))).toMatchObject({ event: 'committed' });
    expect(codesOf(await run(store, [reserve(key, limit, 5_000, 1)], 'each'))).toEqual(['OK']);
    expect(await report(store, commit(key, limit, 3, 1))).toMatchObject({ event: 'unknown', charged: 1 });
  });
});

const START_MS = 1_700_000_000_000 - (1_700_000_000_000 % 60_000);

describe('with time', () => {
  const limit = reservationOf(fixedWindowOf(100, 60_000), { ttlMs: 10_000 });
  const opened = () => {
    const clock = fakeClock(START_MS);
    return { clock, store: createMemoryBackend(clock, { maxCounters: 10 }), key: newKey() };
  };

  test('a reservation without a commit is freed after its ttl, and nothing is charged', async () => {
    const { clock, store, key } = opened();
    await report(store, reserve(key, limit, 1, 100));
    const [refusal] = store.run([reserve(key, limit, 2, 1)], { spend: 'each', timeoutMs: 1 }) as Replies; // in memory, replies are synchronous
    expect(refusal).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: 10_000 });
    clock.advance(9_999);
    expect(await report(store, reserve(key, limit, 2, 1))).toMatchObject({ event: 'refused' });
    clock.advance(1);
    expect(await report(store, reserve(key, limit, 2, 1))).toMatchObject({ event: 'reserved', held: 1 });
  });

  test('a refusal beside a reservation that is charged when it lapses is followed by one until the end of the window', async () => {
    const { clock, store, key } = opened();
    const charging = { ...limit, onLapse: 'charge' as const };
    const refusedForMs = (): number | undefined => {
      const [refusal] = store.run([reserve(key, charging, 2, 1)], { spend: 'each', timeoutMs: 1 }) as Replies; // as above
      return refusal?.code === 'OVER_LIMIT' ? refusal.retryAfterMs : undefined;
    };
    await report(store, reserve(key, charging, 1, 100));
    expect(refusedForMs()).toBe(10_000);
    clock.advance(10_000);
    expect(refusedForMs()).toBe(50_000);
    clock.advance(50_000);
    expect(refusedForMs()).toBeUndefined();
  });

  test('a reservation counts until its ttl is over if there are no common windows', async () => {
    for (const inner of [
      fixedWindowOf(100, 60_000, { alignment: 'first_hit' }),
      slidingWindowCounterOf(100, 60_000),
      tokenBucketOf(100, 60_000),
    ]) {
      const { clock, store, key } = opened();
      const other = reservationOf(inner, { ttlMs: 10_000 });
      clock.advance(55_000);
      await report(store, reserve(key, other, 1, 80));
      clock.advance(5_000);
      expect(await standing(store, key, other)).toEqual({ charged: 0, held: 80 });
    }
  });
});

describe('what has lapsed is reported once, by the next step that may charge', () => {
  const TTL_MS = 10_000;
  const stores: Readonly<Record<string, () => Backend>> = {
    memory: () => createMemoryBackend(storeClock, { maxCounters: 10 }),
    Redis: () => onClock.redis,
  };
  const cases = Object.entries(stores).flatMap(([name, open]) => lapses.map((onLapse) => ({ name, open, onLapse })));
  const setUp = (open: () => Backend, onLapse: ReservationLimit['onLapse']) => {
    const limit = reservationOf(fixedWindowOf(100, DAY_MS), { ttlMs: TTL_MS, onLapse });
    storeClock.set(1_700_000_000_000 - (1_700_000_000_000 % DAY_MS));
    return { store: open(), key: newKey(), limit, charged: onLapse === 'charge' ? 60 : 0 };
  };

  test.each(cases)('$name: peeks do not use it up, with on_lapse: $onLapse', async ({ open, onLapse }) => {
    const { store, key, limit, charged } = setUp(open, onLapse);
    await report(store, reserve(key, limit, 1, 60));
    storeClock.advance(TTL_MS);
    expect(await report(store, reserve(key, limit, 2, 0))).toMatchObject({ lapsed: 0 });
    expect(await standing(store, key, limit)).toEqual({ charged, held: 0 });
    expect(await report(store, reserve(key, limit, 2, 1))).toMatchObject({ event: 'reserved', lapsed: 60 });
    expect(await report(store, commit(key, limit, 2, 1))).toMatchObject({ event: 'committed', lapsed: 0 });
    expect(await standing(store, key, limit)).toEqual({ charged: charged + 1, held: 0 });
  });

  test.each(cases)('$name: nor do refused peeks, with on_lapse: $onLapse', async ({ open, onLapse }) => {
    const { store, key } = setUp(open, onLapse);
    const bucket = reservationOf(tokenBucketOf(100, DAY_MS), { ttlMs: TTL_MS, onLapse });
    await report(store, reserve(key, bucket, 1, 60));
    await report(store, commit(key, bucket, 3, 1_000));
    storeClock.advance(TTL_MS);
    expect(await report(store, reserve(key, bucket, 2, 0))).toMatchObject({ event: 'refused_alone', lapsed: 0 });
    expect(await report(store, commit(key, bucket, 2, 0))).toMatchObject({ lapsed: 60 });
  });

  test.each(cases)('$name: a refund leaves it to the next step, with on_lapse: $onLapse', async ({ open, onLapse }) => {
    const { store, key, limit, charged } = setUp(open, onLapse);
    await report(store, reserve(key, limit, 1, 60));
    await report(store, reserve(key, limit, 2, 30));
    await report(store, commit(key, limit, 2, 30));
    const chargedAtMs = storeClock();
    storeClock.advance(TTL_MS);
    const refund: Operation = { ...commit(key, limit, 2, 30), kind: 'refund', chargedAtMs };
    await store.run([refund], { spend: 'each', timeoutMs: STORE_TIMEOUT_MS });
    expect(await standing(store, key, limit)).toEqual({ charged, held: 0 });
    expect(await report(store, commit(key, limit, 1, 5))).toMatchObject({ event: 'late', lapsed: 60 });
    expect(await standing(store, key, limit)).toEqual({ charged: 5, held: 0 });
  });

  test.each(cases)('$name: a charge of no hits settles it, with on_lapse: $onLapse', async ({ open, onLapse }) => {
    const { store, key, limit, charged } = setUp(open, onLapse);
    await report(store, reserve(key, limit, 1, 60));
    await report(store, reserve(key, limit, 2, 30));
    storeClock.advance(TTL_MS);
    const usage = onLapse === 'charge' ? 90 : 0;
    const settle: RequestOperation = { ...operationOf({ key }, limit, 0, false), kind: 'charge' };
    expect(await report(store, settle)).toMatchObject({ event: 'peeked', lapsed: 90, lapses: 2, usage });
    expect(await report(store, settle)).toMatchObject({ event: 'peeked', lapsed: 0, lapses: 0, usage: 0 });
    const late = { event: 'late', charged: 5, lapsed: 0, usage: 5 - charged };
    expect(await report(store, commit(key, limit, 1, 5))).toMatchObject(late);
    expect(await standing(store, key, limit)).toEqual({ charged: charged === 0 ? 5 : 35, held: 0 });
  });

  test.each(cases)('$name: it is forgotten with the counter, with on_lapse: $onLapse', async ({ open, onLapse }) => {
    const { store, limit } = setUp(open, onLapse);
    const keptMs = onLapse === 'free' ? TTL_MS : 2 * DAY_MS;
    for (const besideMs of [-1, 0]) {
      const key = newKey();
      await report(store, reserve(key, limit, 1, 60));
      storeClock.advance(TTL_MS + keptMs + besideMs);
      expect(await report(store, commit(key, limit, 2, 1))).toMatchObject({ lapsed: besideMs < 0 ? 60 : 0 });
    }
  });
});

/** An independent model of a counter with reservations. */
class Model {
  readonly #limit: ReservationLimit;
  readonly #reserved = new Map<
    number,
    { readonly hits: number; readonly untilMs: number; readonly windowMs: number }
  >();
  readonly #settled = new Map<number, number>();
  #charged = { windowMs: 0, hits: 0 };

  constructor(limit: ReservationLimit) {
    this.#limit = limit;
  }

  at(nowMs: number): { charged: number; held: number } {
    const windowMs = nowMs - (nowMs % this.#limit.windowMs);
    if (this.#charged.windowMs !== windowMs) this.#charged = { windowMs, hits: 0 };
    const { ttlMs } = this.#limit;
    for (const [id, { untilMs }] of this.#reserved) if (untilMs + ttlMs <= nowMs) this.#reserved.delete(id);
    for (const [id, atMs] of this.#settled) if (atMs + ttlMs <= nowMs) this.#settled.delete(id);
    const live = [...this.#reserved.values()].filter((one) => one.untilMs > nowMs && one.windowMs >= windowMs);
    return { charged: this.#charged.hits, held: live.reduce((sum, { hits }) => sum + hits, 0) };
  }

  reserve(id: number, hits: number, nowMs: number): boolean {
    const { charged, held } = this.at(nowMs);
    const known = this.#reserved.get(id);
    const windowMs = nowMs - (nowMs % this.#limit.windowMs);
    const own = known && known.untilMs > nowMs && known.windowMs >= windowMs ? known.hits : 0;
    if (hits > own && charged + held - own + hits > this.#limit.requestsPerUnit) return false;
    this.#settled.delete(id);
    this.#reserved.set(id, { hits, untilMs: nowMs + this.#limit.ttlMs, windowMs });
    return true;
  }

  commit(id: number, used: number, nowMs: number): string {
    this.at(nowMs);
    if (this.#settled.has(id)) return 'repeated';
    const known = this.#reserved.get(id);
    this.#reserved.delete(id);
    this.#settled.set(id, nowMs);
    this.#charged.hits += known && this.#limit.onOverrun === 'clip' ? Math.min(used, known.hits) : used;
    if (!known) return 'unknown';
    return known.untilMs <= nowMs ? 'late' : 'committed';
  }
}

/** Reservations and commits of a few requests: in any order, some lost, some repeated. */
const anyMessages = fc.array(
  fc.record({
    onMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 9_000 })),
    id: fc.integer({ min: 1, max: 6 }),
    hits: fc.integer({ min: 0, max: 60 }),
    what: fc.constantFrom('reserve', 'reserve', 'commit'),
    times: fc.constantFrom(0, 1, 1, 1, 2),
  }),
  { maxLength: 60 },
);

test('duplicated, reordered and lost messages have the same effect as in the model, and each request is charged once', async () => {
  const seen = new Set<string>();
  const messages = fc.record({ all: anyMessages, onOverrun: fc.constantFrom('debt', 'clip') });
  await fc.assert(
    fc.asyncProperty(messages, async ({ all, onOverrun }) => {
      const limit = reservationOf(fixedWindowOf(100, 20_000), { ttlMs: 4_000, onOverrun });
      const clock = fakeClock(START_MS);
      const [store, key, model] = [createMemoryBackend(clock, { maxCounters: 10 }), newKey(), new Model(limit)];
      for (const { onMs, id, hits, what, times } of all) {
        clock.advance(onMs);
        for (let time = 0; time < times; time++) {
          if (what === 'reserve') {
            const isOk = model.reserve(id, hits + 1, clock());
            const done = await report(store, reserve(key, limit, id, hits + 1));
            expect(done?.event === 'reserved').toBe(isOk);
          } else
            expect((await report(store, commit(key, limit, id, hits)))?.event).toBe(model.commit(id, hits, clock()));
        }
        const now = await standing(store, key, limit);
        expect(now).toEqual(model.at(clock()));
      }
      for (const { what, times } of all) seen.add(`${what} ${times}`);
    }),
    { numRuns: 300 },
  );
  expect(seen.size).toBe(6);
});
