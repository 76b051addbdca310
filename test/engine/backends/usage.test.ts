import { randomUUID } from 'node:crypto';
import slotOf from 'cluster-key-slot';
import type { Cluster } from 'ioredis';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Operation } from '../../../src/engine/backends/backend.ts';
import { type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import {
  ABANDONED_MS,
  MAX_USAGE_ENTRIES,
  MemoryUsage,
  type UsagePage,
  type UsageSource,
} from '../../../src/engine/backends/usage.ts';
import { type Limit, limitsInFlight } from '../../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { redisRecords } from '../../../src/parts/redis/records.ts';
import { RedisUsage, usageKeys } from '../../../src/parts/redis/usage.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady, ordinary } from '../../helpers/connection.ts';
import { fixedWindowOf, limitsOfEach, reservationOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startCluster } from '../../helpers/redis-topologies.ts';
import { childOf, fairShareOf, spendOf as spendOfLeaf } from '../../helpers/shares.ts';
import { eventually } from '../../helpers/until.ts';

const START_MS = 1_700_000_000_000;
const HOUR = Math.floor(START_MS / unitMs.HOUR);
const YEAR_MS = 365 * unitMs.DAY;
const how = { spend: 'each', timeoutMs: 10_000 } as const;

let server: Redis;
let redis: Awaited<ReturnType<typeof openReady>>;
const opened: RedisBackend[] = [];
const closing: (() => unknown)[] = [];
beforeAll(async () => {
  server = await startRedis();
  redis = await openReady(server);
  redis.setMaxListeners(100); // of the backends
});
afterAll(async () => {
  for (const backend of opened) await backend.close();
  for (const close of closing) await close();
  await server.stop();
});

/** A backend in Redis that counts usage under the prefix. */
function openRedis(prefix: string, clock: () => number, replay: boolean): RedisBackend {
  const backend = new RedisBackend(redis, clock, {
    replay,
    slowMs: 60_000,
    prefix,
    usage: new RedisUsage(redis, prefix),
  });
  opened.push(backend);
  return backend;
}

/** Takes all usage of a source, as texts in order. */
async function drain(source: UsageSource): Promise<readonly string[]> {
  const entries: string[] = [];
  for (const { id } of (await source.setAside('test')).batches) {
    entries.push(...(await readAll(source, id)));
    await source.drop(id);
  }
  return entries;
}

/** All pages of a batch, as texts in order. */
async function readAll(source: UsageSource, id: string): Promise<readonly string[]> {
  const [whole, sums] = [new Map<string, number>(), new Map<string, number>()];
  const add = (name: string, hits: number): void => void sums.set(name, (sums.get(name) ?? 0) + hits);
  let after: string | undefined;
  do {
    const page: UsagePage | undefined = await source.read(id, after);
    for (const { hour, key, hits } of page?.entries ?? []) whole.set(`${hour} ${key}`, hits);
    for (const { hour, key, hits } of page?.added ?? []) add(`${hour} ${key}`, hits);
    after = page?.next;
  } while (after !== undefined);
  for (const [name, hits] of whole) add(name, hits);
  return Array.from(sums, ([name, hits]) => `${name} ${hits}`).sort();
}

const anyRequest = fc.record({
  waitMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: unitMs.HOUR })),
  spend: fc.constantFrom('each', 'each', 'all_or_nothing', 'spare_others'),
  operations: fc.array(
    fc.record({
      counter: fc.constantFrom('a', 'a', 'b'),
      kind: fc.constantFrom('spend', 'spend', 'spend', 'peek', 'give_back', 'charge', 'refund'),
      hits: fc.integer({ min: 1, max: 9 }),
      holder: fc.integer({ min: 1, max: 3 }),
      commits: fc.boolean(),
      isMetered: fc.constantFrom(true, true, false),
    } as const),
    { minLength: 1, maxLength: 4 },
  ),
} as const);

const isMetered = (limit: Limit): boolean => !limitsInFlight(limit);

type AnyRequest = typeof anyRequest extends fc.Arbitrary<infer T> ? T : never;

