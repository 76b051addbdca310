import '../../helpers/realm.ts';
import { status } from '@grpc/grpc-js';
import { Router } from '../../../src/h2/grpc/router.ts';
import { Flag } from '../../../src/h2/http2/frames.ts';
import { createHeaderField } from '../../../src/h2/http2/hpack/field.ts';
import type { Stream } from '../../../src/h2/http2/stream.ts';
import {
  call,
  callHead,
  data,
  type Fields,
  framed,
  message,
  openRaw,
  type RawClient,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';

let server: H2Server;
let client: RawClient;
beforeEach(async () => {
  server = await startH2();
  client = await openRaw(server.port);
});
afterEach(async () => {
  client.send(call(99));
  expect((await client.reply(99)).fields).toMatchObject({ 'grpc-status': '0' });
  expect(server.failures).toEqual([]);
  client.close();
  await server.close(0);
});

test.each<Fields>([
  { 'content-type': 'application/grpc+proto' },
  { 'content-type': 'application/grpc;charset=utf-8' },
  { 'x-header': 'anything', te: '' },
  { ':scheme': 'https' },
])('a request with %j is a call', async (changes) => {
  client.send(call(1, changes));
  expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
});

test.each<[Fields, string, Fields]>([
  [{ 'content-type': '' }, '415', {}],
  [{ 'content-type': 'application/json' }, '415', {}],
  [{ 'content-type': 'application/grpc-web' }, '415', {}],
  [{ ':method': 'GET' }, '405', { allow: 'POST' }],
  [{ ':method': 'PUT' }, '405', { allow: 'POST' }],
])('a request with %j is not a call: %s', async (changes, httpStatus, fields) => {
  client.send(callHead(1, changes), data(1, Buffer.alloc(1_000)), data(1, Buffer.alloc(1_000), true));
  const reply = await client.reply(1);
  expect(reply).toEqual({
    fields: { ':status': httpStatus, 'content-type': 'text/plain', ...fields },
    body: expect.any(Buffer),
  });
  expect(String(reply.body)).toMatch(/^\w.*\n$/);
});

test("a browser's GET is answered in plain HTTP", async () => {
  client.send(callHead(1, { ':method': 'GET', 'content-type': '', te: '' }, Flag.END_STREAM));
  expect((await client.reply(1)).fields).toMatchObject({ ':status': '415' });
});

test.each([
  '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimi',
  '/envoy.service.ratelimit.v3.RateLimitService/',
  '/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit',
  '/',
  '*',
])('calling the unknown method %s fails with UNIMPLEMENTED', async (path) => {
  client.send(call(1, { ':path': path }));
  expect((await client.reply(1)).fields).toMatchObject({
    ':status': '200',
    'grpc-status': String(status.UNIMPLEMENTED),
    'grpc-message': `unknown method ${path}`,
  });
});

test.each(['br', 'snappy', 'GZIP', 'gzip, deflate'])(
  'the encoding %s is refused with a list of the supported ones',
  async (encoding) => {
    client.send(callHead(1, { 'grpc-encoding': encoding }), data(1, framed(message, 1), true));
    expect((await client.reply(1)).fields).toMatchObject({
      ':status': '200',
      'grpc-status': String(status.UNIMPLEMENTED),
      'grpc-accept-encoding': 'identity,gzip,deflate',
      'grpc-message': `grpc-encoding ${encoding} is not supported`,
    });
  },
);

test.each<[string, Fields]>([
  ['a path', { ':path': `/${'\u00e9'.repeat(3_700)}` }],
  ['an encoding', { 'grpc-encoding': '\u00e9'.repeat(3_700) }],
])('%s that is unknown is echoed in part', async (_, changes) => {
  client.send(callHead(1, changes), data(1, framed(message), true));
  const { fields } = await client.reply(1);
  expect(fields).toMatchObject({ 'grpc-status': String(status.UNIMPLEMENTED) });
  expect(fields['grpc-message']).toMatch(/(%C3%A9){99}/);
  expect(fields['grpc-message']?.length).toBeLessThan(700);
});

test('a repeated head is refused with the previously encoded answer', () => {
  const router = new Router();
  const head = { method: 'POST', path: '/no.such/Method', contentLength: undefined };
  const fields = [createHeaderField('content-type', 'application/grpc')];
  const headOnly = jest.fn();
  const stream = { headOnly } as unknown as Stream; // the only method that is used
  const known = { ...head, fields };
  for (let at = 0; at < 3; at++) expect(router.open(stream, known)).toBeUndefined();
  const answers = new Set(headOnly.mock.calls.map(([answer]) => answer));
  expect([headOnly.mock.calls.length, answers.size]).toEqual([3, 1]);
});
