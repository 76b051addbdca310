import '../helpers/realm.ts';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { createBoundedServer, operatorBounds } from '../../src/http/bounded-server.ts';
import { HttpRequest } from '../../src/http/request.ts';
import { mostStepsInATurn } from '../helpers/turns.ts';

const CHUNKS = 300_000;
const CHUNK = '1\r\n \r\n';
/** Those of one read, give or take. libuv would read 32 times. */
const MOST_IN_A_TURN = (2 * 65_536) / CHUNK.length;

test('a body in tiny chunks is read a little in each turn of the event loop, and to its end', async () => {
  const server = createBoundedServer(
    operatorBounds(),
    () => {},
    (_connection, request, response) => request.once('end', () => response.end('read')),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1'); // of a TCP server
  await once(socket, 'connect');
  let chunks = 0;
  const push = HttpRequest.prototype.push;
  const most = await mostStepsInATurn(async (step) => {
    jest.spyOn(HttpRequest.prototype, 'push').mockImplementation(function (this: HttpRequest, chunk, encoding) {
      chunks++;
      step();
      return push.call(this, chunk, encoding);
    });
    socket.write('POST / HTTP/1.1\r\nhost: weir\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n');
    socket.write(`${CHUNK.repeat(CHUNKS)}0\r\n\r\n`);
    let answer = '';
    for await (const part of socket) answer += String(part);
    expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*read/);
  });
  jest.restoreAllMocks();
  server.close();
  expect(chunks).toBeGreaterThan(CHUNKS);
  expect(most).toBeLessThan(MOST_IN_A_TURN);
});
