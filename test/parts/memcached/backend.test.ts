import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, RequestOperation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { MemcachedBackend } from '../../../src/parts/memcached/backend.ts';
import { referenceCounters } from '../../../src/parts/memcached/reference.ts';
import { openServers } from '../../../src/parts/memcached/servers.ts';
import { backendConformance } from '../../engine/backends/conformance.ts';
import { fixedWindowOf, limitsOfEach } from '../../helpers/limits.ts';
import { type Memcached, startMemcached } from '../../helpers/memcached.ts';
import { operationOf } from '../../helpers/operations.ts';
import { tcpSockets } from '../../helpers/tcp-sockets.ts';
import { eventually } from '../../helpers/until.ts';

let servers: readonly Memcached[];
beforeAll(async () => {
  servers = await Promise.all([startMemcached(), startMemcached(), startMemcached()]);
});
afterAll(() => Promise.all(servers.map((server) => server.stop())));

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

/** Opens a store that is ready. */
async function ready(addresses: readonly string[], clock = Date.now): Promise<Backend> {
  const store = new MemcachedBackend(
    openServers({
      servers: addresses,
      tls: undefined,
      monotonicMs: () => performance.now(),
      onDown: () => {},
      onUp: () => {},
    }),
    { clock, dateClock: Date.now, monotonicMs: () => performance.now() },
    { foreign: referenceCounters },
  );
  await eventually(() => store.health().ready);
  return store;
}

/** Opens a store that is ready; it is closed after the test. */
async function open(addresses: readonly string[]): Promise<Backend> {
  const store = await ready(addresses);
  opened.push(store);
  return store;
}

const one = () => servers.slice(0, 1).map(({ address }) => address);
const all = () => servers.map(({ address }) => address);

const without = 'sliding_window_log';
backendConformance('three memcached', (clock) => ready(all(), clock), { atomic: 'counter', without });

let counters = 0;
const newKey = (): CounterKey => `counter-${process.pid}-${counters++}` as CounterKey; // any key will do
const hitOn = (key: CounterKey, hits = 1, limit: Limit = fixedWindowOf(20, unitMs.YEAR)): RequestOperation => {
  return operationOf({ key }, limit, hits, true);
};
const apply = (store: Backend, ...hits: RequestOperation[]) => store.run(hits, { spend: 'each', timeoutMs: 5_000 });

test.each(limitsOfEach(20, unitMs.YEAR).filter(({ algorithm }) => algorithm !== without))(
  'several instances together admit exactly the limit of $algorithm',
  async (limit) => {
    const stores = await Promise.all([open(all()), open(all()), open(all())]);
    const key = newKey();
    const asked = Array.from({ length: 60 }, (_, at) => apply(stores[at % 3] as Backend, hitOn(key, 1, limit)));
    const codes = (await Promise.all(asked)).flat().map(({ code }) => code);
    expect(codes.filter((code) => code === 'OK')).toHaveLength(20);
    expect(codes.filter((code) => code === 'OVER_LIMIT')).toHaveLength(40);
  },
);

test('counters of the longest windows are kept, although memcached reads more than thirty days as a date', async () => {
  const store = await open(one());
  for (const windowMs of [unitMs.MONTH, unitMs.YEAR, 100 * unitMs.YEAR]) {
    const hit = hitOn(newKey(), 1, fixedWindowOf(1, windowMs));
    expect(await apply(store, hit)).toMatchObject([{ code: 'OK' }]);
    expect(await apply(store, hit)).toMatchObject([{ code: 'OVER_LIMIT' }]);
  }
});

test('a process that was itself late uses the received reply, and keeps its connection', async () => {
  const store = await open(one());
  const answers = apply(store, hitOn(newKey()));
  const lateMs = performance.now() + 1_200; // longer than a server's silence is tolerated
  const hasReplied = () => tcpSockets().some(({ remotePort, unread }) => remotePort === servers[0]?.port && unread > 0);
  while (performance.now() < lateMs || !hasReplied());
  expect(await answers).toMatchObject([{ code: 'OK' }]);
  expect(store.health().ready).toBe(true);
});

test("a counter is kept until its window ends, even if memcached's clock is behind", async () => {
  const [server] = servers;
  const store = await open(one());
  for (const limit of limitsOfEach(20, 3 * unitMs.SECOND).filter(({ algorithm }) => algorithm !== without)) {
    const key = newKey();
    const startedMs = performance.now();
    const [decision] = await apply(store, hitOn(key, 20, limit));
    expect(decision?.code).toBe('OK');
    const { durationUntilResetMs = Number.NaN } = decision as { durationUntilResetMs?: number };
    const reply = await say(server?.port ?? 0, `mg ${key} t\r\n`); // the item's remaining seconds to live
    const [, keptS = ''] = /^HD t(\d+)/.exec(reply) ?? [];
    const leftMs = durationUntilResetMs - (performance.now() - startedMs);
    expect(Number(keptS) - 1).toBeGreaterThanOrEqual(leftMs / 1_000); // its clock may be two seconds behind, and has ticked
  }
});

/** The first reply of a memcached. */
async function say(port: number, command: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8');
  socket.write(command);
  const [reply] = await once(socket, 'data');
  socket.destroy();
  return String(reply);
}

