import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Redis as Client } from 'ioredis';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Operation } from '../../../src/engine/backends/backend.ts';
import { type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect, type RedisConnection } from '../../../src/parts/redis/connect.ts';
import { redisRecords } from '../../../src/parts/redis/records.ts';
import { RedisUsage } from '../../../src/parts/redis/usage.ts';
import { addressOf, ordinary } from '../../helpers/connection.ts';
import {
  adaptiveOf,
  allocationOf,
  fixedWindowOf,
  inFlightOf,
  limitsOfEach,
  reservationOf,
  siteShareOf,
} from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { clientOf } from '../../helpers/redis-topologies.ts';
import { childOf, fairShareOf, spendOf } from '../../helpers/shares.ts';
import { eventually } from '../../helpers/until.ts';

/** The permissions that docs/counters.md lists: enough for each set of features, and each of them used. */

const PREFIX = 'weir:';
const TIMEOUT_MS = 10_000;
const page = readFileSync('docs/counters.md', 'utf8');

/** The permissions of the row of the page that begins so. */
function permissionsOf(features: string): readonly string[] {
  const row = page.split('\n').find((line) => line.startsWith(`| ${features}`)) ?? '';
  const [, permissions = ''] = /^\| [^|]* \| `(.*)` \|$/.exec(row) ?? [];
  return permissions.replaceAll('\\|', '|').split(' ');
}

let server: Redis;
let operator: Client;
const closing: (() => unknown)[] = [];
beforeEach(async () => {
  server = await startRedis();
  operator = clientOf(server);
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  operator.disconnect();
  await server.stop();
});

/** Connects as a user with these permissions. */
async function connectWith(permissions: readonly string[]): Promise<RedisConnection> {
  await operator.acl('SETUSER', 'weir', 'reset', 'on', '>s3cret', ...permissions);
  await operator.config('RESETSTAT');
  const address = { ...addressOf(server), username: 'weir', password: 's3cret' };
  const redis = connect({ ...ordinary, address });
  redis.on('error', () => {});
  closing.push(() => redis.disconnect());
  return redis;
}

const keys = createCounterKeys(PREFIX);

async function openStore(redis: RedisConnection, more: ConstructorParameters<typeof RedisBackend>[2] = {}) {
  const store = new RedisBackend(redis, Date.now, {
    ...{ prefix: PREFIX, slowMs: 60_000, ...more },
    probe: { keys, onProblem: () => {}, onUsable: () => {}, onLimited: () => {} },
  });
  closing.push(() => store.close());
  await eventually(() => store.health().ready);
  return store;
}

async function run(store: RedisBackend, spend: 'each' | 'all_or_nothing', ...operations: readonly Operation[]) {
  const replies = await store.run(operations, { spend, timeoutMs: TIMEOUT_MS });
  expect(replies.map((reply) => ('reason' in reply ? reply.reason : ''))).toEqual(operations.map(() => ''));
}

/** All that requests do with a counter. */
async function useAll(store: RedisBackend, hit: Operation): Promise<void> {
  await run(store, 'each', hit, { ...hit, kind: 'peek' }, { ...hit, kind: 'give_back' }, { ...hit, kind: 'charge' });
  await run(store, 'each', hit);
  const fork = await store.fork([hit], TIMEOUT_MS);
  expect(fork.findFailure(hit.key)).toBeUndefined();
  await run(store, 'each', { ...hit, kind: 'forget' });
}

async function useScripts(store: RedisBackend): Promise<void> {
  const limits = [
    ...limitsOfEach(20),
    ...[inFlightOf(5), allocationOf(5), adaptiveOf(5), reservationOf(fixedWindowOf(5, unitMs.HOUR)), siteShareOf(5)],
  ];
  const hits = limits.map((limit) => operationOf({ key: keys(limit, 'all', []) }, limit, 1, true));
  for (const hit of hits) {
    await useAll(store, hit);
    await run(store, 'each', { ...hit, kind: 'refund', chargedAtMs: Date.now() });
  }
  await run(store, 'all_or_nothing', ...hits.slice(0, 3));
  const settlement = { instance: randomUUID(), number: 1, operations: hits.slice(0, 1) };
  expect(await store.settle(settlement, TIMEOUT_MS)).toBe(true);
  const children = Array.from({ length: 20 }, (_, at) => ({ children: [at + 1], path: [childOf()], demand: 1 }));
  const shared = fairShareOf();
  await run(store, 'each', ...children.map((leaf) => spendOf(keys(shared, 'all', []), shared, leaf)));
  const window = { windowStartMs: Date.now(), ttlMs: unitMs.HOUR };
  const counter = { key: `${PREFIX}domain_key_1` as CounterKey, shared: window };
  await run(store, 'each', operationOf(counter, fixedWindowOf(5, unitMs.HOUR), 1, true));
}

