import { randomUUID } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import type { RateLimit } from '../../../src/engine/algorithms/index.ts';
import {
  type Decision,
  MAX_COUNT,
  MAX_WINDOW_MS,
  type Spend,
  type Step,
  spends,
} from '../../../src/engine/algorithms/limit.ts';
import {
  afterEarlierHits,
  type RequestOperation,
  signedHits,
  standsAlone,
  triedHits,
  type Unavailable,
} from '../../../src/engine/backends/backend.ts';
import { type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { encodeBatch } from '../../../src/engine/backends/redis/batch.ts';
import { decodeBatch } from '../../../src/engine/backends/redis/batch-reply.ts';
import { script } from '../../../src/engine/backends/redis/script.ts';
import { type Claim, hashHolder } from '../../../src/engine/holds/claim.ts';
import { algorithmFor, fullCapacity, type Limit } from '../../../src/engine/holds/limits.ts';
import { withStatus } from '../../../src/engine/ledger/debit.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import {
  adaptiveOf,
  anyAnchoredLimit,
  anyLimit,
  anyLimitOf,
  anyTransfer,
  fixedWindowOf,
  inFlightOf,
  reservationOf,
  slidingWindowBucketsOf,
  slidingWindowLogOf,
} from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';
import { randomOf } from '../../helpers/random.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const START_MS = 1_700_000_000_000;
const NO_KEY = -2; // a reply of PTTL
/** PTTL's reply for a counter whose time to live did not change: the previous call has removed it. */
const TAKEN_OFF = -1;
const FOREVER_MS = 1e15;
/** By how much a given clock may be behind the server's, as in dispatcher.lua. */
const MAX_BEHIND_MS = 10_000;
const PTTL_LATE_MS = 1_000; // PTTL uses the server's clock, which keeps running

let server: Redis;
let connection: Connection;
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
  await connection.script('LOAD', script.text);
});
afterAll(async () => {
  connection.disconnect();
  await server.stop();
});

/** One request: a move of the clock, the counters that are lost before, and the hits. Counters are named by index. */
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
  /** The hits are charged regardless of the limit. Only if each limit counts separately. */
  readonly charges: boolean;
  /** The holder of slots, if the algorithm has holders. */
  readonly holder: number;
  /** The limit has been lowered; it may be restored later. */
  readonly lowered: boolean;
  /** The hits commit the holder's usage, if the algorithm has reservations. */
  readonly commits: boolean;
  /** The move between sites, if the algorithm has them. */
  readonly transfer?: Claim['transfer'] | undefined;
}

/**
 * A move by some ms, or to a boundary of a counter's window or of a part of it, or to the end of the lives of the hits
 * of the previous call, or close to it.
 */
type Move =
  | { readonly byMs: number }
  | { readonly lifeOf: number; readonly besideMs: number }
  | { readonly counter: number; readonly parts: number; readonly windows: number; readonly besideMs: number };

const anyMove = (counter: fc.Arbitrary<number>): fc.Arbitrary<Move> =>
  fc.oneof(
    fc.constant({ byMs: 0 }),
    fc.record({ byMs: fc.integer({ min: -5, max: 20 }) }),
    fc.record({ byMs: fc.integer({ min: -5_000, max: 5_000 }) }),
    fc.record({ byMs: fc.integer({ min: -20_000_000_000, max: 20_000_000_000 }) }),
    fc.record({ lifeOf: counter, besideMs: fc.integer({ min: -1, max: 1 }) }),
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
          const capacity = fullCapacity(limit);
          return [hits, hits + 1, 1 - hits, capacity, capacity + 1, Math.ceil(capacity / 2), -capacity];
        }),
      ),
    },
    { weight: 1, arbitrary: fc.integer({ min: -MAX_COUNT, max: MAX_COUNT }) },
    { weight: 1, arbitrary: fc.constantFrom(MAX_COUNT, -MAX_COUNT) },
  );

const mostly = (usual: boolean): fc.Arbitrary<boolean> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constant(!usual) });

