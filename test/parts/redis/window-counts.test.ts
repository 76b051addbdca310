import { createConnection, createServer, type Server } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis as Connection } from 'ioredis';
import { type Decision, MAX_COUNT, type Spend, unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Operation, Reply } from '../../../src/engine/backends/backend.ts';
import { type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { addressOf, openReady, ordinary } from '../../helpers/connection.ts';
import { calendarWindowOf, fixedWindowOf, slidingWindowCounterOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { freePort } from '../../helpers/process.ts';
import { randomOf } from '../../helpers/random.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startTcpProxy } from '../../helpers/tcp-proxy.ts';
import { eventually } from '../../helpers/until.ts';

const TIMEOUT_MS = 10_000;
const HOUR = unitMs.HOUR;
const NO_EXPIRY = -1;
/** Random operations that are compared; `RANDOM_OPERATIONS=1000000` for the long form. */
const OPERATIONS = Number(process.env.RANDOM_OPERATIONS ?? 5_000);

let server: Redis;
let operator: Connection; // inspects and changes the server, independently of the stores
const opened: RedisBackend[] = [];
beforeAll(async () => {
  server = await startRedis();
  operator = await openReady(server);
});
beforeEach(() => operator.flushall());
afterEach(() => Promise.all(opened.splice(0).map((store) => store.close())));
afterAll(async () => {
  operator.disconnect();
  await server.stop();
});

async function openStore(at: Pick<Redis, 'port'> = server): Promise<RedisBackend> {
  const store = new RedisBackend(await openReady(at), Date.now, { slowMs: 60_000 });
  opened.push(store);
  await run(store, charge(fixedWindowOf(1, HOUR), 'first')); // whose reply has the clock of Redis
  return store;
}

const keys = createCounterKeys('');
const spend = (limit: Limit, name: string, hits = 1) => operationOf({ key: keys(limit, name, []) }, limit, hits, true);
const charge = (limit: Limit, name: string): Operation => ({ ...spend(limit, name), kind: 'charge' });

type Receipt = Decision & { readonly chargedAtMs: number };

function receiptsOf(replies: readonly Reply[]): readonly Receipt[] {
  return replies.map((reply) => {
    if (reply.code === 'UNAVAILABLE') throw new Error(reply.reason);
    return reply as Receipt; // receipts were asked for
  });
}

async function run(store: RedisBackend, ...operations: readonly Operation[]): Promise<readonly Receipt[]> {
  return receiptsOf(await store.run(operations, { spend: 'each', timeoutMs: TIMEOUT_MS, receipts: true }));
}

/** Calls of each command during the work, beyond those of scripts. */
async function commandsOf(work: () => Promise<unknown>): Promise<Record<string, number>> {
  await operator.config('RESETSTAT');
  await work();
  const info = await operator.info('commandstats');
  const calls = [...info.matchAll(/cmdstat_(\w+)\S*:calls=(\d+)/g)].map(([, name = '', count]) => [
    name,
    Number(count),
  ]);
  return Object.fromEntries(calls.filter(([name]) => !/^(config|info|client|subscribe|publish)/.test(String(name))));
}

test('a counter is an integer that expires with its window', async () => {
  const store = await openStore();
  const hit = spend(fixedWindowOf(5, HOUR), 'plain', 3);
  await run(store, hit);
  await run(store, hit);
  expect(await operator.get(hit.key)).toBe('6');
  const endMs = Date.now() + (await operator.pttl(hit.key));
  expect(Math.abs(endMs - Math.ceil(Date.now() / HOUR) * HOUR)).toBeLessThan(1_000);
});

test('a spend on a counter that was seen in this window is one INCRBY', async () => {
  const store = await openStore();
  const hit = spend(fixedWindowOf(5, HOUR), 'known');
  expect(await commandsOf(() => run(store, hit))).toEqual({ time: 1, set: 1, incrby: 1, pttl: 1 });
  expect(await commandsOf(() => run(store, hit))).toEqual({ time: 1, incrby: 1 });
});

test('concurrent spends on a counter are one INCRBY, and each has its own outcome', async () => {
  const store = await openStore();
  const hit = spend(fixedWindowOf(5, HOUR), 'hot');
  await run(store, hit);
  let replies: readonly (readonly Reply[])[] = [];
  const commands = await commandsOf(async () => {
    replies = await Promise.all(Array.from({ length: 7 }, () => run(store, hit)));
  });
  expect(commands).toEqual({ time: 1, incrby: 1 });
  expect(replies.map(([reply]) => reply)).toMatchObject(
    [1, 2, 3, 4, 5, 6, 7].map((hitsBefore) => ({ hitsBefore, code: hitsBefore < 5 ? 'OK' : 'OVER_LIMIT' })),
  );
});

test('names of several octets for each character are counted', async () => {
  const store = await openStore();
  const hits = ['é', '\u{1f600}', 'plain'].map((name) => spend(fixedWindowOf(5, HOUR), name));
  await run(store, ...hits);
  expect(await run(store, ...hits)).toMatchObject(hits.map(() => ({ hitsBefore: 1 })));
  expect(await Promise.all(hits.map(({ key }) => operator.get(key)))).toEqual(['2', '2', '2']);
});

test('a counter that Redis has lost has an expiry again after the next spend', async () => {
  const store = await openStore();
  const hit = spend(fixedWindowOf(5, HOUR), 'lost');
  await run(store, hit);
  await operator.del(hit.key);
  expect(await run(store, hit)).toMatchObject([{ code: 'OK', hitsBefore: 0 }]);
  await eventually(async () => (await operator.pttl(hit.key)) > 0);
});

test('a counter without an expiry gets one from the first instance that sees it', async () => {
  const limit = fixedWindowOf(5, HOUR);
  for (const see of [spend(limit, 'spent'), { ...spend(limit, 'peeked'), kind: 'peek' } as const]) {
    await operator.set(see.key, '2');
    expect(await run(await openStore(), see)).toMatchObject([{ code: 'OK', hitsBefore: 2 }]);
    await eventually(async () => (await operator.pttl(see.key)) > 0);
  }
});

test('a counter that may have no expiry gets one although Redis refuses to tell at first', async () => {
  let isCut = false;
  const proxy = await startTcpProxy(server.port, ({ client, server: onward, end }) => {
    client.pipe(onward);
    onward.on('data', (reply) => (isCut ? end() : client.write(reply)));
  });
  try {
    const store = await openStore(proxy);
    const hit = spend(fixedWindowOf(5, HOUR), 'doubtful');
    await run(store, hit);
    await operator.del(hit.key);
    isCut = true;
    await expect(run(store, hit)).rejects.toThrow('the connection was lost');
    expect(await operator.pttl(hit.key)).toBe(NO_EXPIRY);
    await operator.config('SET', 'replica-serve-stale-data', 'no');
    await operator.replicaof('127.0.0.1', await freePort()); // of no server, so that it keeps its counters
    isCut = false;
    await eventually(async () => /cmdstat_pttl:.*rejected_calls=[1-9]/.test(await operator.info('commandstats')));
    await operator.replicaof('NO', 'ONE');
    await eventually(async () => (await operator.pttl(hit.key)) > 0);
  } finally {
    await operator.replicaof('NO', 'ONE');
    await operator.config('SET', 'replica-serve-stale-data', 'yes');
    await proxy.close();
  }
});

test('a script gives a counter without an expiry one, before it could refuse for longer than a window', async () => {
  const store = await openStore();
  const hits = ['a', 'b', 'c'].map((name) => spend(fixedWindowOf(5, HOUR), name)); // more than plain commands count
  for (const { key } of hits) await operator.set(key, '4');
  expect(await run(store, ...hits)).toMatchObject(hits.map(() => ({ code: 'OK', hitsBefore: 4 })));
  expect(await run(store, ...hits)).toMatchObject(hits.map(() => ({ code: 'OVER_LIMIT', hitsBefore: 5 })));
  for (const { key } of hits) expect(await operator.pttl(key)).toBeGreaterThan(0);
});

test('a counter is not deleted by a reset, so that another instance adds to a key with an expiry', async () => {
  const [one, other] = [await openStore(), await openStore()];
  const hit = spend(fixedWindowOf(5, HOUR), 'reset', 4);
  await run(one, hit);
  await run(other, { ...hit, kind: 'forget' });
  expect([await operator.get(hit.key), (await operator.pttl(hit.key)) > 0]).toEqual(['0', true]);
  expect(await run(one, hit)).toMatchObject([{ code: 'OK', hitsBefore: 0, limitRemaining: 1 }]);
});

test('a window that begins with its first hit ends its length later, also after a reset', async () => {
  const store = await openStore();
  const hit = spend(fixedWindowOf(5, HOUR, { alignment: 'first_hit' }), 'first hit');
  const leftMs = async () => Number((await run(store, hit))[0]?.durationUntilResetMs);
  expect(HOUR - (await leftMs())).toBeLessThan(1_000);
  await operator.pexpire(hit.key, HOUR / 2); // half an hour later
  expect(HOUR / 2 - (await leftMs())).toBeLessThan(1_000);
  await run(store, { ...hit, kind: 'forget' });
  expect(HOUR - (await leftMs())).toBeLessThan(1_000);
  await eventually(async () => (await operator.pttl(hit.key)) > HOUR - 10_000);
});

test.each([
  ['text', (key: string) => operator.set(key, 'hello')],
  ['another type', (key: string) => operator.rpush(key, 'not', 'a', 'counter')],
  ['a count that would overflow', (key: string) => operator.set(key, '9223372036854775807')],
])('a counter that holds %s is counted by the script', async (_, write) => {
  const store = await openStore();
  const hit = spend(fixedWindowOf(5, HOUR), 'foreign');
  await write(hit.key);
  const [first] = await run(store, hit);
  const [next] = await run(store, hit);
  const wasFull = first?.code === 'OVER_LIMIT';
  expect(next).toMatchObject({ hitsBefore: wasFull ? MAX_COUNT - 1 : 1 });
  expect(await operator.pttl(hit.key)).toBeGreaterThan(0);
});

test('a fork has the state of a counter', async () => {
  const store = await openStore();
  for (const limit of [fixedWindowOf(5, HOUR), calendarWindowOf(5, 'DAY', 'Europe/Berlin')]) {
    const hit = spend(limit, 'forked', 3);
    const [{ chargedAtMs = 0, durationUntilResetMs = 0 } = {}] = await run(store, hit);
    const fork = await store.fork([hit], TIMEOUT_MS);
    const [startMs = 0, count] = fork.readState(hit) ?? [];
    expect(count).toBe(3);
    expect(startMs).toBeLessThanOrEqual(chargedAtMs);
    expect(startMs).toBeGreaterThan(chargedAtMs + durationUntilResetMs - 26 * HOUR);
    expect(await fork.backend.run([hit], { spend: 'each', timeoutMs: 1 })).toMatchObject([{ hitsBefore: 3 }]);
  }
});

/** A request, or an operation of one whose operations are independent. */
interface Unit {
  readonly operations: readonly Operation[];
  readonly spend: Spend;
  readonly got: readonly Receipt[];
}

const timeOf = ({ got: [first] }: Unit): number => first?.chargedAtMs ?? 0;

/** The count before hits is only a guess beyond `MAX_COUNT`. */
const exact = (reply: Receipt): Receipt => ({ ...reply, hitsBefore: Math.min(reply.hitsBefore, 2 ** 52) });

const exactLimits: readonly Limit[] = [
  ...[150, 400, 1_000, HOUR].flatMap((windowMs) => [
    fixedWindowOf(20, windowMs),
    { ...fixedWindowOf(20, windowMs), soft: 3 },
  ]),
  { ...fixedWindowOf(10, 1_000, { phaseMs: 333 }), counter: 'phase' },
  calendarWindowOf(20, 'DAY', 'Europe/Berlin'),
  slidingWindowCounterOf(20, 400),
];

test('random operations of two instances have the replies of the store in memory, to the integer', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
  const random = randomOf(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const stores = [await openStore(), await openStore()];
  const clock = fakeClock(0);
  const memory = createMemoryBackend(clock, { maxCounters: 1_000_000 });
  const charged = new Map<CounterKey, number[]>();
  const anyOperation = (): Operation => {
    const limit = exactLimits[below(exactLimits.length)] as Limit;
    const base = spend(limit, String(below(4)), random() < 0.02 ? MAX_COUNT : 1 + below(4));
    const chance = random();
    if (chance < 0.75) return { ...base, blocks: random() < 0.9 };
    if (chance < 0.8) return { ...base, kind: 'peek', hits: random() < 0.5 ? 0 : base.hits };
    if (chance < 0.86) return { ...base, kind: 'give_back' };
    if (chance < 0.9) return { ...base, kind: 'charge' };
    if (chance > 0.998) return { ...base, kind: 'forget' };
    return { ...base, kind: 'refund', chargedAtMs: charged.get(base.key)?.[below(5)] ?? 1 };
  };
  const anyRequest = () => {
    const operations = Array.from({ length: 1 + below(3) }, anyOperation);
    const isSet = random() < 0.2 && operations.every(({ kind }) => /spend|peek|give_back/.test(kind));
    return { operations, spend: isSet ? ('all_or_nothing' as const) : ('each' as const) };
  };
  for (let count = 0; count < OPERATIONS; ) {
    const store = stores[below(2)] as RedisBackend;
    const asked = Array.from({ length: 1 + below(20) }, anyRequest).map(async ({ operations, spend }) => {
      const got = receiptsOf(await store.run(operations, { spend, timeoutMs: TIMEOUT_MS, receipts: true }));
      if (spend !== 'each') return [{ operations, got, spend }];
      return operations.map((one, at): Unit => ({ operations: [one], got: got.slice(at, at + 1), spend }));
    });
    // what is sent together is counted in the order of its times, then of the requests
    const units = (await Promise.all(asked)).flat().sort((one, other) => timeOf(one) - timeOf(other));
    for (const unit of units) {
      const { operations, spend, got } = unit;
      clock.set(timeOf(unit));
      const expected = await memory.run(operations, { spend, timeoutMs: 1, receipts: true });
      expect({ seed, operations, got: got.map(exact) }).toEqual({
        seed,
        operations,
        got: receiptsOf(expected).map(exact),
      });
      const [one] = operations;
      if (one?.kind === 'spend') charged.set(one.key, [timeOf(unit), ...(charged.get(one.key) ?? []).slice(0, 4)]);
    }
    count += units.length;
    if (below(10) === 0) await delay(below(30));
  }
}, 600_000);

/** Forwards to Redis what an instance writes, and keeps it. */
async function recordWrites(): Promise<{ proxy: Server; port: number; written: Buffer[] }> {
  const written: Buffer[] = [];
  const proxy = createServer((client) => {
    const upstream = createConnection(server.port, '127.0.0.1');
    client
      .on('data', (bytes) => written.push(bytes as Buffer))
      .pipe(upstream)
      .pipe(client);
    for (const socket of [client, upstream]) socket.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const address = proxy.address();
  return { proxy, port: typeof address === 'object' && address ? address.port : 0, written };
}

/** A store of a user who may not run scripts. */
async function openWithoutScripts({ port }: Pick<Redis, 'port'>): Promise<RedisBackend> {
  await operator.acl('SETUSER', 'plain', 'on', '>s3cret', '+@all', '-eval', '-evalsha', '~*');
  const redis = connect({ ...ordinary, address: { ...addressOf({ port }), username: 'plain', password: 's3cret' } });
  const probe = { keys, onProblem: () => {}, onUsable: () => {}, onLimited: () => {} };
  const store = new RedisBackend(redis, Date.now, { slowMs: 60_000, probe });
  opened.push(store);
  await eventually(() => store.health().ready);
  expect(store.limitation()).toContain('NOPERM');
  return store;
}

test.each([
  ['with scripts', openStore],
  ['without scripts', openWithoutScripts],
])(
  'no counter is without an expiry if an instance dies after any byte that it has written, %s',
  async (_, openAt) => {
    const { proxy, port, written } = await recordWrites();
    const store = await openAt({ port });
    written.length = 0;
    const limits = [
      fixedWindowOf(5, HOUR),
      fixedWindowOf(5, unitMs.YEAR),
      fixedWindowOf(5, HOUR, { alignment: 'first_hit' }),
    ];
    for (let round = 0; round < 2; round++) {
      const hits = limits.flatMap((limit) => ['a', 'b', String(round)].map((name) => spend(limit, name, 2)));
      await run(store, ...hits);
      await run(store, { ...(hits[0] as Operation), kind: 'give_back' }, ...hits.slice(3));
    }
    const bytes = Buffer.concat(written);
    proxy.close();
    for (let length = 1; length <= bytes.length; length++) {
      await operator.flushall();
      await writeAndDie(bytes.subarray(0, length));
      const names = await operator.keys('*');
      const left = await Promise.all(names.map((name) => operator.pttl(name)));
      expect({ length, left: left.filter((ms) => ms === NO_EXPIRY) }).toEqual({ length, left: [] });
    }
  },
  300_000,
);

/** Writes to Redis as an instance that ends then. */
async function writeAndDie(bytes: Buffer): Promise<void> {
  const socket = createConnection(server.port, '127.0.0.1');
  await new Promise<void>((resolve, reject) => {
    socket.on('error', reject).on('close', () => resolve());
    socket.resume().end(bytes);
  });
}
