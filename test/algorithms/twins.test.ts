import { randomUUID } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import { algorithmFor, algorithms, capacityOf, heldLimit, type Limit } from '../../src/algorithms/index.ts';
import { type Decision, MAX_COUNT, type Spend, type Step, spends } from '../../src/algorithms/limit.ts';
import {
  operationOf,
  type RequestOperation,
  signedHits,
  standsAlone,
  type Unavailable,
} from '../../src/backends/backend.ts';
import { type CounterKey, createCounterKeys } from '../../src/backends/key.ts';
import { createMemoryBackend } from '../../src/backends/memory/backend.ts';
import { decodeBatch, encodeBatch } from '../../src/backends/redis/batch.ts';
import { script } from '../../src/backends/redis/script.ts';
import { fakeClock } from '../helpers/clock.ts';
import { openReady } from '../helpers/connection.ts';
import { anyAnchoredLimit, anyLimit, anyLimitOf, slidingWindowLogOf } from '../helpers/limits.ts';
import fc from '../helpers/property.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';

const START_MS = 1_700_000_000_000;
const NO_KEY = -2; // what PTTL says of it
/** What PTTL says of a counter that keeps its time to live: the call before has taken that off. */
const TAKEN_OFF = -1;
const FOREVER_MS = 1e15;
const PTTL_LATE_MS = 1_000; // it goes by a clock that runs on

let server: Redis;
let connection: Connection;
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
});
afterAll(async () => {
  connection.disconnect();
  await server.stop();
});

/** One request: where the clock goes first, which counters are lost early, and who is hit. Counters are named by place. */
interface Call {
  readonly move: Move;
  readonly lost: readonly number[];
  readonly spend: Spend;
  readonly hits: readonly CallHit[];
}

interface CallHit {
  readonly counter: number;
  readonly hits: number;
  readonly blocks: boolean;
  /** The hits are charged whatever the limit says. Only where each limit counts for itself. */
  readonly charges: boolean;
  /** Who holds slots, where the algorithm knows of that. */
  readonly holder: number;
  /** The limit has been made lower; later it may be itself again. */
  readonly lowered: boolean;
  /** The hits are what the holder has used, where they are reserved first. */
  readonly commits: boolean;
}

/** By so much, or to a boundary of a counter's window or of a part of it, and a little beside it. */
type Move =
  | { readonly byMs: number }
  | { readonly counter: number; readonly parts: number; readonly windows: number; readonly besideMs: number };

const anyMove = (counter: fc.Arbitrary<number>): fc.Arbitrary<Move> =>
  fc.oneof(
    fc.constant({ byMs: 0 }),
    fc.record({ byMs: fc.integer({ min: -5, max: 20 }) }),
    fc.record({ byMs: fc.integer({ min: -5_000, max: 5_000 }) }),
    fc.record({ byMs: fc.integer({ min: -20_000_000_000, max: 20_000_000_000 }) }),
    fc.record({
      counter,
      parts: fc.constantFrom(1, 1, 2, 3, 10),
      windows: fc.integer({ min: -1, max: 2 }),
      besideMs: fc.integer({ min: -1, max: 1 }),
    }),
  );

const anyHits = (limits: readonly Limit[]): fc.Arbitrary<number> =>
  fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: -3, max: 10 }) },
    { weight: 1, arbitrary: fc.constant(0) },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        ...limits.flatMap((limit) => {
          const { requestsPerUnit: hits } = limit;
          const capacity = capacityOf(limit);
          return [hits, hits + 1, 1 - hits, capacity, capacity + 1, Math.ceil(capacity / 2), -capacity];
        }),
      ),
    },
    { weight: 1, arbitrary: fc.integer({ min: -MAX_COUNT, max: MAX_COUNT }) },
    { weight: 1, arbitrary: fc.constantFrom(MAX_COUNT, -MAX_COUNT) },
  );

const mostly = (usual: boolean): fc.Arbitrary<boolean> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constant(!usual) });