/** The same counter's limit after a reload that lowered it. */
function lowered(limit: Limit): Limit {
  const requestsPerUnit = Math.ceil(limit.requestsPerUnit / 2);
  if (limit.algorithm === 'reservation')
    return { ...limit, requestsPerUnit, soft: 0, inner: lowered(limit.inner) as RateLimit }; // of the same kind
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
          transfer: anyTransfer(MAX_SITES).map(({ transfer }) => transfer),
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
  const limit = limits['lifeOf' in move ? move.lifeOf : move.counter];
  if ('lifeOf' in move) return nowMs + (limit ? lifeMs(limit) : 0) + move.besideMs;
  const windowMs = limit?.windowMs ?? 1;
  const phaseMs = (limit && 'phaseMs' in limit && limit.phaseMs) || 0;
  const partMs = Math.max(Math.floor(windowMs / move.parts), 1);
  return nowMs - ((nowMs + phaseMs) % partMs) + move.windows * partMs + move.besideMs;
}

/** Whether hits count until they are given back: for the algorithms; stores forget them after `MAX_WINDOW_MS`. */
const hasNoEnd = ({ algorithm }: Limit): boolean => algorithm === 'allocation';

/** How long a hit, or a hold, of the limit lasts. */
function lifeMs(limit: Limit): number {
  if (hasNoEnd(limit)) return 0;
  return limit.algorithm === 'reservation' ? limit.ttlMs : limit.windowMs;
}

/** The limit that counts the hits. */
const counted = (limit: Limit): Limit => (limit.algorithm === 'reservation' ? (limit.inner as Limit) : limit);

/** How far back other clocks may be: the script only knows the calendar windows around the caller's clock. */
const mostBackMs = (limits: readonly Limit[]): number =>
  Math.min(
    ...limits
      .map(counted)
      .map((limit) =>
        'alignment' in limit && typeof limit.alignment !== 'string' ? limit.windowMs / 2 : Number.POSITIVE_INFINITY,
      ),
  );

/**
 * The answers, and the time to live of each counter in ms, or that there is no key; undefined if it was not written.
 */
interface Outcome {
  readonly decisions: readonly (Decision | Unavailable)[];
  readonly ttlsMs: readonly (number | undefined)[];
}

