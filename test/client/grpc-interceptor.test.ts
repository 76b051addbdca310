import {
  type CallOptions,
  type ChannelOptions,
  credentials,
  Client as GrpcClient,
  Metadata as GrpcMetadata,
  type Metadata,
  Server,
  ServerCredentials,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { type GrpcCall, rateLimit } from '../../client/src/grpc.ts';
import type { Client } from '../../client/src/index.ts';
import type { LimitOptions } from '../../client/src/middleware/options.ts';
import { freePort } from '../helpers/process.ts';
import { closeAll, closeLater, openClient, RULES, type Service, startService } from './service.ts';

const PATH = '/test.Echo/Say';
const same = (message: Buffer): Buffer => message;

let service: Service;
beforeAll(async () => {
  service = await startService(RULES);
});
afterAll(closeAll);

/** Starts a gRPC server that the client limits, and returns a function that calls it. */
async function startServer(
  client: Client,
  options: Partial<LimitOptions<GrpcCall>> = {},
  [bound, called] = ['127.0.0.1', '127.0.0.1'],
  channel: ChannelOptions = {},
) {
  const interceptor = rateLimit({
    client,
    domain: 'demo',
    trustProxy: 1,
    key: ({ metadata }, address) => ({ user: metadata.get('x-user')[0]?.toString() ?? address }),
    skip: ({ path, metadata }) => path === PATH && metadata.get('x-free').length > 0,
    ...options,
  });
  const server = new Server({ interceptors: [interceptor] });
  const say = {
    path: PATH,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
  };
  server.addService(
    { say: { ...say, responseSerialize: same, responseDeserialize: same } },
    { say: (call: { request: Buffer }, done: (error: null, answer: Buffer) => void) => done(null, call.request) },
  );
  const port = await freePort();
  await new Promise((resolve, reject) => {
    server.bindAsync(`${bound}:${port}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(port),
    );
  });
  closeLater(() => server.forceShutdown());
  const caller = new GrpcClient(`${called}:${port}`, credentials.createInsecure(), channel);
  closeLater(() => caller.close());
  return (headers: Readonly<Record<string, string>>, callOptions: CallOptions = {}) => {
    const metadata = new GrpcMetadata();
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
    return new Promise<string>((resolve, reject) => {
      const done = (error: ServiceError | null, answer?: Buffer) =>
        answer ? resolve(answer.toString()) : reject(error);
      caller.makeUnaryRequest(PATH, same, same, Buffer.from('hello'), metadata, callOptions, done);
    });
  };
}

const failureOf = (call: Promise<string>): Promise<ServiceError> =>
  call.then(
    () => new Error('no error'),
    (thrown) => thrown,
  );

const trailersOf = ({ metadata }: { readonly metadata: Metadata }) => metadata.getMap();

test('a gRPC server refuses calls with RESOURCE_EXHAUSTED, and sends the retry time in trailers', async () => {
  const call = await startServer(await openClient({ target: service.grpc }));
  for (let calls = 0; calls < 5; calls++) expect(await call({ 'x-user': 'a' })).toBe('hello');
  const error = await failureOf(call({ 'x-user': 'a' }));
  expect(error.code).toBe(status.RESOURCE_EXHAUSTED);
  const trailers = trailersOf(error);
  expect(Number(trailers['retry-after'])).toBeGreaterThan(0);
  expect(Number(trailers['grpc-retry-pushback-ms'])).toBeGreaterThan(0);
  expect(trailers.ratelimit).toMatch(/^"per-user";r=0;t=\d+$/);
  expect(await call({ 'x-user': 'a', 'x-free': '1' })).toBe('hello');
  expect(await call({ 'x-forwarded-for': '1.1.1.1, 203.0.113.1' })).toBe('hello');
  const client = await openClient({ target: service.grpc });
  expect(await client.limit('demo', { user: '203.0.113.1' }, { hits: 0 })).toMatchObject({ remaining: 4 });
});

test('a gRPC server tells clients not to retry a call that can never pass', async () => {
  const call = await startServer(await openClient({ target: service.grpc }), { cost: () => 6 });
  const error: ServiceError = await call({ 'x-user': 'z' }).then(
    () => new Error('no error'),
    (thrown) => thrown,
  );
  expect(error.code).toBe(status.RESOURCE_EXHAUSTED);
  expect(trailersOf(error)['grpc-retry-pushback-ms']).toBe('-1');
  expect(trailersOf(error)).not.toHaveProperty('retry-after');
});

test('a client that retries is told of a refusal at once if its deadline is before the retry time', async () => {
  const retryPolicy = {
    maxAttempts: 3,
    initialBackoff: '0.01s',
    maxBackoff: '0.01s',
    backoffMultiplier: 1,
    retryableStatusCodes: ['RESOURCE_EXHAUSTED'],
  };
  const config = JSON.stringify({ methodConfig: [{ name: [{}], retryPolicy }] });
  const users: string[] = [];
  const key = ({ metadata }: GrpcCall) => {
    users.push(String(metadata.get('x-user')));
    return { user: 'b' };
  };
  const client = await openClient({ target: service.grpc });
  const call = await startServer(client, { key }, undefined, { 'grpc.service_config': config });
  for (let calls = 0; calls < 5; calls++) await call({ 'x-user': 'b' });
  const error = await failureOf(call({ 'x-user': 'refused' }, { deadline: Date.now() + 3_000 }));
  expect(error.code).toBe(status.RESOURCE_EXHAUSTED);
  expect(trailersOf(error)).toMatchObject({ 'grpc-retry-pushback-ms': '-1', ratelimit: expect.any(String) });
  expect(users.filter((user) => user === 'refused')).toHaveLength(1);
});

test('a gRPC server fails calls with UNAVAILABLE if the client denies unanswered calls', async () => {
  const client = await openClient({ target: `127.0.0.1:${await freePort()}`, onError: 'deny' }, { isUp: false });
  const call = await startServer(client);
  await expect(call({})).rejects.toMatchObject({ code: status.UNAVAILABLE });
});

test.each([
  // trusted, the listener, the address called, X-Forwarded-For, the client
  [0, '127.0.0.1', '127.0.0.1', undefined, '127.0.0.1'],
  [0, '[::]', '127.0.0.1', undefined, '127.0.0.1'],
  [0, '[::]', '[::1]', undefined, '::/64'],
  [['loopback'], '127.0.0.1', '127.0.0.1', '203.0.113.9', '203.0.113.9'],
  [['loopback'], '[::]', '127.0.0.1', '203.0.113.9', '203.0.113.9'],
  [['loopback'], '[::]', '[::1]', '203.0.113.9', '203.0.113.9'],
  [['10.0.0.0/8'], '[::]', '[::1]', '203.0.113.9', '::/64'],
])(
  'with trust in %j, a server on %s called at %s with %j counts %s',
  async (trustProxy, bound, called, by, address) => {
    const seen: string[] = [];
    const key = (_: GrpcCall, client: string) => {
      seen.push(client);
      return undefined;
    };
    const client = await openClient({ target: service.grpc });
    const call = await startServer(client, { trustProxy, key }, [bound, called]);
    await call(by ? { 'x-forwarded-for': by } : {});
    expect(seen).toEqual([address]);
  },
);