describe('counters that are shared with envoyproxy/ratelimit', () => {
  const windowStartMs = () => Date.now() - (Date.now() % unitMs.YEAR);
  const sharedOn = (key: CounterKey, hits: number): RequestOperation => ({
    ...hitOn(key, hits, fixedWindowOf(20, unitMs.YEAR)),
    shared: { windowStartMs: windowStartMs(), ttlMs: unitMs.YEAR },
  });

  test('are exact decimal counts with any number of writers', async () => {
    const [ours, theirs] = await Promise.all([open(one()), open(one())]);
    const key = newKey();
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, at) => apply(at % 2 ? ours : theirs, sharedOn(key, 1))),
    );
    expect(answers.flat().filter(({ code }) => code === 'OK')).toHaveLength(20);
    expect(await apply(ours, sharedOn(key, 0))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 30 }]);
    expect(await apply(ours, sharedOn(key, -12), sharedOn(key, 2), sharedOn(key, 1))).toMatchObject([
      { code: 'OK', limitRemaining: 2 },
      { code: 'OK', hitsBefore: 18, limitRemaining: 0 },
      { code: 'OVER_LIMIT', hitsBefore: 20 },
    ]);
    expect(await apply(ours, sharedOn(newKey(), 0), sharedOn(newKey(), -1))).toMatchObject([
      { code: 'OK', limitRemaining: 20 },
      { code: 'OK', limitRemaining: 20 },
    ]);
  });

  test('without a number are no counters', async () => {
    const store = await open(one());
    const key = newKey();
    await apply(store, hitOn(key)); // a valid state
    expect(await apply(store, sharedOn(key, 1))).toMatchObject([
      { code: 'UNAVAILABLE', reason: expect.stringContaining('memcached: CLIENT_ERROR') },
    ]);
    expect(await apply(store, sharedOn(key, 0))).toMatchObject([
      { code: 'UNAVAILABLE', reason: 'memcached: the counter is not a number' },
    ]);
  });
});

test('keys that contain commands are not executed, and name different counters', async () => {
  const store = await open(one());
  const texts = ['a b', 'a\r\nflush_all', 'a\tb', '', 'é'.repeat(200), 'x'.repeat(251), 'x'.repeat(252), '\x7f'];
  const keys = texts.map((text) => `${text}` as CounterKey); // callers may send any text
  await apply(store, ...keys.map((key, at) => hitOn(key, at + 1)));
  expect(await apply(store, ...keys.map((key) => hitOn(key, 0)))).toMatchObject(
    texts.map((_, at) => ({ hitsBefore: at + 1 })),
  );
});

describe('a server that does not answer', () => {
  test('makes only its own counters unavailable, in time, and they are available again when it answers', async () => {
    const store = await open(all());
    const keys = Array.from({ length: 20 }, newKey);
    await apply(store, ...keys.map((key) => hitOn(key, 7)));
    const [first] = servers;
    first?.pause();
    const answers = await store.run(
      keys.map((key) => hitOn(key, 0)),
      { spend: 'each', timeoutMs: 800 }, // shorter than a server's silence is tolerated
    );
    const lost = answers.filter(({ code }) => code === 'UNAVAILABLE');
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.length).toBeLessThan(20);
    const reason = expect.stringMatching(/^memcached: no /);
    expect(lost).toEqual(lost.map(() => ({ code: 'UNAVAILABLE', reason, isUnknown: true }))); // sent, maybe counted
    await eventually(() => !store.health().ready); // after a second of silence the connection is closed
    first?.resume();
    await eventually(() => store.health().ready);
    expect(await apply(store, ...keys.map((key) => hitOn(key, 0)))).toMatchObject(keys.map(() => ({ hitsBefore: 7 })));
  });

  test('restarts its counters if it comes back empty', async () => {
    const store = await open(one());
    const key = newKey();
    await apply(store, hitOn(key, 7));
    await servers[0]?.stop();
    await eventually(() => !store.health().ready);
    expect(await apply(store, hitOn(key))).toMatchObject([{ code: 'UNAVAILABLE' }]);
    await servers[0]?.restart();
    await eventually(() => store.health().ready);
    expect(await apply(store, hitOn(key))).toMatchObject([{ code: 'OK', hitsBefore: 0 }]);
  });
});

/** A server that answers VERSION, and then replies with this to all commands. */
async function scripted(reply: (commands: string) => string) {
  const server = createServer((socket) => {
    opened.push({ close: () => socket.destroy() });
    socket.on('error', () => {});
    socket.on('data', (data) => {
      const commands = data.toString('latin1');
      socket.write(commands === 'version\r\n' ? 'VERSION 1\r\n' : reply(commands));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  opened.push({ close: () => server.close() });
  return `127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
}

test.each([
  ['SERVER_ERROR out of memory storing object\r\n', 'memcached: SERVER_ERROR out of memory storing object'],
  ['ERROR\r\n', 'memcached: ERROR'],
  ['hello\r\n', "memcached: 'hello' is not a reply to gets"],
  ['VALUE a\r\n', "'VALUE a' is not an item"],
  [`VALUE a 0 99999999 1\r\n`, "'VALUE a 0 99999999 1' is not an item"],
  ['VALUE a 0 1 1\r\nxyz\r\nEND\r\n', 'the value of a does not end where it should'],
  ['x'.repeat(3_000), "a reply's line has more than 2048 bytes"],
  ['END\r\nEND\r\nEND\r\n', 'received a reply without a request'],
])('the reply %j is only an error', async (reply, reason) => {
  const store = await open([await scripted(() => reply)]);
  const answers = await Promise.all([apply(store, hitOn(newKey())), apply(store, hitOn(newKey()))]);
  expect(JSON.stringify(answers)).toContain(reason);
});
