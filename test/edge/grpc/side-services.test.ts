import '../../helpers/realm.ts';
import { gzipSync } from 'node:zlib';
import { status } from '@grpc/grpc-js';
import { Health } from '../../../src/edge/rls/health.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { defaultMethodLimits } from '../../../src/h2/grpc/method.ts';
import { MAX_SIDE_STREAMS as MAX_STREAMS } from '../../../src/h2/grpc/router.ts';
import { ErrorCode } from '../../../src/h2/http2/errors.ts';
import { FrameType, Setting } from '../../../src/h2/http2/frames.ts';
import { Stream } from '../../../src/h2/http2/stream.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { hostKuadrant } from '../../../src/parts/kuadrant/offer.ts';
import { createKuadrantService } from '../../../src/parts/kuadrant/service.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import {
  call,
  callHead,
  data,
  type Fields,
  framed,
  openRaw,
  type RawClient,
  rstStream,
  settings,
  uint32,
  windowUpdate,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const CHECK = '/grpc.health.v1.Health/Check';
const WATCH = '/grpc.health.v1.Health/Watch';
const RESERVE = '/kuadrant.service.ratelimit.v1.RateLimitService/Reserve';
const REFLECT = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';

const {
  maxMessageBytes: MAX_MESSAGE_BYTES,
  maxUnreadBytes: MAX_UNREAD_BYTES,
  maxUnreadMessages: MAX_UNREAD_MESSAGES,
} = defaultMethodLimits;

/** A message whose first field is this text: for health the name of a service, for reflection a host. */
const named = (name: string): Buffer => {
  const bytes = Buffer.from(name);
  return Buffer.concat([Buffer.of(0x0a, (bytes.length & 0x7f) | 0x80, bytes.length >> 7), bytes]);
};
/** The file that has the Rate Limit Service: some kilobytes of answer. */
const fileOfService = framed(
  Buffer.concat([Buffer.of(0x22, 43), Buffer.from('envoy.service.ratelimit.v3.RateLimitService')]),
);

const decider = {
  ...deciderOf(rulesFrom('domain: demo')),
  ledger: ledgerOf(createMemoryBackend(Date.now, { maxCounters: 1 })),
};
const kuadrant = createKuadrantService(createKuadrantLimits(decider, createReservations(decider)), extrasOf());

let server: H2Server;
let client: RawClient;
let health: Health;
let ready: boolean;
beforeEach(async () => {
  ready = true;
  health = new Health(() => ({ ready, reasons: [] }));
  server = await startH2({ health, others: [hostKuadrant(async () => kuadrant)] });
  client = await openRaw(server.port);
});
afterEach(async () => {
  client.close();
  health.close();
  await server.close(0);
  expect(server.failures).toEqual([]);
  jest.restoreAllMocks();
});

const exhausted = (problem: string) => ({
  'grpc-status': String(status.RESOURCE_EXHAUSTED),
  'grpc-message': expect.stringContaining(problem),
});

describe.each([CHECK, WATCH, REFLECT, RESERVE])('%s', (path) => {
  const send = (streamId: number, body: Uint8Array, fields: Fields = {}): void =>
    client.send(callHead(streamId, { ':path': path, ...fields }), data(streamId, body));

  test('accepts a message of 4 KiB', async () => {
    client.send(callHead(1, { ':path': path }), data(1, framed(named('x'.repeat(MAX_MESSAGE_BYTES - 3))), true));
    await client.find(({ type, streamId }) => type === FrameType.HEADERS && streamId === 1);
    await client.settled();
    client.send(rstStream(1, 8));
    expect(client.frames.some(({ payload }) => payload.includes('at most'))).toBe(false);
  });

  test('refuses a larger message as soon as its length is known', async () => {
    send(1, Buffer.concat([Buffer.of(0), uint32(MAX_MESSAGE_BYTES + 1)]));
    expect((await client.reply(1)).fields).toMatchObject(exhausted('at most 4096 bytes'));
  });

  test('refuses a message that exceeds the limit when decompressed', async () => {
    send(1, framed(gzipSync(named('x'.repeat(MAX_MESSAGE_BYTES))), 1), { 'grpc-encoding': 'gzip' });
    expect((await client.reply(1)).fields).toMatchObject(exhausted('at most 4096 bytes'));
  });
});

