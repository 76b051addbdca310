import '../../helpers/realm.ts';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { CONNECTION_BYTES, HttpConnection, pacedSocket } from '../../../src/edge/http/connection.ts';
import { InputTurns } from '../../../src/edge/http/input-turns.ts';
import { type HttpServer, plain, startHttpServer } from '../../../src/edge/http/server.ts';
import { gate } from '../../helpers/gate.ts';
import { call, openRaw } from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { type RawClient, rawClient } from '../../helpers/raw-client.ts';
import { until } from '../../helpers/until.ts';
import { WatchedMemory } from '../../helpers/watched-memory.ts';

/** So many connections to the HTTP port fit. */
const FULL = 12;

let memory: WatchedMemory;
let http: HttpServer;
let grpc: H2Server;
let clients: RawClient[];
let mayAnswer: ReturnType<typeof gate>;

beforeEach(async () => {
  clients = [];
  mayAnswer = gate();
  memory = new WatchedMemory((FULL * CONNECTION_BYTES * 4) / 3);
  const routes = new Map([
    ['/good', { help: '', answer: () => plain(200, 'good') }],
    ['/slow', { help: '', answer: () => mayAnswer.passed.then(() => plain(200, 'slow')) }],
  ]);
  http = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, () => {}, {
    ...{ memory, isChecked: undefined }, // as on PORT
  });
  grpc = await startH2({ overload: overloadOf({ memory }) });
});
afterEach(async () => {
  for (const { socket } of clients) socket.destroy();
  await Promise.all([http.close(0), grpc.close(0)]);
});

/** Opens as many connections to the HTTP port as fit, each of which sends this. */
async function fill(text: string): Promise<void> {
  while (clients.length < FULL) {
    const client = await rawClient(http.port);
    clients.push(client);
    if (text !== '') client.write(text);
  }
  await until('the server has accepted all', () => memory.connections === FULL);
}

async function expectAnswerOfGrpc(): Promise<void> {
  const client = await openRaw(grpc.port);
  client.send(call(1));
  expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
  client.close();
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: weir\r\n\r\n`;

test.each([
  ['nothing', ''],
  ['a part of a request', 'GET /good HT'],
])('connections to the HTTP port that have sent %s leave room for others', async (_what, text) => {
  await fill(text);
  await expectAnswerOfGrpc();
  await clients[0]?.ended;
  const another = await rawClient(http.port);
  another.write(get('/good'));
  await another.receives('good');
  another.socket.destroy();
});

test('connections to the HTTP port whose requests are answered leave room for others when they are idle', async () => {
  await fill(get('/good'));
  for (const times of [1, 2]) {
    for (const client of clients) await client.receives('good', times);
    await until('all are idle', () => memory.idle.filter(Boolean).length === FULL);
    memory.idle.fill(false);
    if (times === 1) for (const client of clients) client.write(get('/good'));
  }
  const isAnswered = async () => {
    try {
      await expectAnswerOfGrpc();
      return true;
    } catch {
      return false;
    }
  };
  await until('a call is answered', isAnswered); // the last check may have been before the requests were read
  await clients[0]?.ended;
});

test('a connection to the HTTP port with an open request is not ended for another one', async () => {
  const busy = [await rawClient(http.port), await rawClient(http.port)];
  clients.push(...busy);
  for (const client of busy) client.write(get('/slow'));
  await fill('');
  await until('they have been checked twice', () => memory.checks.slice(0, busy.length).every((count) => count > 1));
  for (let count = 0; count < 2 * FULL; count++) clients.push(await rawClient(grpc.port));
  await until('the server has accepted all', () => memory.idle.length === 3 * FULL);
  mayAnswer.open();
  for (const client of busy) await client.receives('slow');
});

test('a connection to the HTTP port whose request has been read, but waits for its turn, is not ended', async () => {
  const turns = new InputTurns();
  const hasRoom = jest.spyOn(turns, 'hasRoom', 'get').mockReturnValue(false);
  const sockets: ReturnType<typeof pacedSocket>[] = [];
  const server = createServer((accepted) => {
    const socket = pacedSocket(accepted, turns);
    socket.resume();
    sockets.push(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = await rawClient((server.address() as AddressInfo).port);
  client.write(get('/good'));
  await until('its input waits', () => sockets[0]?.waitsForTurn?.() === true);
  const [socket] = sockets;
  const account = memory.open(CONNECTION_BYTES, { reset: () => {} });
  if (!socket || !account) throw new Error('no connection');
  const connection = new HttpConnection(
    socket,
    account,
    { maxRequestsInFlight: 1, outputTimeoutMs: 60_000 },
    { turns, onClosed: () => {} },
  );
  expect(connection.retire()).toBe(false);
  hasRoom.mockRestore();
  await until('its input is handled', () => socket.waitsForTurn?.() === false);
  expect(connection.retire()).toBe(true);
  await client.ended;
  connection.end();
  server.close();
});
