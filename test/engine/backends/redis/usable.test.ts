import '../../../helpers/realm.ts';
import { mkdir, rm } from 'node:fs/promises';
import type { Redis as Client } from 'ioredis';
import { openCounters, takeHit } from '../../../helpers/counters.ts';
import { freePort } from '../../../helpers/process.ts';
import { startRedis } from '../../../helpers/redis.ts';
import { startRedisPretender } from '../../../helpers/redis-pretender.ts';
import { clientOf } from '../../../helpers/redis-topologies.ts';
import { eventually } from '../../../helpers/until.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
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
  test('is not replaced by another one', async () => {
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

test('a database is used once it may be selected again', async () => {
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
  test('is unusable from the start, and from the first refused call, until it counts again', async () => {
    const { server, operator } = await startServer();
    await refuse(operator);
    const counters = await open({ REDIS_URL: server.url });
    await eventually(() => counters.problem().startsWith(code), counters.problem);
    await accept(operator);
    await eventually(() => counters.state().isUp, counters.problem);
    const before = counters.lines().length;
    await refuse(operator);
    await eventually(async () => {
      await takeHit(counters);
      return counters.problem().startsWith(code);
    }, counters.problem);
    expect(counters.state()).toMatchObject({ isUp: false });
    await accept(operator);
    await eventually(() => counters.state().isUp, counters.problem);
    expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
    const lines = counters.lines().slice(before);
    expect(lines.filter((line) => line.includes('accepts calls again'))).toHaveLength(1);
    await eventually(async () => (await operator.keys('*probe*')).length === 0);
  });
});

/** Replaces the server's folder by another one: the server cannot save into the removed one. */
async function failToSave(operator: Client): Promise<void> {
  const [, dir = ''] = (await operator.config('GET', 'dir')) as readonly string[]; // the reply is a name and its value
  await rm(dir, { recursive: true });
  await mkdir(dir);
  await operator.config('SET', 'save', '3600 1000000');
  await operator.bgsave();
  await eventually(async () => (await operator.info('persistence')).includes('rdb_last_bgsave_status:err'));
}

test.each([
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

test('a server that breaks each connection with garbage is logged once', async () => {
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
  expect(lines.length).toBeLessThanOrEqual(3); // the connection, the script, and the reconnection
  expect(lines[0]).toContain('no connection to');
});
