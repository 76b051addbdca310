import '../../helpers/realm.ts';
import { once } from 'node:events';
import { connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GrpcServerOptions } from '../../../src/edge/grpc/grpc-server.ts';
import { FrameType, MAX_STREAM_ID, PREFACE } from '../../../src/h2/http2/frames.ts';
import { gate } from '../../helpers/gate.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { OK } from '../../helpers/grpc-server.ts';
import { call, callHead, frame, openRaw, type RawClient, settings } from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { until } from '../../helpers/until.ts';
import { WatchedMemory } from '../../helpers/watched-memory.ts';

const CONNECTION_BYTES = 16 * 1024;
/** Number of connections that fit. */
const FULL = 21;
const MEMORY_BYTES = (FULL * CONNECTION_BYTES * 4) / 3;
/** Number of connections that may be in graceful shutdown at a time. */
const MAX_RETIRED = 3;
/** Limits with which connections are checked every 5 ms, and for idleness once a second of the service's clock. */
const connections = { maxCount: 5_000, maxAgeMs: 0, maxAgeGraceMs: 0, keepaliveTimeMs: 0, keepaliveTimeoutMs: 50 };

let memory: WatchedMemory;
let server: H2Server;
let clients: RawClient[];
/** Time by which the service's clock is ahead. */
let aheadMs: number;
beforeEach(() => {
  clients = [];
  aheadMs = 0;
  const now = performance.now.bind(performance);
  jest.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
});
afterEach(async () => {
  for (const client of clients) client.close();
  await server.close(0);
  jest.restoreAllMocks();
});

async function start(changes: Partial<GrpcServerOptions> = {}): Promise<void> {
  memory = new WatchedMemory(MEMORY_BYTES);
  server = await startH2({ overload: overloadOf({ memory }), connections, ...changes });
}

/** @param greeting  what the client sends first; default: the preface and SETTINGS */
async function open(greeting?: readonly Uint8Array[]): Promise<RawClient> {
  const client = await openRaw(server.port, greeting ? { greeting } : {});
  clients.push(client);
  await once(client.socket, 'connect');
  return client;
}

async function expectAnswer(client: RawClient, streamId: number): Promise<void> {
  client.send(call(streamId));
  expect((await client.reply(streamId)).fields).toMatchObject({ 'grpc-status': '0' });
}

async function openFull(greeting?: readonly Uint8Array[]): Promise<readonly RawClient[]> {
  for (let count = 0; count < FULL; count++) await open(greeting);
  await until('the server accepts all', () => memory.connections === FULL);
  return clients.slice(-FULL);
}

/** Fills the memory with connections whose calls were answered and that the server then found idle, in order. */
async function openFullAndIdle(): Promise<readonly RawClient[]> {
  const idle = await openFull();
  for (const [at, client] of idle.entries()) {
    await expectAnswer(client, 1);
    await foundIdle(at);
  }
  return idle;
}

/** Resolves when the server has found this connection idle after this call. */
async function foundIdle(at: number): Promise<void> {
  memory.idle[at] = false;
  await until(`connection ${at} is idle`, async () => {
    await passSecond();
    return memory.idle[at] === true;
  });
}

/** Lets the server check its connections for idleness. */
async function passSecond(): Promise<void> {
  aheadMs += 1_000;
  await sleep(10);
}

const lastStreamsIn = ({ frames }: RawClient): readonly number[] =>
  frames.filter(({ type }) => type === FrameType.GOAWAY).map(({ payload }) => payload.readUInt32BE());

test('a new connection replaces the one idle longest, which receives GOAWAY', async () => {
  await start();
  const [first, second, ...others] = await openFullAndIdle();
  if (!first || !second) throw new Error('no connections');
  await expectAnswer(first, 3);
  await foundIdle(0);
  await expectAnswer(await open(), 1);
  expect(await second.ended()).toMatchObject({ code: 'NO_ERROR' });
  expect(lastStreamsIn(second)).toEqual([MAX_STREAM_ID, 1]);
  expect(server.failures).toEqual(['IDLE_CONNECTION']);
  for (const [at, client] of [first, ...others].entries()) await expectAnswer(client, at === 0 ? 5 : 3);
  await until('the server has closed it', () => memory.connections === FULL);
});

test.each<[string, readonly Uint8Array[]]>([
  ['nothing', []],
  ['a part of the preface', [PREFACE.subarray(0, 10)]],
  ['no request', [PREFACE, settings()]],
  ['half a frame', [PREFACE, settings(), callHead(1).subarray(0, 20)]],
])('connections that have sent %s give way to new ones', async (_what, greeting) => {
  await start();
  const [first] = await openFull(greeting);
  for (let count = 0; count < MAX_RETIRED; count++) await expectAnswer(await open(), 1);
  expect(await first?.ended()).toMatchObject({ code: 'NO_ERROR' });
  expect(first && lastStreamsIn(first)).toEqual([MAX_STREAM_ID, 0]);
  expect(server.failures).toEqual(Array(MAX_RETIRED).fill('IDLE_CONNECTION'));
});

