import '../../helpers/realm.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type HttpServer, plain, type Route, startHttpServer } from '../../../src/edge/http/server.ts';
import { type RawClient, rawClient } from '../../helpers/raw-client.ts';
import { mostStepsInATurn } from '../../helpers/turns.ts';
import { eventually } from '../../helpers/until.ts';

const CHUNKED = 'POST /read HTTP/1.1\r\nhost: weir\r\ntransfer-encoding: chunked\r\n\r\n';
/** One read is always handled completely, so a turn may exceed its share by one read. */
const READ_BYTES = 4_096;

let server: HttpServer;
let clients: RawClient[];
/** Called for each request and each piece of a body. */
let onWork: () => void;

const pages: Readonly<Record<string, Route['answer']>> = {
  '/read': async (request) => {
    onWork();
    request.on('data', onWork);
    const body = (await request.readBody(1_000_000)) ?? Buffer.alloc(0);
    return plain(200, `<${body.length} ${Array.from(new Set(body.toString('latin1'))).join('')}>`);
  },
};

beforeEach(async () => {
  onWork = () => {};
  const routes = new Map(Object.entries(pages).map(([path, answer]) => [path, { help: '', answer }]));
  const bounds = { maxRequestsInFlight: 10_000 };
  server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, () => {}, bounds);
  clients = await Promise.all(Array.from({ length: 20 }, () => rawClient(server.port)));
});
afterEach(async () => {
  for (const { socket } of clients) socket.destroy();
  await server.close(0);
});

/** The most work in one turn, until every client has this number of answers. */
const mostInATurn = (send: (client: RawClient) => void, answers: number): Promise<number> =>
  mostStepsInATurn(async (step) => {
    onWork = step;
    for (const client of clients) send(client);
    await Promise.all(clients.map((client) => client.receives('200 OK', answers)));
  });

test('a turn handles a bounded number of chunks, regardless of their size and the number of connections', async () => {
  const body = '1\r\n \r\n'.repeat(1_500);
  const most = await mostInATurn((client) => client.write(`${CHUNKED}${body}0\r\n\r\n`), 1);
  expect(most).toBeGreaterThan(100);
  expect(most).toBeLessThan((32_768 + 2 * READ_BYTES) / 6 / 3); // a third of the requests that would fit if only octets counted
});

test('a turn handles a bounded number of requests, regardless of the number of connections', async () => {
  const request = 'POST /read HTTP/1.1\r\nhost: weir\r\n\r\n';
  const most = await mostInATurn((client) => client.write(request.repeat(150)), 150);
  expect(most).toBeLessThan(32_768 / 512 + (2 * READ_BYTES) / request.length);
});

test('bodies that arrive at the same time stay separate', async () => {
  const letters = clients.map((_, at) => String.fromCharCode('a'.charCodeAt(0) + at));
  const heads = letters.map((letter) => `POST /read HTTP/1.1\r\nhost: ${letter}\r\ncontent-length: 300000\r\n\r\n`);
  for (const [at, client] of clients.entries()) client.write(`${heads[at]}${letters[at]?.repeat(100_000)}`);
  await nextTurn();
  for (const [at, client] of clients.entries()) client.write(letters[at]?.repeat(200_000) ?? '');
  for (const [at, client] of clients.entries()) await client.receives(`<300000 ${letters[at]}>`);
});

test('a client that reads late gets the answers to all its requests', async () => {
  const [client] = clients;
  client?.socket.pause();
  const request = `POST /read HTTP/1.1\r\nhost: weir\r\ncontent-length: 200\r\n\r\n${'x'.repeat(200)}`;
  for (let at = 0; at < 20; at++) client?.write(request.repeat(200));
  await nextTurn();
  client?.socket.resume();
  await client?.receives('<200 x>', 4_000);
});

test('a client that ends its connection after its request is answered first', async () => {
  const [client] = clients;
  client?.socket.end(`POST /read HTTP/1.1\r\nhost: weir\r\ncontent-length: 9000\r\n\r\n${'x'.repeat(9_000)}`);
  await client?.ended;
  expect(client?.received()).toContain('<9000 x>');
  await eventually(() => client?.socket.destroyed === true);
});