/** The commands that were used since the user was made, except by the operator and as parts of handshakes. */
async function usedCommands(): Promise<readonly string[]> {
  const info = await operator.info('commandstats');
  const own = /^(acl|config|info|hello|client|auth|keys|script|command)/;
  return [...info.matchAll(/cmdstat_([a-z]+)\S*:calls=\d+,.*failed_calls=(\d+)/g)]
    .map(([, name = '']) => name)
    .filter((name) => !own.test(name));
}

/** Whether each permitted command was used; those that only rare states need are given. */
async function expectUsed(permissions: readonly string[], rare: readonly string[] = []): Promise<void> {
  const permitted = permissions.flatMap((one) => (one.startsWith('+') ? [one.slice(1)] : []));
  const used = await usedCommands();
  expect(permitted.filter((name) => !used.includes(name) && !rare.includes(name))).toEqual([]);
}

const scripts = permissionsOf('all limits');

test('fixed windows need what the page lists for them', async () => {
  const permissions = permissionsOf('fixed windows alone');
  const store = await openStore(await connectWith(permissions));
  for (const limit of [fixedWindowOf(5, unitMs.HOUR), fixedWindowOf(5, unitMs.HOUR, { alignment: 'first_hit' })])
    await useAll(store, operationOf({ key: keys(limit, 'all', []) }, limit, 2, true));
  await expectUsed(permissions);
});

test('all limits need what the page lists for them', async () => {
  const store = await openStore(await connectWith(scripts));
  expect(store.limitation()).toBeUndefined();
  await useScripts(store);
  await expectUsed(scripts, ['pexpireat', 'hdel']); // counters that Redis has lost, and children that were forgotten
});

test('overrides and other records need what the page lists for them', async () => {
  const permissions = permissionsOf('overrides');
  const redis = await connectWith(permissions);
  await eventually(() => redis.status === 'ready');
  const records = redisRecords(redis, PREFIX);
  await records.append('audit', 'text', 10);
  await records.latest('audit', 10);
  await records.put('overrides', 'field', 'text');
  await records.putOnce('overrides', 'field', 'text');
  await records.all('overrides');
  await records.remove('overrides', 'field');
  await records.nowMs();
  await expectUsed(permissions);
});

test('messages need what the page lists for them', async () => {
  const permissions = permissionsOf('messages');
  const store = await openStore(await connectWith([...scripts, ...permissions]));
  const messages = store.invalidations({ changed: () => {}, forgotten: () => {}, missed: () => {} });
  await eventually(() => messages.isLive());
  messages.publish('changed', 'any' as CounterKey);
  await expectUsed(permissions);
});

test('usage needs what the page lists for it', async () => {
  const permissions = permissionsOf('usage');
  const redis = await connectWith([...scripts, ...permissions]);
  const usage = new RedisUsage(redis, PREFIX);
  const store = await openStore(redis, { usage });
  const limit = fixedWindowOf(5, unitMs.HOUR);
  const hit = { ...operationOf({ key: keys(limit, 'used', []) }, limit, 1, true), metered: true as const };
  await run(store, 'each', hit);
  await run(store, 'each', hit, hit);
  const { batches, problems } = await usage.setAside('collector');
  expect([batches.length, problems]).toEqual([1, []]);
  const id = batches[0]?.id ?? '';
  for (let next: string | undefined = '0'; next !== undefined; ) next = (await usage.read(id, next))?.next;
  await usage.drop(id);
  await expectUsed(permissions, ['hdel', 'unlink']); // more counters than are kept
});

test('lists of counters need what the page lists for them', async () => {
  const permissions = permissionsOf('lists of counters');
  const store = await openStore(await connectWith([...scripts, ...permissions]));
  await store.list(undefined, 10);
  await expectUsed(permissions);
});