describe('the streams of side services on one connection', () => {
  const watchAll = async (count: number, from = 1): Promise<void> => {
    for (let at = 0; at < count; at++) {
      const id = from + 2 * at;
      client.send(
        callHead(id, { ':path': at % 2 ? WATCH : REFLECT }),
        at % 2 ? data(id, framed(named('x')), true) : Buffer.alloc(0),
      );
    }
    await client.settled();
  };
  const statusOf = async (id: number): Promise<string | undefined> => (await client.reply(id)).fields['grpc-status'];
  const after = 1 + 2 * MAX_STREAMS;

  test('are limited to 100, without affecting decisions and other connections', async () => {
    await watchAll(MAX_STREAMS);
    for (const [at, path] of [CHECK, WATCH, REFLECT].entries()) {
      client.send(callHead(after + 2 * at, { ':path': path }));
      expect((await client.reply(after + 2 * at)).fields).toMatchObject(exhausted('100'));
    }
    client.send(call(after + 6));
    expect(await statusOf(after + 6)).toBe('0');
    const other = await openRaw(server.port);
    other.send(callHead(1, { ':path': CHECK }), data(1, framed(Buffer.alloc(0)), true));
    expect((await other.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
    other.close();
  });

  test.each<[string, (id: number) => Buffer]>([
    ['are cancelled', (id) => rstStream(id, 8)],
    ['break the limit of a message', (id) => data(id, Buffer.concat([Buffer.of(0), uint32(MAX_MESSAGE_BYTES + 1)]))],
    ['are ended by their clients', (id) => data(id, Buffer.alloc(0), true)],
  ])('free their slots when they %s', async (_how, end) => {
    for (let round = 0; round < 3; round++) {
      const from = 1 + round * 2 * MAX_STREAMS;
      for (let at = 0; at < MAX_STREAMS; at++) client.send(callHead(from + 2 * at, { ':path': REFLECT }));
      await client.settled();
      for (let at = 0; at < MAX_STREAMS; at++) client.send(end(from + 2 * at));
      await client.settled();
    }
    const last = 1 + 6 * MAX_STREAMS;
    client.send(callHead(last, { ':path': CHECK }), data(last, framed(Buffer.alloc(0)), true));
    expect(await statusOf(last)).toBe('0');
  });

  test('free their slots at their deadlines', async () => {
    for (let at = 0; at < MAX_STREAMS; at++)
      client.send(callHead(1 + 2 * at, { ':path': REFLECT, 'grpc-timeout': '20m' }));
    for (let at = 0; at < MAX_STREAMS; at++) expect(await statusOf(1 + 2 * at)).toBe(String(status.DEADLINE_EXCEEDED));
    client.send(callHead(after, { ':path': CHECK }), data(after, framed(Buffer.alloc(0)), true));
    expect(await statusOf(after)).toBe('0');
  });
});

describe('a reflection stream whose client does not read', () => {
  const QUESTIONS = 1_000;
  const questions = Buffer.concat(Array.from({ length: QUESTIONS }, () => fileOfService));
  /** Sends the questions in frames of 16 KiB. */
  const askAll = (): void => {
    const frames: Buffer[] = [];
    for (let at = 0; at < questions.length; at += 16_384) frames.push(data(1, questions.subarray(at, at + 16_384)));
    client.send(callHead(1, { ':path': REFLECT }), ...frames);
  };

  test('is ended when 64 KiB wait for its window', async () => {
    client.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]));
    askAll();
    await client.settled();
    client.send(windowUpdate(1, 2 ** 30), windowUpdate(0, 2 ** 30));
    const { fields, body } = await client.reply(1);
    expect(fields).toMatchObject(exhausted('read'));
    expect(body.length).toBeLessThan(MAX_UNREAD_BYTES + 16_384);
  });

  test('is ended when 64 KiB wait for its connection', async () => {
    client.send(settings([Setting.INITIAL_WINDOW_SIZE, 2 ** 30]), windowUpdate(0, 2 ** 30));
    await client.settled();
    let mostBytes = 0;
    let bytes = 0;
    const send = Stream.prototype.data;
    jest.spyOn(Stream.prototype, 'data').mockImplementation(function (this: Stream, message) {
      if (bytes === 0)
        setImmediate(() => {
          bytes = 0;
        });
      bytes += message.length;
      mostBytes = Math.max(mostBytes, bytes);
      send.call(this, message);
    });
    askAll();
    expect((await client.reply(1)).fields).toMatchObject(exhausted('read'));
    expect(mostBytes).toBeLessThan(MAX_UNREAD_BYTES + 16_384);
  });
});

test('a Watch whose client does not read is ended when 16 statuses wait', async () => {
  client.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]));
  client.send(callHead(1, { ':path': WATCH }), data(1, framed(named('ratelimit')), true));
  await client.settled();
  expect(health.openWatches).toBe(1);
  for (let changes = 1; changes <= MAX_UNREAD_MESSAGES; changes++) {
    ready = !ready;
    health.refresh();
  }
  expect(health.openWatches).toBe(0);
  client.send(windowUpdate(1, 1_000));
  const { fields, body } = await client.reply(1);
  expect(fields).toMatchObject(exhausted('read'));
  expect(body).toHaveLength(MAX_UNREAD_MESSAGES * 7);
});

