import '../../../helpers/realm.ts';
import type { Redis as Client } from 'ioredis';
import { unitMs } from '../../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../../src/engine/backends/key.ts';
import { createDebit, type Debit } from '../../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../../src/engine/ledger/ledger.ts';
import { openStore } from '../../../../src/engine/open/store.ts';
import { createLogger } from '../../../../src/operate/observe/log.ts';
import { loggedCounters } from '../../../../src/serve/decider/store.ts';
import type { Environment } from '../../../../src/settings/near-misses.ts';
import { readSettings } from '../../../../src/settings/settings.ts';
import { fixedWindowOf } from '../../../helpers/limits.ts';
import { type Redis, startRedis } from '../../../helpers/redis.ts';
import { clientOf } from '../../../helpers/redis-topologies.ts';
import { eventually } from '../../../helpers/until.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serverWithout(commands: readonly string[], ...args: readonly string[]): Promise<Redis> {
  const renamed = commands.flatMap((name) => ['--rename-command', name, `HIDDEN-${name}`]);
  const server = await startRedis({ args: [...renamed, ...args] });
  closing.push(() => server.stop());
  return server;
}

/** Opens the counters as the service does, ready or not. */
async function open(server: Redis, env: Environment = {}): Promise<Ledger> {
  const settings = await readSettings({ REDIS_URL: server.url, STORE_TIMEOUT: '2s', ...env });
  const { ledger } = await openStore(
    loggedCounters(settings.counters, {
      clock: Date.now,
      log: createLogger({ level: 'silent', format: 'json' }),
    }),
  );
  closing.push(() => ledger.close());
  return ledger;
}

const debit = (limit = fixedWindowOf(20, unitMs.DAY)): Debit =>
  createDebit({ key: 'counter' as CounterKey }, { limit, policy: {} }, 1, true); // any key will do
const count = async (ledger: Ledger) => (await ledger.debit([debit()], { spend: 'each', timeoutMs: 5_000 }))[0];
const isReady = (ledger: Ledger) => eventually(() => ledger.health().ready);

/** The protocol version of the service's connection, as listed by Redis. */
async function protocolOf(operator: Client): Promise<string | undefined> {
  const list = String(await operator.call('CLIENT', 'LIST'));
  const own = list.split('\n').find((line) => line.includes(' name=weir '));
  return own?.match(/ resp=(\d)/)?.[1];
}

test.each([
  [[]],
  [['SCRIPT']],
  [['CLIENT']],
  [['PUBLISH']],
  [['SUBSCRIBE']],
  [['CONFIG', 'COMMAND', 'SELECT', 'INFO']],
])('a Redis in which %j are renamed is used, even with a deny cache', async (commands) => {
  const ledger = await open(await serverWithout(commands), { LOCAL_CACHE_SIZE_IN_BYTES: '1000000' });
  await isReady(ledger);
  expect(await count(ledger)).toMatchObject({ code: 'OK', hitsBefore: 0 });
  expect(await count(ledger)).toMatchObject({ code: 'OK', hitsBefore: 1 });
});

test.each([
  [['EVALSHA'], /^ERR unknown command ['`]EVALSHA/i],
  [['EVAL'], /^ERR unknown command ['`]EVAL/i],
  [['MGET'], /^ERR Unknown Redis command called from (?:Lua )?script/],
  [['TIME'], /^ERR Unknown Redis command called from (?:Lua )?script/],
])('a Redis in which %j are renamed is not ready, for the reason that Redis gives', async (commands, reason) => {
  const ledger = await open(await serverWithout(commands));
  await eventually(
    () => reason.test(reasonOf(ledger)),
    () => reasonOf(ledger),
  );
  expect(await count(ledger)).toMatchObject({ code: 'UNAVAILABLE', reason: expect.stringContaining('redis: ERR ') });
});

function reasonOf(ledger: Ledger): string {
  const health = ledger.health();
  return health.ready ? 'ready' : health.reason.replace(/^redis: /, '');
}

test.each([
  ['RESP3', [], '3'],
  ['RESP2 where there is no HELLO', ['HELLO'], '2'],
])('%s is used, and the password is sent', async (_, renamed, version) => {
  const server = await serverWithout(renamed);
  const operator = clientOf(server);
  closing.push(() => operator.disconnect());
  await operator.config('SET', 'requirepass', 's3cret');
  const ledger = await open(server, { REDIS_AUTH: 's3cret' });
  await isReady(ledger);
  expect(await count(ledger)).toMatchObject({ code: 'OK', hitsBefore: 0 });
  expect(await count(ledger)).toMatchObject({ code: 'OK', hitsBefore: 1 });
  expect(await protocolOf(operator)).toBe(version);
});

test('a Redis that evicts counters (`allkeys-lru`) answers every call, and an evicted counter starts again', async () => {
  const server = await serverWithout([], '--maxmemory-policy', 'allkeys-lru');
  const operator = clientOf(server);
  closing.push(() => operator.disconnect());
  const ledger = await open(server);
  await isReady(ledger);
  const used = Number(/used_memory:(\d+)/.exec(await operator.info('memory'))?.[1]);
  await operator.config('SET', 'maxmemory', used + ROOM_BYTES);
  const limit = fixedWindowOf(20, unitMs.DAY);
  const debits = Array.from({ length: 10_000 }, (_, at) =>
    createDebit({ key: `counter-${at}` as CounterKey }, { limit, policy: {} }, 1, true),
  );
  const codes = new Set<string>();
  for (let from = 0; from < debits.length; from += 100) {
    const replies = await ledger.debit(debits.slice(from, from + 100), { spend: 'each', timeoutMs: 5_000 });
    for (const { code } of replies) codes.add(code);
  }
  expect([...codes]).toEqual(['OK']);
  const kept = await operator.mget(debits.map(({ key }) => key));
  const evicted = debits.filter((_, at) => kept[at] === null);
  expect(evicted.length).toBeGreaterThan(1_000);
  const [reply] = await ledger.debit(evicted.slice(0, 1), { spend: 'each', timeoutMs: 5_000 });
  expect(reply).toMatchObject({ code: 'OK', hitsBefore: 0 });
});

/** Enough for a few thousand counters. */
const ROOM_BYTES = 500_000;