/** The same counter's limit after a reload that asked for less. */
function lowered(limit: Limit): Limit {
  const requestsPerUnit = Math.ceil(limit.requestsPerUnit / 2);
  if (limit.algorithm === 'reservation')
    return { ...limit, requestsPerUnit, soft: 0, inner: lowered(limit.inner as Limit) }; // it counts by one of the others
  if ('burst' in limit) {
    const lower = { ...limit, requestsPerUnit, burst: Math.ceil(limit.burst / 2) };
    return 'maxDelayMs' in lower ? { ...lower, maxDelayMs: 0 } : lower;
  }
  return { ...limit, requestsPerUnit, soft: 0 };
}

const anyCalls = (limits: readonly Limit[]): fc.Arbitrary<readonly Call[]> => {
  const counter = fc.nat({ max: limits.length - 1 });
  return fc.array(
    fc.record({
      move: anyMove(counter),
      lost: fc.oneof({ weight: 6, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.array(counter) }),
      spend: fc.constantFrom(...spends),
      hits: fc.array(
        fc.record({
          counter,
          hits: anyHits(limits),
          blocks: mostly(true),
          charges: mostly(false),
          holder: fc.nat({ max: 3 }),
          lowered: mostly(false),
          commits: fc.boolean(),
        }),
        { minLength: 1, maxLength: 5 },
      ),
    }),
    { minLength: 1, maxLength: 15 },
  );
};

const anySchedule = (limit: fc.Arbitrary<Limit>) =>
  fc
    .array(limit, { minLength: 1, maxLength: 3 })
    .chain((limits) => fc.record({ limits: fc.constant(limits), calls: anyCalls(limits) }));

function moved(nowMs: number, move: Move, limits: readonly Limit[]): number {
  if ('byMs' in move) return nowMs + move.byMs;
  const limit = limits[move.counter];
  const windowMs = limit?.windowMs ?? 1;
  const phaseMs = (limit && 'phaseMs' in limit && limit.phaseMs) || 0;
  const partMs = Math.max(Math.floor(windowMs / move.parts), 1);
  return nowMs - ((nowMs + phaseMs) % partMs) + move.windows * partMs + move.besideMs;
}

/** What counts the hits in the end. */
const counted = (limit: Limit): Limit => (limit.algorithm === 'reservation' ? (limit.inner as Limit) : limit);

/** The script knows only the calendar windows around the caller's clock: so far back the others' clocks may be. */
const mostBackMs = (limits: readonly Limit[]): number =>
  Math.min(
    ...limits
      .map(counted)
      .map((limit) =>
        'alignment' in limit && typeof limit.alignment !== 'string' ? limit.windowMs / 2 : Number.POSITIVE_INFINITY,
      ),
  );

/** What is answered, and when each counter expires: so many ms after now, or not there; of those that are not written undefined. */
interface Outcome {
  readonly decisions: readonly (Decision | Unavailable)[];
  readonly ttlsMs: readonly (number | undefined)[];
}

