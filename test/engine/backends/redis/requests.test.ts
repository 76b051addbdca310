import { randomUUID } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import { MAX_COUNT, MAX_WINDOW_MS, type Spend, spends } from '../../../../src/engine/algorithms/limit.ts';
import type { RequestOperation } from '../../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../../src/engine/backends/memory/backend.ts';
import { encodeBatch } from '../../../../src/engine/backends/redis/batch.ts';
import { decodeBatch } from '../../../../src/engine/backends/redis/batch-reply.ts';
import { script } from '../../../../src/engine/backends/redis/script.ts';
import type { Claim } from '../../../../src/engine/holds/claim.ts';
import { fullCapacity, type Limit } from '../../../../src/engine/holds/limits.ts';
import { withStatus } from '../../../../src/engine/ledger/debit.ts';
import { fakeClock } from '../../../helpers/clock.ts';
import { openReady } from '../../../helpers/connection.ts';
import {
  anyAnchoredLimit,
  anyLimit,
  anyTransfer,
  fixedWindowOf,
  inFlightOf,
  reservationOf,
  slidingWindowBucketsOf,
  slidingWindowLogOf,
} from '../../../helpers/limits.ts';
import { heldBy, operationOf } from '../../../helpers/operations.ts';
import fc from '../../../helpers/property.ts';
import { type Redis, startRedis } from '../../../helpers/redis.ts';

const START_MS = 1_700_000_000_000;

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

/** One request: a move of the clock, and the hits. Counters are named by index. */
interface Call {
  readonly move: Move;
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
    fc.record({ byMs: fc.integer({ min: 0, max: 20 }) }),
    fc.record({ byMs: fc.integer({ min: 0, max: 5_000 }) }),
    fc.record({ byMs: fc.integer({ min: 0, max: 20_000_000_000 }) }),
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

const anyCalls = (limits: readonly Limit[]): fc.Arbitrary<readonly Call[]> => {
  const counter = fc.nat({ max: limits.length - 1 });
  return fc.array(
    fc.record({
      move: anyMove(counter),
      spend: fc.constantFrom(...spends),
      hits: fc.array(
        fc.record({
          counter,
          hits: anyHits(limits),
          blocks: mostly(true),
          charges: mostly(false),
          holder: fc.nat({ max: 3 }),
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

/** The contents of a request. */
interface Request {
  readonly operations: readonly RequestOperation[];
  readonly spend: Spend;
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

/** A function that returns the hits of a call. */
function prepare(limits: readonly Limit[]) {
  const counterKeys = createCounterKeys(`${randomUUID()}:`);
  const counters = limits.map((limit, at) => ({ limit, key: counterKeys(limit, String(at), []) }));
  return ({ hits, spend }: Call): RequestOperation[] =>
    hits.flatMap(({ counter, holder, commits, transfer, ...hit }) =>
      counters.slice(counter, counter + 1).map(({ key, limit }) => {
        const plain = operationOf({ key }, limit, hit.hits, hit.blocks, hit.charges && spend === 'each');
        const claimed = {
          ...heldBy(plain, holder),
          ...(limit.algorithm === 'adaptive' && { threshold: thresholds[holder % 4] }),
          ...(limit.algorithm === 'reservation' && { commits }),
          ...moveOn(limit, transfer),
        };
        const asked = withStatus(claimed, hit.hits);
        return commits && hit.hits === 0 ? { ...asked, kind: 'spend' } : asked; // a commit of 0 hits is no peek
      }),
    );
}

/** Compares the answers in Redis and in memory to calls that are sent together in groups of `size`, at one time. */
async function compare(limits: readonly Limit[], calls: readonly Call[], size: number): Promise<void> {
  const hitsOf = prepare(limits);
  const clock = fakeClock(START_MS);
  const memory = createMemoryBackend(clock, { maxCounters: 1_000 });
  const lastMs = limits.some(hasNoEnd) ? START_MS + MAX_WINDOW_MS - 1 : Number.POSITIVE_INFINITY;
  for (let first = 0; first < calls.length; first += size) {
    const together = calls.slice(first, first + size);
    const [begin] = together;
    if (begin) clock.set(Math.min(Math.max(moved(clock(), begin.move, limits), clock()), lastMs));
    const requests = together.map((call) => ({ operations: hitsOf(call), spend: call.spend }));
    const expected: unknown[] = [];
    for (const { operations, spend } of requests) expected.push(await memory.run(operations, { spend, timeoutMs: 1 }));
    expect(await inRedis(requests, clock())).toEqual(expected);
  }
}

/** The answers of the script. The clock is not the server's, so nothing may expire by the server's. */
async function inRedis(requests: readonly Request[], nowMs: number) {
  const batch = encodeBatch(requests, nowMs);
  const { keys, packed } = batch;
  const transaction = connection.multi();
  transaction.callBuffer('EVALSHA', script.sha1, keys.length, ...keys, packed, nowMs);
  for (const key of keys) transaction.persist(key); // time stands still within a transaction
  const [[error, reply] = []] = (await transaction.exec()) ?? [];
  if (error) throw error;
  return decodeBatch(reply as Buffer, batch); // the script replies with bytes
}

/**
 * No windows that begin with their first hit: conformance.ts tests which hit that is after a refund within a request.
 */
const anySteadyLimit = anyLimit.filter((limit) => {
  const own = counted(limit);
  return !('alignment' in own && own.alignment === 'first_hit');
});

test('requests that are sent together', async () => {
  const batches = fc.tuple(anySchedule(fc.oneof(anySteadyLimit, anyAnchoredLimit)), fc.integer({ min: 1, max: 12 }));
  await fc.assert(
    fc.asyncProperty(batches, ([{ limits, calls }, size]) => compare(limits, calls, size)),
    { numRuns: 300 },
  );
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
    commits: mostly(false),
  });
  const anyUses = fc.array(
    fc.record({
      move: fc.record({ byMs: fc.integer({ min: 0, max: 60 }) }),
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
      fc.asyncProperty(anyUses, fc.integer({ min: 1, max: 20 }), (calls, size) => compare([limit], calls, size)),
      { numRuns: 25 },
    );
  });
});
