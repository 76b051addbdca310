import '../../helpers/realm.ts';
import { gzipSync } from 'node:zlib';
import { status } from '@grpc/grpc-js';
import { Health, type WatchedStatus } from '../../../src/edge/rls/health.ts';
import { ErrorCode } from '../../../src/h2/http2/errors.ts';
import { FrameType, Setting } from '../../../src/h2/http2/frames.ts';
import { ProtoWriter } from '../../../src/protobuf/writer.ts';
import {
  callHead,
  data,
  type Fields,
  framed,
  openRaw,
  type RawClient,
  rstStream,
  settings,
  windowUpdate,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { healthMethods } from '../../helpers/health-methods.ts';

const { Check: check, Watch: watch } = healthMethods;
const reflection = ['v1', 'v1alpha'].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
);

const healthQuestion = (service: string): Buffer => framed(check.requestSerialize({ service }));
const ratelimit = healthQuestion('ratelimit');

let server: H2Server;
let client: RawClient;
let health: Health;
let ready: boolean;
beforeEach(async () => {
  ready = true;
  health = new Health(() => ({ ready, reasons: [] }));
  server = await startH2({ health });
  client = await openRaw(server.port);
});
afterEach(async () => {
  client.close();
  health.close();
  await server.close(0);
  expect(server.failures).toEqual([]);
});

/** The messages in a stream's DATA. */
function messagesIn(body: Buffer): readonly Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    messages.push(body.subarray(at + 5, end));
    at = end;
  }
  return messages;
}

/** The DATA received on a stream. */
const dataOn = (streamId: number): Buffer =>
  Buffer.concat(
    client.frames
      .filter((one) => one.type === FrameType.DATA && one.streamId === streamId)
      .map(({ payload }) => payload),
  );

const statusesIn = (body: Buffer): readonly string[] =>
  messagesIn(body).map((message) => check.responseDeserialize(message).status);

function turn(isReady: boolean): void {
  ready = isReady;
  health.refresh();
}

describe('a unary method', () => {
  const ask = async (parts: readonly Uint8Array[], fields: Fields = {}) => {
    client.send(
      callHead(1, { ':path': check.path, ...fields }),
      ...parts.map((part) => data(1, part)),
      data(1, Buffer.alloc(0), true),
    );
    return client.reply(1);
  };

  test.each<[string, readonly Uint8Array[], Fields]>([
    ['in one piece', [ratelimit], {}],
    ['in pieces', [ratelimit.subarray(0, 3), ratelimit.subarray(3, 8), ratelimit.subarray(8)], {}],
    ['compressed', [framed(gzipSync(ratelimit.subarray(5)), 1)], { 'grpc-encoding': 'gzip' }],
  ])('accepts a message %s', async (_what, parts, fields) => {
    const reply = await ask(parts, fields);
    expect(reply.fields).toMatchObject({ ':status': '200', 'grpc-status': '0' });
    expect(statusesIn(reply.body)).toEqual(['SERVING']);
  });

  test.each<[string, readonly Uint8Array[], status, string]>([
    ['none', [], status.UNIMPLEMENTED, 'the method takes one message, got none'],
    ['two', [ratelimit, ratelimit], status.UNIMPLEMENTED, 'the method takes one message, got more'],
    ['half of one', [ratelimit.subarray(0, 8)], status.INTERNAL, 'the request ends in the middle of a message'],
    ['one of another type', [framed(Buffer.of(0x0a))], status.INTERNAL, 'the request cannot be decoded'],
    ['a name that no service has', [healthQuestion('nöbody')], status.NOT_FOUND, 'unknown service'],
  ])('that receives %s fails with the reason', async (_what, parts, code, problem) => {
    const { fields, body } = await ask(parts);
    expect(fields).toMatchObject({ 'grpc-status': String(code), 'grpc-message': expect.stringContaining(problem) });
    expect(body).toEqual(Buffer.alloc(0));
  });
});

describe('a server-streaming method', () => {
  const open = (streamId: number, fields: Fields = {}, question = ratelimit): void =>
    client.send(callHead(streamId, { ':path': watch.path, ...fields }), data(streamId, question, true));
  const nextAfter = async (count: number): Promise<void> =>
    void (await client.find((one) => one.type === FrameType.DATA && statusesIn(dataOn(one.streamId)).length > count));

  test('sends each answer immediately', async () => {
    open(1);
    await nextAfter(0);
    turn(false);
    await nextAfter(1);
    turn(true);
    await nextAfter(2);
    expect(statusesIn(dataOn(1))).toEqual(['SERVING', 'NOT_SERVING', 'SERVING']);
  });

  test('buffers answers in order while the window is closed', async () => {
    client.send(settings([Setting.INITIAL_WINDOW_SIZE, 3]));
    open(1);
    await client.settled();
    for (const isReady of [false, true, false]) turn(isReady);
    await client.settled();
    expect(dataOn(1)).toHaveLength(3);
    client.send(windowUpdate(1, 1_000));
    await client.settled();
    expect(statusesIn(dataOn(1))).toEqual(['SERVING', 'NOT_SERVING', 'SERVING', 'NOT_SERVING']);
  });

  test('ends at its deadline, and sends nothing after it', async () => {
    open(1, { 'grpc-timeout': '30m' });
    const { fields, body } = await client.reply(1);
    expect(fields).toMatchObject({
      'grpc-status': String(status.DEADLINE_EXCEEDED),
      'grpc-message': 'Deadline exceeded',
    });
    expect(statusesIn(body)).toEqual(['SERVING']);
    turn(false);
    await client.settled();
    expect(dataOn(1)).toEqual(body);
  });

  // A Node timer with a delay above its maximum fires immediately.
  test('accepts the longest deadline that gRPC can express', async () => {
    open(1, { 'grpc-timeout': '99999999H' });
    await nextAfter(0);
    turn(false);
    await nextAfter(1);
    expect(statusesIn(dataOn(1))).toEqual(['SERVING', 'NOT_SERVING']);
  });

  test('sends nothing after it was cancelled, and other calls continue', async () => {
    open(1);
    open(3);
    await client.settled();
    client.send(rstStream(1, ErrorCode.CANCEL));
    await client.settled();
    turn(false);
    await client.settled();
    expect(statusesIn(dataOn(1))).toEqual(['SERVING']);
    expect(statusesIn(dataOn(3))).toEqual(['SERVING', 'NOT_SERVING']);
  });
});