/** The TypeScript twins' answer to a request; they keep states in `counters`. */
function inTypeScript(
  counters: Map<CounterKey, Step>,
  hits: readonly RequestOperation[],
  spend: Spend,
  nowMs: number,
): Outcome {
  const run = (from: Map<CounterKey, Step>, operation: RequestOperation, count: number, charge: boolean): Step => {
    const { kind, key, limit } = operation;
    const how = kind === 'charge' ? 'regardless' : charge;
    return algorithmFor(limit).step(limit, from.get(key)?.state, nowMs, count, how, operation);
  };
  const told = (
    operation: RequestOperation,
    count: number,
    { state, report = state }: Step,
    accepted: boolean,
    charged: boolean,
  ) => {
    const { kind, limit } = operation;
    const outcome = { hits: count, accepted, charged: kind === 'charge' ? 'regardless' : charged } as const;
    return algorithmFor(limit).describe(limit, report, nowMs, outcome, operation);
  };

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
    const earlierHits = triedHits(hits);
    const asked = new Map<CounterKey, number>(); // by the request so far, for each counter
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
      const decision = told(hit, whole, run(counters, hit, whole, false), accepted, false);
      const earlier = earlierHits[at];
      return earlier ? afterEarlierHits(decision, earlier) : decision;
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

/** The contents of a request. */
interface Request {
  readonly operations: readonly RequestOperation[];
  readonly spend: Spend;
}

/**
 * The Lua twins' answers to the requests of one batch. The schedule's clock is not the server's, so nothing may expire
 * by the server's: time stands still within a transaction, whose end removes expiry times.
 */
async function inLua(requests: readonly Request[], lost: readonly CounterKey[], nowMs: number) {
  const batch = encodeBatch(requests, nowMs);
  const { keys, packed } = batch;
  const transaction = connection.multi();
  for (const key of lost) transaction.del(key);
  transaction.callBuffer('EVALSHA', script.sha1, keys.length, ...keys, packed, nowMs);
  for (const key of keys) transaction.pttl(key);
  for (const key of keys) transaction.persist(key);
  const replies = (await transaction.exec()) ?? [];
  const [error, reply] = replies[lost.length] ?? [];
  if (error) throw error;
  const ttlsMs = new Map(keys.map((key, at) => [key as CounterKey, Number(replies[lost.length + 1 + at]?.[1])]));
  return { decisions: decodeBatch(reply as Buffer, batch), ttlsMs }; // the script replies with bytes
}

/** The most sites of a limit. */
const MAX_SITES = 8;

/** The transfer on the limit, if sites share it: with one of its sites. */
function moveOn(limit: Limit, transfer: Claim['transfer']): Pick<Claim, 'transfer'> {
  if (limit.algorithm !== 'site_share' || !transfer) return {};
  return { transfer: 'peer' in transfer ? { ...transfer, peer: transfer.peer % limit.sites } : transfer };
}

/** The thresholds of the priorities that requests state. */
const thresholds = [undefined, 100, 85, 60] as const;

/** Functions that return the hits of a call, and the counters lost before it. */
function prepare(limits: readonly Limit[]) {
  const counterKeys = createCounterKeys(`${randomUUID()}:`);
  const counters = limits.map((limit, at) => ({ limit, key: counterKeys(limit, String(at), []) }));
  const named = (places: readonly number[]) => places.flatMap((place) => counters[place] ?? []);
  return {
    lostBy: ({ lost }: Call): CounterKey[] => named(lost).map(({ key }) => key),
    hitsOf: ({ hits, spend }: Call): RequestOperation[] =>
      hits.flatMap(({ counter, lowered: low, holder, commits, transfer, ...hit }) =>
        named([counter]).map(({ key, limit }) => {
          const own = low ? lowered(limit) : limit;
          const plain = operationOf({ key }, own, hit.hits, hit.blocks, hit.charges && spend === 'each');
          const held = heldBy(plain, holder);
          const claimed = {
            ...held,
            ...(own.algorithm === 'adaptive' && { threshold: thresholds[holder % 4] }),
            ...(own.algorithm === 'reservation' && { commits }),
            ...moveOn(own, transfer),
          };
          const asked = withStatus(claimed, hit.hits);
          return commits && hit.hits === 0 ? { ...asked, kind: 'spend' } : asked; // a commit of 0 hits is no peek
        }),
      ),
  };
}

async function compare(limits: readonly Limit[], calls: readonly Call[]): Promise<void> {
  const { lostBy, hitsOf } = prepare(limits);
  const states = new Map<CounterKey, Step>();
  const expected: Outcome[] = [];
  const got: ReturnType<typeof inLua>[] = []; // answered in the order of the requests, so no call needs to wait
  const backMs = mostBackMs(limits);
  let nowMs = START_MS;
  let latestMs = START_MS;
  for (const call of calls) {
    nowMs = Math.max(moved(nowMs, call.move, limits), latestMs - backMs, 0);
    latestMs = Math.max(latestMs, nowMs);
    const [hits, lost] = [hitsOf(call), lostBy(call)];
    for (const key of lost) states.delete(key);
    expected.push(inTypeScript(states, hits, call.spend, nowMs));
    got.push(inLua([{ operations: hits, spend: call.spend }], lost, nowMs));
  }
  const answers = await Promise.all(got);
  expect(answers.map(({ decisions }) => decisions[0])).toEqual(expected.map(({ decisions }) => decisions));
  const times = answers.flatMap(({ ttlsMs }, call) =>
    Array.from(ttlsMs.values(), (ttlMs, at) => ({ call, at, ttlMs, wantedMs: expected[call]?.ttlsMs[at] })),
  );
  expect(times.filter(({ ttlMs, wantedMs }) => !isWanted(ttlMs, wantedMs))).toEqual([]);
}

/** Whether PTTL says of a counter what is wanted. */
function isWanted(ttlMs: number, wantedMs: number | undefined): boolean {
  if (wantedMs === undefined || wantedMs > FOREVER_MS) return true; // not written; or no exact integer on the way here
  if (wantedMs === TAKEN_OFF) return ttlMs === TAKEN_OFF;
  if (wantedMs === NO_KEY) return ttlMs === NO_KEY;
  const keptMs = wantedMs + MAX_BEHIND_MS;
  return ttlMs <= keptMs && ttlMs >= keptMs - PTTL_LATE_MS;
}

/** Compares calls that are sent together in groups of `size`; the clock moves with the first of each group. */
async function compareTogether(limits: readonly Limit[], calls: readonly Call[], size: number): Promise<void> {
  const { lostBy, hitsOf } = prepare(limits);
  const states = new Map<CounterKey, Step>();
  let nowMs = START_MS;
  for (let first = 0; first < calls.length; first += size) {
    const together = calls.slice(first, first + size);
    const [begin] = together;
    if (begin) nowMs = Math.max(moved(nowMs, begin.move, limits), nowMs);
    const requests = together.map((call) => ({ operations: hitsOf(call), spend: call.spend }));
    const lost = begin ? lostBy(begin) : [];
    for (const key of lost) states.delete(key);
    const expected = requests.map(({ operations, spend }) => inTypeScript(states, operations, spend, nowMs).decisions);
    const { decisions, ttlsMs } = await inLua(requests, lost, nowMs);
    expect(decisions).toEqual(expected);
    expect([...ttlsMs].filter(([key, ttlMs]) => (ttlMs !== NO_KEY) !== states.has(key))).toEqual([]);
  }
}

describe('the Lua twins agree with the TypeScript twins to the integer', () => {
  test.each(Object.keys(anyLimitOf) as (keyof typeof anyLimitOf)[])('about %s', async (name) => {
    const schedules = anySchedule(anyLimitOf[name]);
    await fc.assert(
      fc.asyncProperty(schedules, ({ limits, calls }) => compare(limits, calls)),
      { numRuns: 120 },
    );
  });

  test('about windows that begin with a date', async () => {
    await fc.assert(
      fc.asyncProperty(anySchedule(anyAnchoredLimit), ({ limits, calls }) => compare(limits, calls)),
      { numRuns: 120 },
    );
  });

  test('about requests that are sent together', async () => {
    const batches = fc.tuple(anySchedule(anyLimit), fc.integer({ min: 2, max: 12 }));
    await fc.assert(
      fc.asyncProperty(batches, ([{ limits, calls }, size]) => compareTogether(limits, calls, size)),
      { numRuns: 200 },
    );
  });

  test('about limits of several algorithms in one request', async () => {
    await fc.assert(
      fc.asyncProperty(anySchedule(anyLimit), ({ limits, calls }) => compare(limits, calls)),
      { numRuns: 120 },
    );
  });
});

describe('one script steps a counter with a long state as often as separate scripts would', () => {
  const WINDOW_MS = 2_000;
  const log = slidingWindowLogOf(60, WINDOW_MS);
  const anyUse = fc.record({
    counter: fc.constant(0),
    hits: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(1, 1, 2, 3) },
      { weight: 2, arbitrary: fc.integer({ min: -40, max: 70 }) },
    ),
    blocks: mostly(true),
    charges: mostly(false),
    holder: fc.nat({ max: 50 }),
    lowered: mostly(false),
    commits: mostly(false),
  });
  const anyUses = fc.array(
    fc.record({
      move: fc.record({ byMs: fc.integer({ min: 0, max: 60 }) }),
      lost: fc.constant([]),
      spend: fc.constantFrom(...spends),
      hits: fc.array(anyUse, { minLength: 1, maxLength: 6 }),
    }),
    { minLength: 40, maxLength: 80 },
  );

  test.each([
    ['a log', log],
    ['a log of refusals', slidingWindowLogOf(60, WINDOW_MS, { countDenied: true })],
    ['parts of a window', slidingWindowBucketsOf(60, WINDOW_MS, { buckets: 50 })],
    ['requests in flight', inFlightOf(60, WINDOW_MS)],
    ['reservations', reservationOf(fixedWindowOf(60, WINDOW_MS), { ttlMs: WINDOW_MS })],
    ['reservations beside a log', reservationOf(log, { ttlMs: WINDOW_MS })],
  ])('%s', async (_, limit) => {
    await fc.assert(
      fc.asyncProperty(anyUses, fc.integer({ min: 1, max: 20 }), (calls, size) =>
        compareTogether([limit], calls, size),
      ),
      { numRuns: 25 },
    );
  });
});

