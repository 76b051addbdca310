import '../../helpers/realm.ts';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { deflateSync, gzipSync } from 'node:zlib';
import {
  DOMAIN_FIELD,
  descriptor,
  entry,
  field,
  repeated,
  request,
  usage,
  varintField,
} from '../../../proof/attack/messages.ts';
import { range } from '../../../proof/tables/figures.ts';
import { codeNumbers } from '../../../src/edge/wire/wire.ts';
import { FrameType, MAX_WINDOW, PREFACE, Setting } from '../../../src/h2/http2/frames.ts';
import { allServices } from '../../helpers/all-services.ts';
import { OK } from '../../helpers/grpc-server.ts';
import {
  call,
  callHead,
  data,
  frame,
  framed,
  openRaw,
  rstStream,
  settings,
  windowUpdate,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { heapBytes } from '../../helpers/heap.ts';
import fc from '../../helpers/property.ts';
import { rulesFrom } from '../../helpers/rules.ts';

/** Budgets for state that callers create and that belongs to no connection. */
const STORES = { counterBytes: 524_288, shareBytes: 524_288, maxBuckets: 1_000 };
const STORE_BYTES = STORES.counterBytes + STORES.shareBytes;
/**
 * The memory that a process may hold because of a client, whatever it sends: bytes for each byte, for each stream that
 * it has opened, for each bucket that it has reported, for each of its connections, and a constant. Includes this
 * process's own side of the connections.
 */
const HELD = {
  ...{ perByte: 16, perStream: 4_096, perBucket: 2_048, perConnection: 524_288 },
  besides: 1_048_576 + STORE_BYTES,
};
/**
 * The memory that may still be in use after the connections have ended: caches, newly compiled code, and those budgets.
 */
const LEFT_BYTES = 2_097_152 + STORE_BYTES;
/** Several times as long as a process stalls. */
const RETURN_MS = 20_000;
const RUNS = 15;
const MAX_DATA_BYTES = 16_384;

const rules = rulesFrom(`
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: second, requests_per_unit: 1000}}
  - key: tenant
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {unit: hour, requests_per_unit: 1000, reserve: {ttl: 30s}}}
  - key: running
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 5, ttl: 10s}}
`);

let server: H2Server;
beforeAll(async () => {
  server = await startH2({
    ...allServices(rules, STORES),
    service: {
      shouldRateLimit: async ({ descriptors }, _caller, reply) =>
        reply({ response: { ...OK, statuses: descriptors.map(() => ({ code: codeNumbers.OK, limit_remaining: 9 })) } }),
    },
  });
});
afterAll(() => server.close(0));

/** A request of one of many holders, for one of ten limits. */
const holders = (key: string, count: number): Buffer =>
  request([descriptor(entry(key, `${count % 10}`), entry('id', `holder-${count}`))]);
/** Of Kuadrant's and of our own service, each with as many hits as it has fields. */
const HOLD = 1;
const MAX_DELAY = 2;
const AMOUNT = 3;
const RESERVATION = 3;

const messages = {
  ordinary: (count: number) => request(range(count % 256).map((at) => descriptor(entry('user', `name-${at}`)))),
  batch: (count: number) => repeated(count, field(1, request([descriptor(entry('user', 'name'))]))),
  hold: (count: number) => field(HOLD, holders('tenant', count)),
  'slots to wait for': (count: number) =>
    Buffer.concat([field(HOLD, holders('running', count)), field(MAX_DELAY, varintField(1, 3_000))]),
  reservation: (count: number) => Buffer.concat([holders('tenant', count), varintField(AMOUNT, 1)]),
  commit: (count: number) => Buffer.concat([holders('tenant', count), field(RESERVATION, Buffer.from(`id-${count}`))]),
  report: (count: number) => Buffer.concat([DOMAIN_FIELD, ...range(count).map((at) => usage(entry('user', `${at}`)))]),
  'empty descriptors': (count: number) => repeated(count * 100, field(2, Buffer.alloc(0))),
  'empty entries': (count: number) => descriptor(repeated(count * 100, field(1, Buffer.alloc(0)))),
  'a long text': (count: number) => field(1, Buffer.alloc(count * 4_000, 'd')),
  'which file': () => field(4, Buffer.from('envoy.service.ratelimit.v3.RateLimitService')),
  nothing: () => Buffer.alloc(0),
} as const;

const KUADRANT = '/kuadrant.service.ratelimit.v1.RateLimitService';
const RLQS = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService';
/** Each method, with a message that it accepts. */
const methods = [
  { path: '', own: 'ordinary' },
  { path: '/weir.v1.Batch/Decide', own: 'batch' },
  { path: '/weir.v1.Rules/Find', own: 'ordinary' },
  { path: '/weir.v1.Holds/Acquire', own: 'slots to wait for' },
  { path: '/weir.v1.Holds/Renew', own: 'slots to wait for' },
  { path: '/weir.v1.Holds/Release', own: 'slots to wait for' },
  { path: '/weir.v1.Holds/Reserve', own: 'hold' },
  { path: '/weir.v1.Holds/Commit', own: 'hold' },
  { path: `${KUADRANT}/CheckRateLimit`, own: 'ordinary' },
  { path: `${KUADRANT}/Report`, own: 'ordinary' },
  { path: `${KUADRANT}/Reserve`, own: 'reservation' },
  { path: `${KUADRANT}/Commit`, own: 'commit' },
  { path: `${RLQS}/StreamRateLimitQuotas`, own: 'report' },
  { path: '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', own: 'which file' },
  { path: '/grpc.health.v1.Health/Watch', own: 'a long text' },
  { path: '/grpc.health.v1.Health/Check', own: 'nothing' },
  { path: '/no.such/Method', own: 'nothing' },
] as const;

const encodings = { identity: (bytes: Buffer) => bytes, gzip: gzipSync, deflate: deflateSync } as const;

const keysOf = <T extends object>(table: T) => Object.keys(table) as (keyof T)[]; // the only keys

const anyCalls = fc.record({
  kind: fc.constant('calls' as const),
  times: fc.integer({ min: 1, max: 60 }),
  method: fc.constantFrom(...methods),
  /** Absent: the method's own message. */
  other: fc.option(fc.constantFrom(...keysOf(messages)), { nil: undefined }),
  count: fc.integer({ min: 1, max: 255 }),
  encoding: fc.constantFrom(...keysOf(encodings)),
  /** The fraction of the message that is sent. */
  sent: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
  isEnd: fc.boolean(),
  isCancelled: fc.boolean(),
});
const anyFrames = fc.record({
  kind: fc.constant('frames' as const),
  times: fc.integer({ min: 1, max: 1_000 }),
  frame: fc.constantFrom('ping', 'window', 'settings', 'half a frame', 'half a block'),
  value: fc.nat(70_000),
});
/** Changes one octet of a step. */
const anyMutation = fc.oneof(
  { arbitrary: fc.constant(undefined), weight: 7 },
  { arbitrary: fc.record({ at: fc.nat(), octet: fc.nat(255) }), weight: 1 },
);
const anyStep = fc.record({
  step: fc.oneof({ arbitrary: anyCalls, weight: 4 }, { arbitrary: anyFrames, weight: 1 }),
  mutation: anyMutation,
});
const anyClient = fc.record({
  reads: fc.boolean(),
  window: fc.constantFrom(0, 1, 65_535, MAX_WINDOW),
  steps: fc.array(anyStep, { minLength: 1, maxLength: 6 }),
});

type Calls = typeof anyCalls extends fc.Arbitrary<infer C> ? C : never;
type Frames = typeof anyFrames extends fc.Arbitrary<infer F> ? F : never;
type Client = typeof anyClient extends fc.Arbitrary<infer C> ? C : never;

function bytesOfCalls(
  { method: { path, own }, other, count, encoding, sent, isEnd, isCancelled, times }: Calls,
  firstId: number,
): Buffer {
  const compressed = encodings[encoding](messages[other ?? own](count));
  const whole = framed(compressed, encoding === 'identity' ? 0 : 1);
  const part = whole.subarray(0, Math.ceil(whole.length * sent));
  const pieces = range(Math.ceil(part.length / MAX_DATA_BYTES)).map((at) =>
    part.subarray(at * MAX_DATA_BYTES, (at + 1) * MAX_DATA_BYTES),
  );
  const fields = { ...(path && { ':path': path }), 'grpc-encoding': encoding };
  return Buffer.concat(
    range(times).flatMap((time) => {
      const id = firstId + time * 2;
      const body = pieces.map((piece, at) => data(id, piece, isEnd && at === pieces.length - 1));
      return [callHead(id, fields), ...body, ...(isCancelled ? [rstStream(id, 8)] : [])];
    }),
  );
}

function bytesOfFrames({ frame: kind, times, value }: Frames, nextId: number): Buffer {
  const one = {
    ping: () => frame(FrameType.PING, 0, 0, Buffer.alloc(8)),
    window: () => windowUpdate(0, 1 + (value % 100)),
    settings: () => settings([Setting.INITIAL_WINDOW_SIZE, value]),
    'half a frame': () => frame(FrameType.PING, 0, 0, Buffer.alloc(8)).subarray(0, 1 + (value % 16)),
    'half a block': () => frame(FrameType.HEADERS, 0, nextId, Buffer.alloc(value % 16_000, 1)),
  }[kind]();
  return Buffer.concat(range(kind.startsWith('half') ? 1 : times).map(() => one));
}

/** The amount that a client has sent. */
interface Sent {
  readonly bytes: number;
  readonly streams: number;
  /** The number of buckets that it may have reported. */
  readonly buckets: number;
}

async function play(socket: Socket, { window, steps }: Client): Promise<Sent> {
  let nextId = 1;
  let bytes = 0;
  let buckets = 0;
  const send = (sent: Buffer): void => {
    bytes += sent.length;
    socket.write(sent);
  };
  send(Buffer.concat([PREFACE, settings([Setting.INITIAL_WINDOW_SIZE, window])]));
  for (const { step, mutation } of steps) {
    const sent = step.kind === 'calls' ? bytesOfCalls(step, nextId) : bytesOfFrames(step, nextId);
    if (mutation && sent.length > 0) sent[mutation.at % sent.length] = mutation.octet;
    if (step.kind === 'calls') {
      nextId += step.times * 2;
      if (step.method.own === 'report') buckets += step.times * Math.min(step.count * 100, STORES.maxBuckets);
    }
    send(sent);
    await sleep(1);
  }
  return { bytes, buckets, streams: (nextId - 1) / 2 };
}

/** Waits until the server has read all that the clients sent, or reads no more. */
async function settle(sockets: readonly Socket[]): Promise<void> {
  for (let before = -1, left = 0; before !== left; ) {
    before = left;
    await sleep(20);
    left = sockets.reduce((sum, socket) => sum + socket.writableLength, 0);
  }
  const other = await openRaw(server.port);
  other.send(call(1));
  await other.reply(1);
  other.close();
}

/**
 * Runs the clients. @returns what they sent, and the memory in use meanwhile and afterwards, in bytes more than before
 */
async function exchange(clients: readonly Client[]) {
  const before = heapBytes();
  const sockets = await Promise.all(clients.map(open));
  const sent = await Promise.all(clients.map((client, at) => play(sockets[at] as Socket, client))); // one for each client
  await settle(sockets);
  const held = heapBytes() - before;
  for (const socket of sockets) socket.destroy();
  const deadlineMs = performance.now() + RETURN_MS;
  let left = heapBytes() - before;
  for (; left > LEFT_BYTES && performance.now() < deadlineMs; left = heapBytes() - before) await sleep(20);
  return { sent, held, left };
}

async function open({ reads }: Client): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  return reads ? socket.on('data', () => {}) : socket.pause();
}