/** What the TypeScript twins say of a request; they remember in `counters`. */
function inTypeScript(
  counters: Map<CounterKey, Step>,
  hits: readonly RequestOperation[],
  spend: Spend,
  nowMs: number,
): Outcome {
  const run = (
    from: Map<CounterKey, Step>,
    { kind, key, limit }: RequestOperation,
    count: number,
    charge: boolean,
  ): Step =>
    algorithmFor(limit).step(limit, from.get(key)?.state, nowMs, count, kind === 'charge' ? 'regardless' : charge);
  const told = (
    { kind, limit }: RequestOperation,
    count: number,
    { state, report = state }: Step,
    accepted: boolean,
    charged: boolean,
  ) =>
    algorithmFor(limit).describe(limit, report, nowMs, {
      hits: count,
      accepted,
      charged: kind === 'charge' ? 'regardless' : charged,
    });

  const before = new Map(counters);
  const tried = new Map(counters);
  const trials = hits.map((hit) => {
    const step = run(tried, hit, signedHits(hit), true);
    tried.set(hit.key, step);
    return step;
  });
  const touched = new Set<CounterKey>();
  let decisions: Decision[];
  if (spend === 'each' || hits.every(({ blocks }, at) => !blocks || trials[at]?.accepted)) {
    decisions = hits.flatMap((hit, at) => {
      const step = trials[at];
      return step ? [told(hit, signedHits(hit), step, step.accepted, true)] : [];
    });
    for (const { key } of hits) touched.add(key);
    for (const [key, step] of tried) counters.set(key, step);
  } else {
    const asked = new Map<CounterKey, number>(); // of each counter by the whole request so far
    decisions = hits.map((hit, at) => {
      const count = signedHits(hit);
      asked.set(hit.key, (asked.get(hit.key) ?? 0) + count);
      const accepted = trials[at]?.accepted ?? false;
      const refusal = run(counters, hit, count, true);
      if (standsAlone(hit) || (spend === 'spare_others' && !accepted && !refusal.accepted)) {
        touched.add(hit.key);
        counters.set(hit.key, refusal);
        return told(hit, count, refusal, accepted, true);
      }
      const whole = asked.get(hit.key) ?? count;
      return told(hit, whole, run(counters, hit, whole, false), accepted, false);
    });
  }
  const ttlsMs = [...new Map(hits.map(({ key, limit }) => [key, limit]))].map(([key, { algorithm }]) => {
    const { state = [], ttlMs = 0 } = counters.get(key) ?? {};
    if (touched.has(key) && ttlMs <= 0) counters.delete(key);
    if (!touched.has(key)) return undefined;
    const isInSameWindow = algorithm === 'fixed_window' && before.get(key)?.state[0] === state[0];
    return ttlMs > 0 ? (isInSameWindow ? TAKEN_OFF : ttlMs) : NO_KEY;
  });
  return { decisions, ttlsMs };
}

/**
 * What the Lua twins say. The schedule's clock is not the server's, so nothing may expire by the server's: time stands
 * still within a transaction, and its end takes the expiry off again.
 */
async function inLua(
  hits: readonly RequestOperation[],
  spend: Spend,
  lost: readonly CounterKey[],
  nowMs: number,
): Promise<Outcome> {
  const batch = encodeBatch([{ operations: hits, spend }], nowMs);
  const { keys, packed } = batch;
  const transaction = connection.multi();
  for (const key of lost) transaction.del(key);
  transaction.callBuffer('EVAL', script.text, keys.length, ...keys, packed, nowMs);
  for (const key of keys) transaction.pttl(key);
  for (const key of keys) transaction.persist(key);
  const replies = (await transaction.exec()) ?? [];
  const [error, reply] = replies[lost.length] ?? [];
  if (error) throw error;
  const ttlsMs = keys.map((_, at) => Number(replies[lost.length + 1 + at]?.[1]));
  const [decisions = []] = decodeBatch(reply as Buffer, batch);
  return { decisions, ttlsMs }; // the script's reply is bytes
}

/** The hits of a call, and the counters that are lost before it. */
function prepare(limits: readonly Limit[]) {
  const counterKeys = createCounterKeys(`${randomUUID()}:`);
  const counters = limits.map((limit, at) => ({ limit, key: counterKeys(limit, String(at), []) }));
  const named = (places: readonly number[]) => places.flatMap((place) => counters[place] ?? []);
  return {
    lostBy: ({ lost }: Call): CounterKey[] => named(lost).map(({ key }) => key),
    hitsOf: ({ hits, spend }: Call): RequestOperation[] =>
      hits.flatMap(({ counter, lowered: low, holder, commits, ...hit }) =>
        named([counter]).map(({ key, limit }) => {
          const known = heldLimit(low ? lowered(limit) : limit, holder);
          const own = known.algorithm === 'reservation' ? { ...known, commits } : known;
          const asked = operationOf({ key }, own, hit.hits, hit.blocks, hit.charges && spend === 'each');
          return commits && hit.hits === 0 ? { ...asked, kind: 'spend' } : asked; // to use nothing is no peek
        }),
      ),
  };
}