/** Requests that last about as long as there are requests in flight, some of which fail; some releases have a status. */
const anyLoad = fc.record({
  seed: fc.nat(),
  requests: fc.integer({ min: 200, max: 600 }),
  everyMs: fc.constantFrom(2, 10, 40),
  baseMs: fc.constantFrom(0, 5, 100),
  slowFrom: fc.constantFrom(5, 20, 1_000),
  failing: fc.constantFrom(0, 0, 0.03, 0.3, 1),
});
type Load = typeof anyLoad extends fc.Arbitrary<infer L> ? L : never;
function callsOf({ seed, requests, everyMs, baseMs, slowFrom, failing }: Load): readonly Call[] {
  const random = randomOf(seed);
  const events: { readonly atMs: number; readonly hits: number; readonly holder: number }[] = [];
  let atMs = 0;
  for (let holder = 1; holder <= requests; holder++) {
    atMs += Math.floor(random() * 2 * everyMs) + (random() < 0.005 ? 15_000 : 0);
    const slow = random() < 0.5 && holder % 200 > slowFrom ? 4 : 1;
    const hits = -(random() < failing ? 503 : ([1, 200, 404][Math.floor(random() * 3)] ?? 1));
    events.push({ atMs, hits: 1, holder });
    if (random() < 0.98) events.push({ atMs: atMs + Math.floor(baseMs * slow * (0.5 + random())), hits, holder });
  }
  events.sort((one, other) => one.atMs - other.atMs);
  return events.map(({ hits, holder, atMs: at }, place) => ({
    move: { byMs: at - (events[place - 1]?.atMs ?? 0) },
    lost: [],
    spend: 'each',
    hits: [{ counter: 0, hits, blocks: true, charges: false, holder, lowered: random() < 0.01, commits: false }],
  }));
}