function operationsOf({ operations, spend }: AnyRequest, limit: Limit, prefix: string): readonly Operation[] {
  return operations.map(({ counter, kind, hits, holder, commits, isMetered }): Operation => {
    const key = createCounterKeys(prefix)(limit, 'd', [{ key: 'c', value: counter }]);
    const claim = limit.algorithm === 'reservation' ? { holder, commits } : {};
    const common = { key, limit, hits, blocks: true, ...claim, ...(isMetered && { metered: true as const }) };
    // sets have no operations but these
    if (spend !== 'each' && kind !== 'peek' && kind !== 'give_back') return { ...common, kind: 'spend' };
    return kind === 'refund' ? { ...common, kind, chargedAtMs: START_MS } : { ...common, kind };
  });
}

test('values of another program change no answer, and cost no usage but their own', async () => {
  const prefix = `${randomUUID()}:`;
  const backend = openRedis(prefix, fakeClock(START_MS), true);
  const limit = fixedWindowOf(20, YEAR_MS);
  const key = createCounterKeys(prefix)(limit, 'd', [{ key: 'c', value: 'a' }]);
  const spend = () => backend.run([{ key, limit, kind: 'spend', hits: 1, blocks: true, metered: true }], how);
  const usage = new RedisUsage(redis, prefix);
  const [hash, log] = usageKeys(prefix);
  await redis.set(hash, 'x');
  expect((await spend())[0]).toMatchObject({ code: 'OK' });
  await expect(usage.setAside('test')).rejects.toThrow(`${hash} is a string, not a hash: delete it`);
  await redis.del(hash);
  await redis.set(log, 'x');
  expect((await spend())[0]).toMatchObject({ code: 'OK' });
  await redis.del(log);
  await spend();
  await redis.hset(hash, { junk: '1', '7|': 'x', [`x|${key}`]: '1' });
  await redis.rpush(log, 'junk', Buffer.alloc(40, 255));
  const [batch] = (await usage.setAside('test')).batches;
  expect(await readAll(usage, batch?.id ?? '')).toEqual([`${HOUR} ${key} 2`]);
  const pages = [await usage.read(batch?.id ?? '', undefined), await usage.read(batch?.id ?? '', 'h0')];
  expect(pages.flatMap((page) => page?.foreign ?? []).sort()).toEqual([
    `field "7|" of ${hash}|aside`,
    `field "junk" of ${hash}|aside`,
    `field "x|${key}" of ${hash}|aside`,
    `item 1 of ${log}|aside`,
    `item 2 of ${log}|aside`,
  ]);
});

test.each([...limitsOfEach(20, unitMs.HOUR), reservationOf(fixedWindowOf(20, unitMs.HOUR))])(
  'Redis and memory count the same usage, by $algorithm',
  async (limit) => {
    const clock = fakeClock(START_MS);
    const prefix = `${randomUUID()}:`;
    const stored = openRedis(prefix, clock, true);
    const usage = new RedisUsage(redis, prefix);
    await fc.assert(
      fc.asyncProperty(fc.array(anyRequest, { minLength: 1, maxLength: 12 }), async (requests) => {
        clock.set(START_MS);
        const run = randomUUID(); // names its counters
        const inMemory = new MemoryUsage(clock, randomUUID);
        const memory = createMemoryBackend(clock, { maxCounters: 100 }, { usage: inMemory });
        for (const request of requests) {
          clock.advance(request.waitMs);
          const operations = operationsOf(request, limit, `${prefix}${run}`);
          const asked = { spend: request.spend, timeoutMs: 10_000 };
          await memory.run(operations, asked);
          await stored.run(operations, asked);
        }
        const zero = / 0$/; // an entry may be kept when its hits have been given back
        const expected = (await drain(inMemory)).filter((entry) => !zero.test(entry));
        expect((await drain(usage)).filter((entry) => !zero.test(entry))).toEqual(expected);
      }),
      { numRuns: 15 },
    );
  },
);