async function compare(limits: readonly Limit[], calls: readonly Call[]): Promise<void> {
  const { lostBy, hitsOf } = prepare(limits);
  const states = new Map<CounterKey, Step>();
  const expected: Outcome[] = [];
  const got: Promise<Outcome>[] = []; // answered in the order asked, so none has to be waited for
  const backMs = mostBackMs(limits);
  let nowMs = START_MS;
  let latestMs = START_MS;
  for (const call of calls) {
    nowMs = Math.max(moved(nowMs, call.move, limits), latestMs - backMs, 0);
    latestMs = Math.max(latestMs, nowMs);
    const [hits, lost] = [hitsOf(call), lostBy(call)];
    for (const key of lost) states.delete(key);
    expected.push(inTypeScript(states, hits, call.spend, nowMs));
    got.push(inLua(hits, call.spend, lost, nowMs));
  }
  const answers = await Promise.all(got);
  expect(answers.map(({ decisions }) => decisions)).toEqual(expected.map(({ decisions }) => decisions));
  for (const [call, { ttlsMs }] of answers.entries()) {
    for (const [at, ttlMs = NO_KEY] of ttlsMs.entries()) {
      const wantedMs = expected[call]?.ttlsMs[at];
      if (wantedMs === undefined || wantedMs > FOREVER_MS) continue; // not written; or no exact integer on the way here
      if (wantedMs === TAKEN_OFF) {
        expect(ttlMs).toBe(TAKEN_OFF);
        continue;
      }
      expect(ttlMs).toBeLessThanOrEqual(wantedMs);
      expect(ttlMs).toBeGreaterThanOrEqual(wantedMs === NO_KEY ? NO_KEY : Math.max(wantedMs - PTTL_LATE_MS, 0));
    }
  }
}

describe('the Lua twins agree with the TypeScript twins to the integer', () => {
  test.each(Object.keys(algorithms) as Limit['algorithm'][])('about %s', async (name) => {
    const schedules = anySchedule(anyLimitOf[name]);
    await fc.assert(
      fc.asyncProperty(schedules, ({ limits, calls }) => compare(limits, calls)),
      { numRuns: 300 },
    );
  });

  test('about windows that begin with a date', async () => {
    await fc.assert(
      fc.asyncProperty(anySchedule(anyAnchoredLimit), ({ limits, calls }) => compare(limits, calls)),
      { numRuns: 300 },
    );
  });

  test('about limits of several algorithms in one request', async () => {
    await fc.assert(
      fc.asyncProperty(anySchedule(anyLimit), ({ limits, calls }) => compare(limits, calls)),
      { numRuns: 300 },
    );
  });
});

test('the twins agree about a log of as many entries as there may be', async () => {
  const hits = [{ counter: 0, hits: 1, blocks: true, charges: false, holder: 0, lowered: false, commits: false }];
  const call: Call = { move: { byMs: 9 }, lost: [], spend: 'each', hits };
  const calls = Array.from({ length: 1_200 }, () => call);
  await compare([slidingWindowLogOf(1_000, 10_000)], calls);
});

/** Not windows that begin with their first hit: which one that is after a give-back within one request, conformance.ts asks. */
const anySteadyLimit = anyLimit.filter((limit) => {
  const own = counted(limit);
  return !('alignment' in own && own.alignment === 'first_hit');
});

test('the store in memory agrees with them, where its clock goes forward', async () => {
  await fc.assert(
    fc.asyncProperty(anySchedule(anySteadyLimit), async ({ limits, calls }) => {
      const { hitsOf } = prepare(limits);
      const clock = fakeClock(START_MS);
      const store = createMemoryBackend(clock, { maxCounters: 1_000 });
      const states = new Map<CounterKey, Step>();
      for (const call of calls) {
        clock.set(Math.max(moved(clock(), call.move, limits), clock()));
        const hits = hitsOf({ ...call, hits: call.hits.map((one) => ({ ...one, lowered: false })) });
        const { decisions } = inTypeScript(states, hits, call.spend, clock());
        expect(await store.run(hits, { spend: call.spend, timeoutMs: 1 })).toEqual(decisions);
      }
    }),
    { numRuns: 1_000 },
  );
});