/** Calls each method once. */
const callsOfEach = (encoding: keyof typeof encodings): Client => ({
  reads: true,
  window: MAX_WINDOW,
  steps: methods.map((method) => ({
    step: {
      ...{ kind: 'calls', times: 1, method, other: undefined, count: 1 },
      ...{ encoding, sent: 1, isEnd: true, isCancelled: false },
    },
    mutation: undefined,
  })),
});

const allowedFor = ({ bytes, streams, buckets }: Sent): number =>
  bytes * HELD.perByte + streams * HELD.perStream + buckets * HELD.perBucket + HELD.perConnection;

test('memory is bounded by what clients send, and is released when their connections end', async () => {
  await exchange(keysOf(encodings).map(callsOfEach)); // loads all services
  await exchange(fc.sample(anyClient, { numRuns: 4 })); // fills caches
  await fc.assert(
    fc.asyncProperty(fc.array(anyClient, { minLength: 1, maxLength: 4 }), async (clients) => {
      const { sent, held, left } = await exchange(clients);
      const allowed = sent.reduce<number>((sum, one) => sum + allowedFor(one), HELD.besides);
      expect(held).toBeLessThan(allowed);
      expect(left).toBeLessThan(LEFT_BYTES);
    }),
    { numRuns: RUNS, endOnFailure: true },
  );
});