describe.each(reflection)('%s, a bidirectional method,', (path) => {
  const listServices = framed(Buffer.of(0x3a, 0)); // list_services: ''
  const LIST_SERVICES_RESPONSE = (6 << 3) | 2;
  const isListOf = (message: Buffer): boolean =>
    message.includes(LIST_SERVICES_RESPONSE) && message.includes('envoy.service.ratelimit.v3.RateLimitService');

  test('answers each request immediately, and ends when its client does', async () => {
    client.send(callHead(1, { ':path': path }));
    const questions = 20;
    for (let count = 1; count <= questions; count++) {
      client.send(data(1, listServices.subarray(0, 4)), data(1, listServices.subarray(4)));
      await client.find(({ type }) => type === FrameType.DATA && messagesIn(dataOn(1)).length === count);
      expect(messagesIn(dataOn(1)).every(isListOf)).toBe(true);
    }
    client.send(data(1, Buffer.alloc(0), true));
    expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('answers several requests in one frame', async () => {
    client.send(callHead(1, { ':path': path }), data(1, Buffer.concat([listServices, listServices]), true));
    const { fields, body } = await client.reply(1);
    expect(messagesIn(body).map(isListOf)).toEqual([true, true]);
    expect(fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('accepts a stream without requests', async () => {
    client.send(callHead(1, { ':path': path }), data(1, Buffer.alloc(0), true));
    expect(await client.reply(1)).toEqual({
      fields: { ':status': '200', 'content-type': 'application/grpc', 'grpc-status': '0' },
      body: Buffer.alloc(0),
    });
  });

  test('fails on a malformed request', async () => {
    client.send(callHead(1, { ':path': path }), data(1, listServices), data(1, framed(Buffer.of(0x3a))));
    const { fields, body } = await client.reply(1);
    expect(messagesIn(body).map(isListOf)).toEqual([true]);
    expect(fields).toMatchObject({ 'grpc-status': String(status.INTERNAL) });
  });
});

describe('after a bug in a handler', () => {
  let other: H2Server | undefined;
  let asking: RawClient;
  afterEach(async () => {
    jest.restoreAllMocks();
    asking.close();
    await other?.close(0);
    expect(other?.failures).toEqual([]);
  });

  /** Connects to a server with this health. */
  async function serve(buggy: Health): Promise<void> {
    buggy.close();
    other = await startH2({ health: buggy });
    asking = await openRaw(other.port);
  }
  const isReady = () => ({ ready: true, reasons: [] });
  const internal = { 'grpc-status': String(status.INTERNAL), 'grpc-message': 'internal error' };
  const throws = (): never => {
    throw new Error('a bug');
  };

  test.each([check.path, watch.path])(
    '%s that throws ends with INTERNAL, and its connection keeps working',
    async (path) => {
      class Throwing extends Health {
        override status = throws;
      }
      await serve(new Throwing(isReady));
      for (const id of [1, 3]) {
        asking.send(callHead(id, { ':path': path }), data(id, ratelimit, true));
        expect((await asking.reply(id)).fields).toMatchObject(internal);
      }
    },
  );

  test('a Watch that throws when it is cancelled does not affect other calls', async () => {
    class Throwing extends Health {
      override watch = () => throws;
    }
    await serve(new Throwing(isReady));
    asking.send(callHead(1, { ':path': watch.path }), data(1, ratelimit, true), rstStream(1, ErrorCode.CANCEL));
    asking.send(callHead(3, { ':path': check.path }), data(3, ratelimit, true));
    expect((await asking.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test("a Watch's writes after the call was cancelled or the connection closed are dropped", async () => {
    const listeners: ((now: WatchedStatus) => void)[] = [];
    class Deaf extends Health {
      override watch(_service: string, listener: (now: WatchedStatus) => void): () => void {
        listeners.push(listener);
        return () => {};
      }
    }
    await serve(new Deaf(isReady));
    const gone = await openRaw(other?.port ?? 0);
    for (const one of [asking, gone]) {
      one.send(callHead(1, { ':path': watch.path }), data(1, ratelimit, true));
      await one.settled();
    }
    asking.send(rstStream(1, ErrorCode.CANCEL));
    gone.close();
    await asking.settled();
    for (const listener of listeners) listener('SERVING');
    await asking.settled();
    for (const listener of listeners) listener('SERVING');
    expect(listeners).toHaveLength(2);
    expect(asking.frames.filter(({ streamId }) => streamId === 1)).toEqual([]);
  });

  test('a message that cannot be serialized ends its call, and does not throw in the code that notifies watchers', async () => {
    await serve(new Health(isReady));
    client.send(callHead(1, { ':path': watch.path }), data(1, ratelimit, true));
    await client.settled();
    jest.spyOn(ProtoWriter.prototype, 'uint32Field').mockImplementation(throws);
    turn(false);
    expect((await client.reply(1)).fields).toMatchObject(internal);
    client.send(callHead(3, { ':path': watch.path }), data(3, ratelimit, true)); // fails with its first message
    expect((await client.reply(3)).fields).toMatchObject(internal);
    expect(health.openWatches).toBe(0);
  });
});
