import '../../helpers/realm.ts';
import { mkdir, rm } from 'node:fs/promises';
import type { Redis as Client } from 'ioredis';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import { openCounters, takeHit } from '../../helpers/counters.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { freePort } from '../../helpers/process.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startRedisPretender } from '../../helpers/redis-pretender.ts';
import { clientOf, startCluster, startWatched } from '../../helpers/redis-topologies.ts';
import { startTcpProxy } from '../../helpers/tcp-proxy.ts';
import { eventually } from '../../helpers/until.ts';

/** Closed after all tests, which run at the same time, since they mostly wait. */
const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

async function startServer(...args: readonly string[]) {
  const server = await startRedis({ args });
  closing.push(() => server.stop());
  const operator = clientOf(server);
  closing.push(() => operator.disconnect());
  return { server, operator };
}

async function open(env: Readonly<Record<string, string>>) {
  const counters = await openCounters(env);
  closing.push(counters.close);
  return counters;
}

describe.each<[string, (operator: Client) => Promise<unknown>, readonly string[], string]>([
  ['does not exist', async () => {}, ['--databases', '4'], 'ERR DB index is out of range'],
  ['may not be selected', (operator) => operator.acl('SETUSER', 'default', '-select'), [], "run the 'select' command"],
  [
    'cannot be selected, since SELECT is renamed,',
    async () => {},
    ['--rename-command', 'SELECT', 'HIDDEN'],
    'ERR unknown command',
  ],
])('a database that %s', (_, forbid, args, reason) => {
  test.concurrent('is not replaced by another one', async () => {
    const { server, operator } = await startServer(...args);
    await forbid(operator);
    const counters = await open({ REDIS_URL: `redis://${server.url}/7` });
    await eventually(() => counters.problem().includes(reason), counters.problem);
    expect(await takeHit(counters)).toMatchObject({ code: 'UNAVAILABLE', reason: expect.stringContaining(reason) });
    expect(counters.state()).toMatchObject({ isUp: false, reason: expect.stringContaining(reason) });
    expect(counters.lines()).toEqual([expect.stringMatching(/^no connection to .*; retrying$/)]);
    expect(counters.lines()[0]).toContain(reason);
    expect(await operator.dbsize()).toBe(0);
  });
});