test.each([...limitsOfEach(20, unitMs.HOUR), reservationOf(fixedWindowOf(20, unitMs.HOUR))].filter(isMetered))(
  'hits are given back in usage as far as the counter held them, by $algorithm',
  async (limit) => {
    const clock = fakeClock(START_MS);
    const prefix = `${randomUUID()}:`;
    const inMemory = new MemoryUsage(clock, randomUUID);
    const all = [
      [createMemoryBackend(clock, { maxCounters: 100 }, { usage: inMemory }), inMemory],
      [openRedis(prefix, clock, true), new RedisUsage(redis, prefix)],
    ] as const;
    const operationFor = (value: string, kind: 'charge' | 'give_back', hits: number): Operation => {
      const key = createCounterKeys(prefix)(limit, 'd', [{ key: 'c', value }]);
      return { key, limit, kind, hits, blocks: true, metered: true };
    };
    for (const [backend, usage] of all) {
      const run = (...operations: readonly Operation[]) => backend.run(operations, how);
      await run(operationFor('unused', 'give_back', 2_000));
      await run(operationFor('part', 'charge', 7), operationFor('part', 'give_back', 3));
      await run(operationFor('whole', 'charge', 7));
      for (const hits of [3, 2_000, 4]) await run(operationFor('whole', 'give_back', hits));
      const sums = (await drain(usage)).map((entry) => /c\|\d+:(\w+) (-?\d+)$/.exec(entry)?.slice(1).join(' '));
      expect(sums.filter((sum) => !sum?.endsWith(' 0'))).toEqual(['part 4']);
    }
  },
);

test.each([true, 'all'] as const)(
  'usage of a window is what it holds within its limit, metered: %s',
  async (metered) => {
    const limit = fixedWindowOf(10, YEAR_MS);
    const clock = fakeClock(START_MS);
    const prefix = `${randomUUID()}:`;
    const inMemory = new MemoryUsage(clock, randomUUID);
    const key = createCounterKeys(prefix)(limit, 'd', [{ key: 'c', value: 'a' }]);
    const first = metered === 'all' ? 'charge' : 'spend'; // as `charge: always` does
    for (const [backend, usage] of [
      [createMemoryBackend(clock, { maxCounters: 100 }, { usage: inMemory }), inMemory],
      [openRedis(prefix, clock, true), new RedisUsage(redis, prefix)],
    ] as const) {
      const run = (kind: typeof first | 'give_back', hits: number) =>
        backend.run([{ key, limit, kind, hits, blocks: true, metered }], how);
      await run(first, 10);
      await run(first, 21);
      for (const hits of [20, 3]) await run('give_back', hits);
      expect(sumOf(await drain(usage))).toBe(8);
    }
  },
);

test.each(['charge', 'free'] as const)(
  'what lapses with on_lapse: %s is in the usage until a late commit corrects it',
  async (onLapse) => {
    const limit = reservationOf(fixedWindowOf(1_000, YEAR_MS), { ttlMs: 1_000, onLapse });
    const clock = fakeClock(START_MS);
    const prefix = `${randomUUID()}:`;
    const usage = new MemoryUsage(clock, randomUUID);
    const places = [
      [createMemoryBackend(clock, { maxCounters: 100 }, { usage }), usage],
      [openRedis(prefix, clock, true), new RedisUsage(redis, prefix)],
    ] as const;
    const key = createCounterKeys(prefix)(limit, 'd', [{ key: 'c', value: 'a' }]);
    const common = { key, limit, blocks: false, metered: true as const, holder: 7 };
    for (const [backend, counted] of places) {
      clock.set(START_MS);
      const used = async (operation: Pick<Operation, 'hits' | 'commits'> & { readonly kind: 'spend' | 'charge' }) => {
        await backend.run([{ ...common, ...operation }], how);
        return sumOf(await drain(counted));
      };
      expect(await used({ kind: 'spend', hits: 60 })).toBe(0);
      clock.advance(1_000);
      expect(await used({ kind: 'charge', hits: 0 })).toBe(onLapse === 'charge' ? 60 : 0);
      expect(await used({ kind: 'spend', commits: true, hits: 22 })).toBe(onLapse === 'charge' ? -38 : 22);
      expect(await used({ kind: 'spend', commits: true, hits: 22 })).toBe(0);
    }
  },
);