test('data after the end of a request does not affect other calls', async () => {
  const unruly = await startH2({ health });
  const other = await openRaw(unruly.port);
  other.send(callHead(1, { ':path': WATCH }), data(1, framed(named('ratelimit')), true));
  other.send(data(1, framed(named('ratelimit'))));
  expect((await other.reply(1)).reset).toBe('STREAM_CLOSED');
  expect(health.openWatches).toBe(0);
  other.send(callHead(3, { ':path': CHECK }), data(3, framed(Buffer.alloc(0)), true));
  expect((await other.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
  other.close();
  await unruly.close(0);
  expect(unruly.failures).toEqual(['STREAM_CLOSED']);
});

test('data on a stream whose end waits for the window is dropped', async () => {
  client.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]));
  const tooLarge = Buffer.concat([Buffer.of(0), uint32(MAX_MESSAGE_BYTES + 1)]);
  client.send(callHead(1, { ':path': REFLECT }), data(1, fileOfService), data(1, tooLarge));
  for (let times = 0; times < 100; times++) client.send(data(1, fileOfService));
  await client.settled();
  client.send(windowUpdate(1, 2 ** 20));
  const { fields, body } = await client.reply(1);
  expect(fields).toMatchObject(exhausted('at most'));
  expect(body.length).toBe(5 + body.readUInt32BE(1)); // one answer
});

describe('the memory charged for a stream', () => {
  /** The sum for each stream, in the order in which they were opened. */
  let sums: Map<Stream, number>;
  const charged = (): readonly number[] => [...sums.values()];
  beforeEach(() => {
    sums = new Map();
    jest.spyOn(Stream.prototype, 'charge').mockImplementation(function (this: Stream, bytes) {
      sums.set(this, (sums.get(this) ?? 0) + bytes);
    });
  });

  const CALL_BYTES = 8_192;

  test('is constant, plus the buffer of a partial message', async () => {
    client.send(callHead(1, { ':path': REFLECT }));
    await client.settled();
    expect(charged()).toEqual([CALL_BYTES]);
    client.send(data(1, fileOfService.subarray(0, 10)));
    await client.settled();
    const wholeBytes = fileOfService.length; // its length is known
    expect(charged()).toEqual([CALL_BYTES + wholeBytes]);
    client.send(data(1, fileOfService.subarray(10)));
    await client.settled();
    expect(charged()).toEqual([CALL_BYTES]);
  });

  test('includes the request until its handler is called', async () => {
    const name = 'x'.repeat(1_000);
    client.send(callHead(1, { ':path': WATCH }), data(1, framed(named(name))));
    await client.settled();
    expect(charged()).toEqual([CALL_BYTES + 1_003]);
    client.send(data(1, Buffer.alloc(0), true));
    await client.settled();
    expect(charged()).toEqual([CALL_BYTES]);
  });

  test('includes the parts of a request that come before its service is loaded', async () => {
    const fresh = await startH2();
    const other = await openRaw(fresh.port);
    const parts = Array.from({ length: 100 }, (_, at) => data(1, fileOfService.subarray(at % 2, (at % 2) + 1)));
    const charge = jest.mocked(Stream.prototype.charge);
    other.send(callHead(1, { ':path': REFLECT }), ...parts, rstStream(1, 8));
    await other.settled();
    const most = charge.mock.calls.reduce((sum, [bytes]) => sum + Math.max(bytes, 0), 0);
    expect(most).toBeGreaterThanOrEqual(parts.length);
    other.close();
    await fresh.close(0);
  });

  test('leaves nothing open when the charge ends the stream at once', async () => {
    jest.spyOn(Stream.prototype, 'charge').mockImplementation(function (this: Stream) {
      this.reset(ErrorCode.ENHANCE_YOUR_CALM);
    });
    for (const [at, path] of [REFLECT, WATCH, CHECK].entries()) {
      const id = 1 + 2 * at;
      client.send(callHead(id, { ':path': path, 'grpc-timeout': '1H' }), data(id, framed(named('ratelimit')), true));
      expect((await client.reply(id)).reset).toBe('ENHANCE_YOUR_CALM');
    }
    expect(health.openWatches).toBe(0);
  });
});

test.each<[string, string, Buffer]>([
  ['its client ends it', REFLECT, data(1, Buffer.alloc(0), true)],
  ['its client cancels it', WATCH, rstStream(1, 8)],
  ['it is answered', CHECK, data(1, framed(Buffer.alloc(0)), true)],
  ['it fails', CHECK, data(1, Buffer.alloc(0), true)],
])('a call with a deadline leaves no timer when %s', async (_how, path, end) => {
  const timers = new Set<unknown>();
  const [set, clear] = [globalThis.setTimeout, globalThis.clearTimeout];
  jest.spyOn(globalThis, 'setTimeout').mockImplementation(((what: () => void, ms: number) => {
    const timer = set(what, ms);
    if (ms === 3_600_000) timers.add(timer);
    return timer;
  }) as typeof setTimeout);
  jest.spyOn(globalThis, 'clearTimeout').mockImplementation((timer) => {
    timers.delete(timer);
    clear(timer);
  });
  client.send(callHead(1, { ':path': path, 'grpc-timeout': '1H' }));
  await client.settled();
  expect(timers.size).toBe(1);
  client.send(end);
  await client.settled();
  expect(timers.size).toBe(0);
});
