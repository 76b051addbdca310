import { plain, startHttpServer } from '../../../src/edge/http/server.ts';
import { rawClient } from '../../helpers/raw-client.ts';

let port: number;
let close: () => Promise<void>;
let served: string[];
beforeEach(async () => {
  served = [];
  const route = {
    help: '',
    async answer({ url = '' }) {
      served.push(url);
      return plain(200, 'fine');
    },
  };
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, new Map([['/', route]]), () => {});
  port = server.port;
  close = () => server.close(0);
});
afterEach(() => close());

const POST = 'POST / HTTP/1.1\r\nhost: weir\r\n';
const CHUNKED = `${POST}transfer-encoding: chunked\r\n\r\n`;

// If a proxy and this server disagree about the end of a request, one of them sees a body where the other sees another
// request. A request with an invalid body has already been passed to its route; nothing after it may be.
test.each([
  ['two lengths', `${POST}content-length: 1\r\ncontent-length: 2\r\n\r\nab`],
  ['the same length twice', `${POST}content-length: 2\r\ncontent-length: 2\r\n\r\nab`],
  ['a list of lengths', `${POST}content-length: 2, 2\r\n\r\nab`],
  ['a length with a sign', `${POST}content-length: +2\r\n\r\nab`],
  ['a length below 0', `${POST}content-length: -1\r\n\r\nab`],
  ['a length that is hexadecimal', `${POST}content-length: 0x2\r\n\r\nab`],
  ['a length beyond 2^64', `${POST}content-length: 18446744073709551617\r\n\r\na`],
  ['a length and chunks', `${POST}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['chunks and a length', `${POST}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n`],
  ['an encoding that is almost chunked', `${POST}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ['chunks inside another encoding', `${POST}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
  ['two encodings', `${POST}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n`],
  ['an encoding on the next line', `${POST}transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n`],
  ['lines that end with LF alone', 'GET / HTTP/1.1\nhost: weir\n\n'],
  ['one line that ends with LF alone', 'GET / HTTP/1.1\r\nhost: weir\na: b\r\n\r\n'],
  ['a head that ends with LF alone', 'GET / HTTP/1.1\r\nhost: weir\r\n\n'],
  ['a CR inside a line', 'GET / HTTP/1.1\r\nhost: weir\r\na: b\rc: d\r\n\r\n'],
  ['a NUL', 'GET / HTTP/1.1\r\nhost: weir\r\na: b\0\r\n\r\n'],
  ['a space before the colon', `${POST}content-length : 2\r\n\r\nab`],
  ['a line that is continued', 'GET / HTTP/1.1\r\nhost: weir\r\na: b\r\n c\r\n\r\n'],
  ['a head that is too long', `GET / HTTP/1.1\r\nhost: weir\r\na: ${'x'.repeat(17_000)}\r\n\r\n`, 431],
  ['a path that is too long', `GET /${'x'.repeat(17_000)} HTTP/1.1\r\nhost: weir\r\n\r\n`, 431],
])('a request with %s is refused, and the connection ends', async (_, text, status = 400) => {
  const client = await rawClient(port);
  client.write(`${text}GET /smuggled HTTP/1.1\r\nhost: weir\r\n\r\n`);
  await client.ended;
  expect(client.received()).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(served).not.toContain('/smuggled');
});

test.each([
  ['a size with a C prefix for hexadecimal', '0x1\r\na\r\n0\r\n\r\n'],
  ['a size with a sign', '+1\r\na\r\n0\r\n\r\n'],
  ['a size beyond 2^64', '10000000000000001\r\na\r\n0\r\n\r\n'],
  ['a size with a space', '1 \r\na\r\n0\r\n\r\n'],
  ['lines that end with LF alone', '1\na\n0\n\n'],
  ['more octets than the size says', '1\r\nab\r\n0\r\n\r\n'],
])('a chunked body with %s ends the connection before the next request', async (_, text) => {
  const client = await rawClient(port);
  client.write(`${CHUNKED}${text}GET /smuggled HTTP/1.1\r\nhost: weir\r\n\r\n`);
  await client.ended;
  expect(served).not.toContain('/smuggled');
});

test('a request without a host is refused', async () => {
  const client = await rawClient(port);
  client.write('GET / HTTP/1.1\r\n\r\n');
  await client.ended;
  expect(client.received()).toMatch(/^HTTP\/1.1 400 /);
  expect(served).toEqual([]);
});

test.each([
  ['http://weir/some/path?query', '/some/path?query'],
  ['HTTPS://weir:443?query', '/?query'],
  ['http://weir', '/'],
  ['/http://weir/', '/http://weir/'],
])('a request whose target is %s is for %s', async (target, path) => {
  const client = await rawClient(port);
  client.write(`GET ${target} HTTP/1.1\r\nhost: weir\r\nconnection: close\r\n\r\n`);
  await client.ended;
  expect(client.received()).toMatch(/^HTTP\/1.1 200 /);
  expect(served).toEqual([path]);
});