test('a late commit of a reservation is usage exactly, and what is given back after its window is none', async () => {
  const clock = fakeClock(START_MS - (START_MS % unitMs.DAY));
  const inner = fixedWindowOf(100, unitMs.MINUTE);
  const limit = reservationOf(inner, { ttlMs: 1_000 });
  const inMemory = new MemoryUsage(clock, randomUUID);
  const prefix = `${randomUUID()}:`;
  const key = createCounterKeys(prefix)(limit, 'd', [{ key: 'c', value: 'a' }]);
  const common = { key, limit, blocks: true, holder: 1, metered: true } as const;
  for (const [backend, usage] of [
    [createMemoryBackend(clock, { maxCounters: 100 }, { usage: inMemory }), inMemory],
    [openRedis(prefix, clock, true), new RedisUsage(redis, prefix)],
  ] as const) {
    await backend.run([{ ...common, kind: 'spend', hits: 50 }], how);
    clock.advance(1_500);
    await backend.run([{ ...common, kind: 'charge', hits: 20, commits: true }], how); // late
    expect(sumOf(await drain(usage))).toBe(20);
    clock.advance(unitMs.MINUTE);
    await backend.run([{ ...common, holder: 2, kind: 'spend', hits: 5 }], how); // on hold
    await backend.run([{ ...common, kind: 'give_back', hits: 20 }], how);
    expect(sumOf(await drain(usage))).toBe(0);
    clock.advance(unitMs.DAY);
  }
});

/** A store with its usage. */
const stores = {
  memory() {
    const usage = new MemoryUsage(() => START_MS, randomUUID);
    const backend = createMemoryBackend(() => START_MS, { maxCounters: 1_000 }, { usage });
    return { backend, usage, prefix: '' };
  },
  Redis() {
    const prefix = `${randomUUID()}:`;
    const backend = openRedis(prefix, Date.now, false);
    return { backend, usage: new RedisUsage(redis, prefix), prefix };
  },
};

const lasting = fixedWindowOf(100, YEAR_MS);
const spendOf = (prefix: string, user: string, hits = 1): Operation => ({
  ...operationOf({ key: createCounterKeys(prefix)(lasting, 'd', [{ key: 'user', value: user }]) }, lasting, hits, true),
  metered: true,
});
const sumOf = (entries: readonly string[]): number =>
  entries.reduce((sum, entry) => sum + Number(entry.slice(entry.lastIndexOf(' ') + 1)), 0);

describe.each(Object.entries(stores))('usage in %s', (_, open) => {
  test('counts what is admitted, alone and in one call with others, and nothing that is refused', async () => {
    const { backend, usage, prefix } = open();
    await backend.run([spendOf(prefix, 'alice', 99)], how);
    await backend.run([spendOf(prefix, 'alice', 2)], how); // refused
    await Promise.all(Array.from({ length: 50 }, () => backend.run([spendOf(prefix, 'bob')], how)));
    const { metered: _, ...unmetered } = spendOf(prefix, 'carol');
    await backend.run([unmetered], how);
    const entries = await drain(usage);
    expect(entries.map((entry) => /user\|\d+:(\w+) (\d+)$/.exec(entry)?.slice(1))).toEqual([
      ['bob', '50'],
      ['alice', '99'],
    ]);
    expect(await drain(usage)).toEqual([]);
  });

  test('keeps a batch until it is dropped by its id, and counts on meanwhile', async () => {
    const { backend, usage, prefix } = open();
    expect((await usage.setAside('one')).batches).toEqual([]);
    await backend.run([spendOf(prefix, 'alice', 5)], how);
    const [batch] = (await usage.setAside('one')).batches;
    await backend.run([spendOf(prefix, 'alice', 3)], how);
    expect((await usage.setAside('one')).batches.map(({ id }) => id)).toEqual([batch?.id]);
    await usage.drop(randomUUID());
    expect(await usage.read(randomUUID(), undefined)).toBeUndefined();
    expect(sumOf(await readAll(usage, batch?.id ?? ''))).toBe(5);
    await usage.drop(batch?.id ?? '');
    await usage.drop(batch?.id ?? '');
    expect(sumOf(await drain(usage))).toBe(3);
  });
});

test('a settlement is counted once, however often it is sent', async () => {
  const { backend, usage, prefix } = stores.Redis();
  const operations = [{ ...spendOf(prefix, 'alice', 7), kind: 'charge' as const }];
  for (const number of [1, 1, 2, 1]) await backend.settle({ instance: 'a', number, operations }, 10_000);
  expect(sumOf(await drain(usage))).toBe(14);
});

