import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { openCounters, takeHit } from '../../helpers/counters.ts';
import { freePort } from '../../helpers/process.ts';
import { startRedis } from '../../helpers/redis.ts';
import { startRedisPretender } from '../../helpers/redis-pretender.ts';
import { clientOf, startCluster } from '../../helpers/redis-topologies.ts';
import { eventually } from '../../helpers/until.ts';

/** Closed after all tests, which run at the same time, since they mostly wait. */
const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

/** A Cluster of one node, which announces no address, since no other node has told it its own. */
async function startNode({ args = [], slots = true }: { args?: readonly string[]; slots?: boolean } = {}) {
  const busPort = String(await freePort());
  const own = ['--cluster-enabled', 'yes', '--cluster-port', busPort, '--cluster-require-full-coverage', 'no'];
  const server = await startRedis({ args: [...own, ...args] });
  closing.push(() => server.stop());
  const operator = clientOf(server, undefined, { enableReadyCheck: false });
  closing.push(() => operator.disconnect());
  if (slots) await operator.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
  return { server, operator };
}

async function open(url: string, env: Readonly<Record<string, string>> = {}) {
  const counters = await openCounters({ REDIS_TYPE: 'CLUSTER', REDIS_URL: url, ...env });
  closing.push(counters.close);
  return counters;
}

test.concurrent('a Cluster of one node that announces no address is used', async () => {
  const { server, operator } = await startNode();
  const [[, , [host]]] = (await operator.call('CLUSTER', 'SLOTS')) as [[number, number, [string]]]; // by its documentation
  expect(host).toBe('');
  const counters = await open(server.url);
  await eventually(() => counters.state().isUp, counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
  expect(counters.lines()).toEqual([]);
});

test.concurrent.each<[string, readonly string[], readonly string[]]>([
  ['renamed', ['--rename-command', 'INFO', 'HIDDEN'], []],
  ['forbidden', [], ['-info']],
])(
  'a Cluster whose INFO is %s is watched for changes, and nothing but the log is written to stderr',
  async (_, args, forbidden) => {
    const { server, operator } = await startNode({ args });
    if (forbidden.length > 0) await operator.acl('SETUSER', 'default', ...forbidden);
    const writes = (['warn', 'error'] as const).map((level) => jest.spyOn(console, level).mockImplementation(() => {}));
    for (const write of writes) closing.push(() => write.mockRestore());
    const counters = await open(server.url, { LOCAL_CACHE_SIZE_IN_BYTES: '1000000' });
    await eventually(() => counters.state().isUp, counters.problem);
    expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
    const channels = async () => (await operator.pubsub('CHANNELS')) as readonly string[]; // by its documentation
    await eventually(async () => (await channels()).includes('weir|changes'));
    await operator.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually(async () => (await channels()).includes('weir|changes'));
    for (const write of writes) expect(write).not.toHaveBeenCalled();
  },
);

test.concurrent.each<[string, (url: string) => string, readonly string[], string]>([
  ['the password is wrong', (url) => `redis://:wrong@${url}`, ['>right'], 'WRONGPASS'],
  ['the user may not use CLUSTER', (url) => url, ['-cluster'], 'NOPERM'],
])('a Cluster is not used if %s, and health and log name the reason', async (_, urlOf, permissions, why) => {
  const { server, operator } = await startNode();
  await operator.acl('SETUSER', 'default', ...permissions);
  const counters = await open(urlOf(server.url));
  await eventually(() => counters.problem().includes('no node reports'), counters.problem);
  expect(counters.problem()).toContain(`no node reports its slots: ${why}`);
  expect(counters.lines()).toEqual([expect.stringContaining(why)]);
});

test.concurrent('a server outside a Cluster is not used, and health and log name the reason', async () => {
  const server = await startRedis();
  closing.push(() => server.stop());
  const counters = await open(server.url);
  await eventually(() => counters.problem().includes('cluster support disabled'), counters.problem);
  expect(counters.lines()).toEqual([expect.stringContaining('cluster support disabled')]);
});

test.concurrent('a Cluster that is not ready for seconds is logged once, and used once it is', async () => {
  const { server, operator } = await startNode({ slots: false });
  const counters = await open(server.url);
  await eventually(() => counters.problem().includes('is not ready after 5 s'), counters.problem);
  expect(counters.lines()).toEqual([expect.stringContaining('is not ready after 5 s')]);
  await operator.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
  await eventually(() => counters.state().isUp, counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
});

test.concurrent('a master of a Cluster that hangs is named by health and log, until it answers again', async () => {
  const cluster = await startCluster({ masters: 2 });
  closing.push(() => cluster.stop());
  const counters = await open(cluster.nodes[0]?.url ?? '');
  await eventually(() => counters.state().isUp, counters.problem);
  const [, hanging] = cluster.nodes;
  hanging?.pause();
  await eventually(() => counters.problem() !== '', counters.problem);
  for (let times = 0; times < 50; times++) {
    expect(counters.problem()).toBe(`no connection to ${hanging?.url}`);
    await sleep(10); // it is called, and its connections are replaced meanwhile
  }
  await eventually(() => counters.lines().length > 0, counters.problem);
  hanging?.resume();
  await eventually(() => counters.lines().length > 1, counters.problem);
  expect(counters.lines()).toEqual([
    `no connection to ${hanging?.url}: no reply within 1000 ms; retrying`,
    `connected to ${hanging?.url} again`,
  ]);
  await eventually(() => counters.problem() === '', counters.problem);
});

test.concurrent('refusals that differ by the slot are logged once', async () => {
  const port = await startPretender(() => `-MOVED ${slot++} :0\r\n`);
  let slot = 0;
  const counters = await open(`127.0.0.1:${port}`);
  await eventually(() => slot > 40, counters.problem);
  expect(counters.lines()).toHaveLength(1);
});

const text = (value: string): string => `$${value.length}\r\n${value}\r\n`;
const allSlotsAt = (port: number): string => `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${text('127.0.0.1')}:${port}\r\n`;

/** A node of a Cluster with these replies to the script and to CLUSTER SLOTS. It forbids ASKING. */
async function startPretender(ofScript: string | ((own: number) => string), ofSlots = allSlotsAt): Promise<number> {
  const { port, close } = await startRedisPretender(([name = '', subcommand = ''], own) => {
    if (/^evalsha$/i.test(name)) return typeof ofScript === 'string' ? ofScript : ofScript(own);
    if (/^asking$/i.test(name)) return "-NOPERM this user has no permissions to run the 'asking' command\r\n";
    if (/^cluster$/i.test(name)) return /^slots$/i.test(subcommand) ? ofSlots(own) : text('cluster_state:ok\r\n');
    return undefined;
  });
  closing.push(close);
  return port;
}

test.concurrent('a node that answers with a malformed redirection fails only the call', async () => {
  const counters = await open(`127.0.0.1:${await startPretender('-MOVED 1 nohost\r\n')}`);
  const why = 'ERR malformed redirection of a Cluster: MOVED 1 nohost';
  await eventually(() => counters.problem() === why, counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'UNAVAILABLE', reason: `redis: ${why}` });
  expect(counters.lines()).toEqual([expect.stringContaining(why)]);
});

test.concurrent('a node that refuses ASKING fails only the calls that are sent to it', async () => {
  const port = await startPretender((own) => `-ASK 1 127.0.0.1:${own}\r\n`);
  const counters = await open(`127.0.0.1:${port}`);
  const why = 'the slot is moving to another node';
  await eventually(() => counters.problem() === why, counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'UNAVAILABLE', reason: `redis: ${why}` });
});