test.concurrent('a database is used once it may be selected again', async () => {
  const { server, operator } = await startServer();
  await operator.acl('SETUSER', 'default', '-select');
  const counters = await open({ REDIS_URL: `redis://${server.url}/7` });
  await eventually(() => counters.problem().includes('select'), counters.problem);
  await operator.acl('SETUSER', 'default', '+select');
  await eventually(() => counters.problem() === '', counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
  expect(await operator.dbsize()).toBe(0);
  await operator.select(7);
  expect(await operator.keys('*')).toContain('counter'); // beside the number of instances, once that is counted
});

test.concurrent('a node of a Cluster, used as a single server, is unusable, and the log says what to set', async () => {
  const cluster = await startCluster();
  closing.push(cluster.stop);
  const counters = await open({ REDIS_URL: `127.0.0.1:${cluster.nodes[0]?.port}` });
  await eventually(() => counters.problem().includes('REDIS_TYPE must be CLUSTER'), counters.problem);
  expect(counters.state().isUp).toBe(false);
  expect(counters.lines()).toEqual([expect.stringContaining('REDIS_TYPE must be CLUSTER')]);
});

test.concurrent('a sentinel, used as a single server, is unusable, and the log says what to set', async () => {
  const watched = await startWatched();
  closing.push(watched.stop);
  const counters = await open({ REDIS_URL: `127.0.0.1:${watched.sentinelPort}` });
  await eventually(() => counters.problem().includes('REDIS_TYPE must be SENTINEL'), counters.problem);
  expect(counters.state().isUp).toBe(false);
  expect(counters.lines()).toEqual([expect.stringContaining('REDIS_TYPE must be SENTINEL')]);
});

test.concurrent('fixed windows are counted in a Cluster with one node that is used as a single server', async () => {
  const cluster = await startCluster({ masters: 1 });
  closing.push(cluster.stop);
  const counters = await open({ REDIS_URL: `127.0.0.1:${cluster.nodes[0]?.port}` });
  await eventually(() => counters.problem() === '', counters.problem);
  for (let hit = 0; hit < 2; hit++) expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
  await eventually(() => counters.state().isUp);
  expect(counters.lines()).toEqual([
    expect.stringMatching(/counts fixed windows only: CROSSSLOT: .*, unless REDIS_TYPE is CLUSTER$/),
  ]);
});

test.concurrent('a sentinel that does not know the master is not called unreachable', async () => {
  const watched = await startWatched();
  closing.push(watched.stop);
  const counters = await open({ REDIS_TYPE: 'SENTINEL', REDIS_URL: `another,127.0.0.1:${watched.sentinelPort}` });
  const problem = 'no sentinel names the master: ERR No such master with that name';
  await eventually(() => counters.problem() === problem, counters.problem);
  expect(counters.lines()).toEqual([expect.stringContaining(problem)]);
});

test.concurrent('calls with commands that a server does not know are logged once a minute, without keys', async () => {
  const { server } = await startServer(...['SET', 'EVALSHA', 'GET'].flatMap((name) => ['--rename-command', name, '']));
  const counters = await open({ REDIS_URL: server.url });
  await eventually(() => counters.problem().startsWith("ERR unknown command 'SET'"), counters.problem);
  const reply = await takeHit(counters);
  expect(reply).toEqual({ code: 'UNAVAILABLE', reason: expect.stringMatching(/^redis: ERR unknown command '\w+'$/) });
  const limit = fixedWindowOf(20, unitMs.DAY);
  const debit = createDebit({ key: 'counter' as CounterKey }, { limit, policy: {} }, 1, true);
  const fork = await counters.ledger.fork([debit], 5_000);
  expect(fork.findFailure(debit)).toBe("redis: ERR unknown command 'GET'");
  const lines = counters.lines().filter((line) => line.includes('unknown command'));
  expect(lines).toHaveLength(2);
  for (const line of lines) expect(line).toMatch(/ERR unknown command '(SET|EVALSHA)'; not logged again for a minute$/);
});

test.concurrent('of two servers, health names the one that cannot count', async () => {
  const { server: main } = await startServer();
  const { server, operator } = await startServer();
  await operator.config('SET', 'maxmemory', '1');
  const ofSeconds = { REDIS_PERSECOND: 'true', REDIS_PERSECOND_URL: server.url };
  const counters = await open({ REDIS_URL: main.url, ...ofSeconds });
  const problem = `redis://${server.url}/0: OOM command not allowed`;
  await eventually(() => counters.problem().startsWith(problem), counters.problem);
  await eventually(() => counters.state().reason?.startsWith(problem) === true, counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
});

test.concurrent('a server that has no room for a connection is not logged as connected, and health has its reason', async () => {
  const { server, operator } = await startServer('--maxclients', '2');
  await operator.ping();
  const other = clientOf(server);
  closing.push(() => other.disconnect());
  await other.ping();
  const counters = await open({ REDIS_URL: server.url, REDIS_STARTUP_INITIAL_INTERVAL: '50ms' });
  await eventually(() => counters.problem() === 'ERR max number of clients reached', counters.problem);
  expect(counters.lines().filter((line) => line.startsWith('connected to'))).toEqual([]);
  other.disconnect();
  await eventually(() => counters.problem() === '', counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
});

describe.each<[string, (operator: Client) => Promise<unknown>, (operator: Client) => Promise<unknown>]>([
  [
    'OOM',
    (operator) => operator.config('SET', 'maxmemory', '1'),
    (operator) => operator.config('SET', 'maxmemory', '0'),
  ],
  [
    'NOREPLICAS',
    (operator) => operator.config('SET', 'min-replicas-to-write', '1'),
    (operator) => operator.config('SET', 'min-replicas-to-write', '0'),
  ],
  ['MISCONF', failToSave, (operator) => operator.config('SET', 'save', '')], // else it would not end either
  [
    'READONLY',
    async (operator) => operator.replicaof('127.0.0.1', await freePort()),
    (operator) => operator.replicaof('NO', 'ONE'),
  ],
])('a Redis that refuses every count with %s', (code, refuse, accept) => {
  test.concurrent('is unusable from the start, and from the first refused call, until it counts again', async () => {
    const { server, operator } = await startServer();
    const counters = await open({ REDIS_URL: server.url });
    await eventually(() => counters.state().isUp, counters.problem);
    await refuse(operator);
    await eventually(async () => {
      await takeHit(counters);
      return counters.problem().startsWith(code);
    }, counters.problem);
    expect(counters.state()).toMatchObject({ isUp: false });
    expect(counters.lines().filter((line) => line.includes(`refuses calls: ${code}`))).toHaveLength(1);
    const late = await open({ REDIS_URL: server.url });
    await eventually(() => late.problem().startsWith(code), late.problem);
    await accept(operator);
    for (const one of [counters, late]) {
      await eventually(() => one.state().isUp, one.problem);
      expect(await takeHit(one)).toMatchObject({ code: 'OK' });
    }
    expect(counters.lines().filter((line) => line.includes('accepts calls again'))).toHaveLength(1);
    await eventually(async () => (await operator.keys('*probe*')).length === 0);
  });
});

test.concurrent('health has what a replica said also while it is connected to anew', async () => {
  const { server, operator } = await startServer();
  const counters = await open({ REDIS_URL: server.url });
  await eventually(() => counters.state().isUp, counters.problem);
  const connections = async () => Number(/total_connections_received:(\d+)/.exec(await operator.info('stats'))?.[1]);
  await operator.replicaof('127.0.0.1', await freePort());
  const reconnects = async (count: number, see = (): unknown => undefined) => {
    const first = await connections();
    await eventually(async () => {
      see();
      await takeHit(counters);
      return (await connections()) > first + count;
    });
  };
  await reconnects(2); // after which the probe has been refused as well
  const problems = new Set<string>();
  await reconnects(4, () => problems.add(counters.problem()).add(counters.state().reason ?? ''));
  for (const problem of problems) expect(problem).toMatch(/^(redis: )?READONLY /);
});

test.concurrent.each([40, 120])(
  'a server that takes %i ms for a reply, which is longer than callers wait, is logged once',
  async (tookMs) => {
    const { server } = await startServer();
    const proxy = await startTcpProxy(server.port, ({ client, server: onward }) => {
      client.pipe(onward);
      onward.on('data', (reply) => setTimeout(() => client.write(reply), tookMs));
    });
    closing.push(proxy.close);
    const counters = await open({ REDIS_URL: `127.0.0.1:${proxy.port}` });
    await eventually(() => counters.state().isUp, counters.problem);
    const lines = () => counters.lines().filter((line) => !line.startsWith('this process is')); // on a busy machine
    for (let hits = 0; hits < 10; hits++) await takeHit(counters);
    expect(lines()).toEqual([]);
    await eventually(async () => {
      await takeHit(counters, 15);
      return lines().length > 0;
    });
    for (let hits = 0; hits < 20; hits++) await takeHit(counters, 15);
    expect(lines()).toEqual([expect.stringMatching(/is slow: replies take longer than callers wait/)]);
  },
);

/** Replaces the server's folder by another one: the server cannot save into the removed one. */
async function failToSave(operator: Client): Promise<void> {
  const [, dir = ''] = (await operator.config('GET', 'dir')) as readonly string[]; // the reply is a name and its value
  await rm(dir, { recursive: true });
  await mkdir(dir);
  await operator.config('SET', 'save', '3600 1000000');
  await operator.bgsave();
  await eventually(async () => (await operator.info('persistence')).includes('rdb_last_bgsave_status:err'));
}

test.concurrent.each([
  ['an integer', ':7\r\n', 'packed reply, got'],
  ['nil', '$-1\r\n', 'packed reply, got'],
  ['a reply that is too short', '$3\r\nabc\r\n', 'the reply is shorter than the script’s'],
])(
  'a server that answers the script with %s is unusable, and one log line names the reason',
  async (_, answer, why) => {
    const { port, close } = await startRedisPretender(([name = '']) => (/^evalsha$/i.test(name) ? answer : undefined));
    closing.push(close);
    const counters = await open({ REDIS_URL: `127.0.0.1:${port}` });
    await eventually(() => counters.problem().includes(why), counters.problem);
    await eventually(
      () => counters.lines().length > 0,
      () => counters.lines().join('\n'),
    );
    for (let call = 0; call < 5; call++) expect(await takeHit(counters)).toMatchObject({ code: 'UNAVAILABLE' });
    expect(counters.lines().filter((line) => line.includes(why))).toHaveLength(1);
    expect(counters.state()).toMatchObject({ isUp: false, reason: expect.stringContaining(why) });
  },
);

test.concurrent('a server that breaks each connection with garbage is logged once', async () => {
  let calls = 0;
  const { port, close } = await startRedisPretender(([name = '']) => {
    if (!/^evalsha$/i.test(name)) return undefined;
    return `${String.fromCharCode(200 + calls++)}garbage\r\n`;
  });
  closing.push(close);
  const counters = await open({ REDIS_URL: `127.0.0.1:${port}` });
  await eventually(() => calls > 5);
  expect(counters.state().isUp).toBe(false);
  const lines = counters.lines();
  expect(lines.slice(3)).toEqual([]); // after the connection, the script, and the reconnection
  expect(lines[0]).toContain('no connection to');
});

async function serverWithout(commands: readonly string[], ...args: readonly string[]): Promise<Redis> {
  const renamed = commands.flatMap((name) => ['--rename-command', name, `HIDDEN-${name}`]);
  const server = await startRedis({ args: [...renamed, ...args] });
  closing.push(() => server.stop());
  return server;
}

/** The protocol version of the service's connection, as listed by Redis. */
async function protocolOf(operator: Client): Promise<string | undefined> {
  const list = String(await operator.call('CLIENT', 'LIST'));
  const own = list.split('\n').find((line) => line.includes(' name=weir '));
  return own?.match(/ resp=(\d)/)?.[1];
}

test.concurrent.each([
  [[]],
  [['SCRIPT']],
  [['CLIENT']],
  [['PUBLISH']],
  [['SUBSCRIBE']],
  [['CONFIG', 'COMMAND', 'SELECT', 'INFO']],
])('a Redis in which %j are renamed is used, even with a deny cache', async (commands) => {
  const server = await serverWithout(commands);
  const counters = await open({ REDIS_URL: server.url, LOCAL_CACHE_SIZE_IN_BYTES: '1000000' });
  await eventually(() => counters.problem() === '', counters.problem);
  for (const hitsBefore of [0, 1]) expect(await takeHit(counters)).toMatchObject({ code: 'OK', hitsBefore });
});

test.concurrent.each([
  [['EVALSHA'], /^ERR unknown command ['`]EVALSHA/i],
  [['EVAL'], /^ERR unknown command ['`]EVAL/i],
  [['MGET'], /^ERR Unknown Redis command called from (?:Lua )?script/],
  [['TIME'], /^ERR Unknown Redis command called from (?:Lua )?script/],
])(
  'a Redis in which %j are renamed counts fixed windows alone, for the reason that Redis gives',
  async (commands, reason) => {
    const server = await serverWithout(commands);
    const counters = await open({ REDIS_URL: server.url });
    await eventually(() => counters.problem() === '', counters.problem);
    for (const hitsBefore of [0, 1]) expect(await takeHit(counters)).toMatchObject({ code: 'OK', hitsBefore });
    const [line = ''] = counters.lines().filter((one) => one.includes('counts fixed windows only: '));
    expect(line.split('windows only: ')[1]).toMatch(reason);
  },
);

test.concurrent.each([
  ['RESP3', [], '3'],
  ['RESP2 where there is no HELLO', ['HELLO'], '2'],
])('%s is used, and the password is sent', async (_, renamed, version) => {
  const server = await serverWithout(renamed);
  const operator = clientOf(server);
  closing.push(() => operator.disconnect());
  await operator.config('SET', 'requirepass', 's3cret');
  const counters = await open({ REDIS_URL: server.url, REDIS_AUTH: 's3cret' });
  await eventually(() => counters.problem() === '', counters.problem);
  for (const hitsBefore of [0, 1]) expect(await takeHit(counters)).toMatchObject({ code: 'OK', hitsBefore });
  expect(await protocolOf(operator)).toBe(version);
});

test.concurrent('a Redis that evicts counters (`allkeys-lru`) answers every call, and an evicted counter starts again', async () => {
  const server = await serverWithout([], '--maxmemory-policy', 'allkeys-lru');
  const operator = clientOf(server);
  closing.push(() => operator.disconnect());
  const { ledger, problem } = await open({ REDIS_URL: server.url });
  await eventually(() => problem() === '', problem);
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

test.concurrent('a server that does not answer a handshake is sent another one: it may be frozen, and is no proxy', async () => {
  const names: string[] = [];
  const { port, close } = await startRedisPretender(([name = '']) => {
    names.push(name.toLowerCase());
    return ''; // nothing
  });
  closing.push(close);
  await open({ REDIS_URL: `127.0.0.1:${port}` });
  await eventually(() => names.filter((name) => name === 'hello').length >= 4);
  expect(names.filter((name) => name !== 'hello' && name !== 'client')).toEqual([]);
});