test('another collector takes a batch over only when it was abandoned', async () => {
  const { backend, usage, prefix } = stores.Redis();
  await backend.run([spendOf(prefix, 'alice', 5)], how);
  const [batch] = (await usage.setAside('one')).batches;
  expect((await usage.setAside('other')).batches).toEqual([]);
  const since = await redis.hget(`${usageKeys(prefix)[0]}|aside`, '#since');
  await redis.hset(`${usageKeys(prefix)[0]}|aside`, '#since', Number(since) - ABANDONED_MS);
  expect((await usage.setAside('other')).batches.map(({ id }) => id)).toEqual([batch?.id]);
});

test('hits of counters beyond the maximum are summed up', async () => {
  const prefix = `${randomUUID()}:`;
  const [key] = usageKeys(prefix);
  const operator = await openReady(server);
  const fill = "for i = ARGV[1], ARGV[1] + 999 do redis.call('HSET', KEYS[1], i .. '|x', 0) end";
  for (let from = 0; from < MAX_USAGE_ENTRIES; from += 1_000) await operator.eval(fill, 1, key, from);
  const connection = await openReady(server); // its backend would take it for dead while the long calls last
  const backend = new RedisBackend(connection, Date.now, {
    slowMs: 60_000,
    prefix,
    usage: new RedisUsage(connection, prefix),
  });
  opened.push(backend);
  await backend.run([spendOf(prefix, 'alice', 5)], how);
  await backend.run([spendOf(prefix, 'bob', 6)], how);
  await operator.hset(key, '#log', 2 ** 30); // a full log
  await backend.run([spendOf(prefix, 'bob', 3), spendOf(prefix, 'carol', 4)], how);
  await backend.close();
  const [, found] = await operator.hscan(key, 0, 'MATCH', '*|', 'COUNT', 2 * MAX_USAGE_ENTRIES);
  expect(found).toEqual([expect.anything(), '18']);
  expect(await operator.hlen(key)).toBe(MAX_USAGE_ENTRIES + 2);
  await operator.del(key);
  operator.disconnect();

  const inMemory = new MemoryUsage(() => START_MS, randomUUID);
  for (let at = 0; at < MAX_USAGE_ENTRIES + 3; at++) inMemory.add({ key: String(at) as CounterKey }, 2, START_MS);
  const [batch] = (await inMemory.setAside()).batches;
  const last = await inMemory.read(batch?.id ?? '', String(MAX_USAGE_ENTRIES));
  expect(last?.entries).toEqual([{ hour: HOUR, key: '', hits: 6 }]);
});

test('on a Cluster, hits of children are booked under names that belong to other slots', async () => {
  const cluster = await startCluster();
  closing.push(() => cluster.stop());
  const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  const connection = connect({ ...ordinary, address: { kind: 'cluster', nodes } }) as Cluster; // by its address
  closing.unshift(() => connection.disconnect());
  await eventually(() => connection.status === 'ready');
  const usage = new RedisUsage(connection, '');
  const backend = new RedisBackend(connection, Date.now, { usage });
  opened.push(backend);
  const spendBy = (team: string, child: number, how: { readonly kind?: 'charge' }): Operation => {
    const leaf = { children: [child], path: [childOf()], demand: 0 };
    const usageKey = `shared|${team}` as CounterKey; // any text will do
    return { ...spendOfLeaf('shared' as CounterKey, fairShareOf(100), leaf), metered: true, usageKey, ...how };
  };
  const peek = { ...spendBy('a', 1, {}), kind: 'peek', metered: undefined } as const;
  await eventually(async () => (await backend.run([peek], how))[0]?.code === 'OK'); // all nodes are connected
  const spends = [spendBy('a', 1, {}), spendBy('b', 2, {}), spendBy('a', 1, { kind: 'charge' })];
  expect(await backend.run([...spends, ...spends], how)).toMatchObject(
    spends.concat(spends).map(() => ({ code: 'OK' })),
  );
  expect(await drain(usage)).toEqual([
    expect.stringMatching(/^\d+ shared\|a 4$/),
    expect.stringMatching(/^\d+ shared\|b 2$/),
  ]);
});