test('PING does not keep idle connections open', async () => {
  await start();
  const idle = await openFullAndIdle();
  const pinging = setInterval(() => {
    for (const client of idle) client.send(frame(FrameType.PING, 0, 0, Buffer.alloc(8)));
  });
  try {
    for (let count = 0; count < 5; count++) await expectAnswer(await open(), 1);
  } finally {
    clearInterval(pinging);
  }
  expect(server.failures).toEqual(Array(5).fill('IDLE_CONNECTION'));
});

test('a connection with an open request is not ended for a new one', async () => {
  const { open: answer, passed } = gate();
  let asked = 0;
  await start({
    service: {
      async shouldRateLimit(_request, _caller, reply) {
        asked++;
        await passed;
        reply({ response: OK });
      },
    },
  });
  const busy = await openFull();
  for (const client of busy) client.send(call(1));
  await until('all have asked', () => asked === FULL);
  const checked = Math.max(...memory.checks);
  await until('all are checked twice more', async () => {
    await passSecond();
    return Math.min(...memory.checks) >= checked + 2;
  });
  const refused = await open();
  expect(await refused.ended()).toEqual({ code: 'no GOAWAY', debug: '' });
  expect(server.failures).toEqual(['TOO_MANY_CONNECTIONS']);
  answer();
  for (const client of busy) expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
});

test('a connection that has had a request since the previous check is passed over', async () => {
  jest.spyOn(performance, 'now').mockImplementation(() => aheadMs); // so that no second passes
  await start();
  const all = await openFull();
  const used = all.slice(0, -1);
  for (const client of used) await expectAnswer(client, 1);
  await expectAnswer(await open(), 1);
  expect(await all.at(-1)?.ended()).toMatchObject({ code: 'NO_ERROR' });
  for (const client of used) await expectAnswer(client, 3);
  expect(server.failures).toEqual(['IDLE_CONNECTION']);
});

test('idleness is checked once a second, however often connections are checked', async () => {
  jest.spyOn(performance, 'now').mockImplementation(() => aheadMs);
  await start();
  const client = await open();
  await expectAnswer(client, 1);
  await sleep(100); // many checks
  await expectAnswer(client, 3);
  expect(memory.checks).toEqual([0]);
  await passSecond();
  await until('it has been judged', () => memory.checks[0] === 1);
  expect(memory.idle).toEqual([false]);
});

test('a call that is sent before its client has received GOAWAY is answered', async () => {
  let first: RawClient | undefined;
  await start({ onConnectionError: () => first?.send(call(3)) }); // GOAWAY has not been read
  [first] = await openFullAndIdle();
  await expectAnswer(await open(), 1);
  expect((await first?.reply(3))?.fields).toMatchObject({ 'grpc-status': '0' });
  expect(await first?.ended()).toMatchObject({ code: 'NO_ERROR' });
  expect(first && lastStreamsIn(first)).toEqual([MAX_STREAM_ID, 3]);
});

test('a call that is sent after its client had time to receive GOAWAY is not handled, and GOAWAY says so', async () => {
  let asked = 0;
  await start({
    service: {
      async shouldRateLimit(_request, _caller, reply) {
        asked++;
        reply({ response: OK });
      },
    },
  });
  const [first] = await openFullAndIdle();
  if (!first) throw new Error('no connection');
  await expectAnswer(await open(), 1);
  await first.find(({ type, payload }) => type === FrameType.GOAWAY && payload.readUInt32BE() === 1);
  first.send(call(3));
  await first.ended();
  expect(first.frames.filter(({ streamId }) => streamId === 3)).toEqual([]);
  expect(asked).toBe(FULL + 1);
});

test('a gRPC client loses no call when its idle connections are ended repeatedly', async () => {
  let ended = (): void => {};
  await start({ connections, onConnectionError: () => ended() });
  const client = createClient(server.target);
  try {
    for (let round = 0; round < 10; round++) {
      await client.ask();
      await foundIdle(memory.idle.length - 1);
      const asked = new Promise((resolve, reject) => {
        ended = () => {
          ended = () => {};
          client.ask().then(resolve, reject);
        };
      });
      for (let count = 0; count < FULL; count++) await expectAnswer(await open(), 1); // these are in use
      await asked;
      for (const other of clients.splice(0)) other.close();
      await until('they have ended', () => memory.connections <= 1);
    }
  } finally {
    client.close();
  }
});

test('ended connections are closed even if their clients keep them open', async () => {
  await start();
  const CLIENTS = 600;
  const before = tcpSockets();
  const sockets = [];
  for (let count = 0; count < CLIENTS; count++) {
    const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {});
    sockets.push(socket.resume());
    await once(socket, 'connect');
  }
  await until('the server has accepted all', () => memory.idle.length === CLIENTS);
  await until('the others are closed', () => tcpSockets() - before - CLIENTS <= FULL + MAX_RETIRED);
  for (const socket of sockets) socket.destroy();
});

const tcpSockets = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