test.each(['gradient', 'aimd'] as const)(
  'the twins agree about a limit that adapts by %s',
  async (target) => {
    await fc.assert(
      fc.asyncProperty(anyLoad, fc.constantFrom(1, 5, 20), (load, size) =>
        compareTogether([adaptiveOf(100, 5_000, { target, adaptMs: 200 })], callsOf(load), size),
      ),
      { numRuns: 6 },
    );
  },
  120_000,
);

/** Two windows with requests of 100 ms; the limit grows after the first, and the second has failures after 10 ms. */
function callsWithFailures(failures: number): readonly Call[] {
  const whole = (fromMs: number, count: number, tookMs: number, hits: number) =>
    Array.from({ length: count }, (_, at) => {
      const holder = hashHolder(`${fromMs} ${at}`);
      return [
        { atMs: fromMs + at, hits: 1, holder },
        { atMs: fromMs + at + tookMs, hits, holder },
      ];
    }).flat();
  const windows = [whole(0, 90, 100, -200), whole(200, 30, 100, -200), whole(400, failures, 10, -503)];
  const events = [...windows.flat(), { atMs: 900, hits: 1, holder: 10_000 }];
  events.sort((one, other) => one.atMs - other.atMs);
  return events.map(({ atMs, hits, holder }, at) => ({
    move: { byMs: atMs - (events[at - 1]?.atMs ?? 0) },
    lost: [],
    spend: 'each',
    hits: [{ counter: 0, hits, blocks: true, charges: false, holder, lowered: false, commits: false }],
  }));
}

test.each([16, 64, 150])('the twins agree about %i failures of a tenth of the usual time', (failures) =>
  compareTogether([adaptiveOf(1_000, 5_000, { min: 50, adaptMs: 200 })], callsWithFailures(failures), 1),
);

test('the twins agree about a log with the maximum number of entries', async () => {
  const hits = [{ counter: 0, hits: 1, blocks: true, charges: false, holder: 0, lowered: false, commits: false }];
  const call: Call = { move: { byMs: 9 }, lost: [], spend: 'each', hits };
  const calls = Array.from({ length: 1_050 }, () => call);
  await compare([slidingWindowLogOf(1_000, 10_000)], calls);
});

/**
 * No windows that begin with their first hit: conformance.ts tests which hit that is after a refund within a request.
 */
const anySteadyLimit = anyLimit.filter((limit) => {
  const own = counted(limit);
  return !('alignment' in own && own.alignment === 'first_hit');
});

test('the store in memory agrees with the twins if its clock moves forward', async () => {
  await fc.assert(
    fc.asyncProperty(anySchedule(anySteadyLimit), async ({ limits, calls }) => {
      const { hitsOf } = prepare(limits);
      const clock = fakeClock(START_MS);
      const store = createMemoryBackend(clock, { maxCounters: 1_000 });
      const states = new Map<CounterKey, Step>();
      const lastMs = limits.some(hasNoEnd) ? START_MS + MAX_WINDOW_MS - 1 : Number.POSITIVE_INFINITY;
      for (const call of calls) {
        clock.set(Math.min(Math.max(moved(clock(), call.move, limits), clock()), lastMs));
        const hits = hitsOf({ ...call, hits: call.hits.map((one) => ({ ...one, lowered: false })) });
        const { decisions } = inTypeScript(states, hits, call.spend, clock());
        expect(await store.run(hits, { spend: call.spend, timeoutMs: 1 })).toEqual(decisions);
      }
    }),
    { numRuns: 300 },
  );
});