test('on a Cluster, usage of each domain is collected once, also if a master dies that has some', async () => {
  const cluster = await startCluster({ withReplicas: true });
  closing.push(() => cluster.stop());
  const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  const open = async (): Promise<Cluster> => {
    const connection = connect({ ...ordinary, address: { kind: 'cluster', nodes } }) as Cluster; // by its address
    connection.on('error', () => {});
    closing.unshift(() => connection.disconnect());
    await eventually(() => connection.status === 'ready');
    return connection;
  };
  const [counting, collecting] = [await open(), await open()];
  const backend = new RedisBackend(counting, Date.now, { prefix: 'w:', usage: new RedisUsage(counting, 'w:') });
  opened.push(backend);
  const keys = createCounterKeys('w:', { hashTag: 'domain' });
  const counterOf = (domain: string, user: string) => keys(lasting, domain, [{ key: 'user', value: user }]);
  const isAt = (domain: string, node: number): boolean =>
    Math.floor((cluster.nodes.length * slotOf(counterOf(domain, ''))) / 16_384) === node;
  const [lost, kept] = [0, 2].map((node) => Array.from('abcdefgh').find((domain) => isAt(domain, node)) ?? '');
  if (!lost || !kept) throw new Error('expected a domain on the first node, and one on the last');
  const batches = new Map<string, readonly string[]>(); // by id, as a collector keeps them
  const source = new RedisUsage(collecting, 'w:'); // knows what Redis knows
  const collect = async (): Promise<number> => {
    for (const { id } of (await source.setAside('test')).batches) {
      batches.set(id, await readAll(source, id));
      await source.drop(id);
    }
    return sumOf([...batches.values()].flat());
  };
  const spend = async (domain: string, users: readonly string[]) => {
    const operations = users.map(
      (user): Operation => ({
        ...operationOf({ key: counterOf(domain, user) }, lasting, 1, true),
        metered: true,
      }),
    );
    return backend.run(operations, how);
  };

  await spend(lost, ['alice']);
  await spend(lost, ['alice', 'bob']);
  await spend(kept, ['alice', 'carol']);
  await eventually(async () => (await collect()) === 5);
  await spend(lost, ['alice', 'bob']);
  await spend(kept, ['carol']);
  expect((await source.setAside('test')).batches).toHaveLength(2);
  await cluster.clients[0]?.set(`w:{${lost}}`, ''); // WAIT is about what its own connection wrote last
  expect(await cluster.clients[0]?.wait(1, 0)).toBe(1);
  await cluster.nodes[0]?.kill();
  let after: Awaited<ReturnType<typeof spend>> = [];
  await eventually(async () => {
    after = await spend(lost, ['alice']);
    return after[0]?.code === 'OK';
  });
  const [last] = after;
  const inCounter = last && 'hitsBefore' in last ? last.hitsBefore + 1 : 0;
  await eventually(async () => (await collect().catch(() => 0)) === 5 + inCounter); // no connection at first
  const sums = new Map<string, number>();
  for (const entry of [...batches.values()].flat()) {
    const [, key = '', hits] = entry.split(' ');
    sums.set(key, (sums.get(key) ?? 0) + Number(hits));
  }
  expect(Object.fromEntries(sums)).toEqual({
    [counterOf(lost, 'alice')]: inCounter,
    [counterOf(lost, 'bob')]: 2,
    [counterOf(kept, 'alice')]: 1,
    [counterOf(kept, 'carol')]: 2,
  });
  await spend(kept, ['carol']);
  const [batch] = (await source.setAside('test')).batches;
  const tags = [...(await redisRecords(counting, 'w:').all('usage|tags')).keys()];
  const [foreign] = usageKeys(`w:${tags.find((tag) => !batch?.id.startsWith(`${tag.slice(1, -1)}_`))}`);
  await counting.set(foreign, 'x');
  const aside = await source.setAside('test');
  expect(aside.batches).toHaveLength(1);
  expect(aside.problems).toEqual([expect.stringContaining(`${foreign} is a string, not a hash: delete it`)]);
});
