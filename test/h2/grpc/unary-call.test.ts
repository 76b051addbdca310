import '../../helpers/realm.ts';
import { deflateSync, gzipSync } from 'node:zlib';
import { status } from '@grpc/grpc-js';
import type { Overload } from '../../../src/edge/overload/overload.ts';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import type { Caller, CallOutcome, RlsService } from '../../../src/edge/rls/service.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import type { PendingCall } from '../../../src/h2/bounds/call-queue.ts';
import { MAX_REQUEST_BYTES } from '../../../src/h2/grpc/message-reader.ts';
import { ErrorCode } from '../../../src/h2/http2/errors.ts';
import { Flag, FrameType } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { gate } from '../../helpers/gate.ts';
import { OK } from '../../helpers/grpc-server.ts';
import {
  call,
  callHead,
  data,
  type Fields,
  frame,
  framed,
  message,
  openRaw,
  question,
  type RawClient,
  type Reply,
  rstStream,
  uint32,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { overloadOf } from '../../helpers/overload.ts';

let server: H2Server;
let client: RawClient;
/** The requests that the service received. */
let asked: { readonly request: WireRequest; readonly caller: Caller }[];
/** The service's answer. */
let answer: (reply: (outcome: CallOutcome) => void) => void;
/** Calls reported to onCallFinished. */
let reported: unknown[];

const service: RlsService = {
  async shouldRateLimit(request, caller, reply) {
    asked.push({ request, caller });
    answer(reply);
  },
};

beforeEach(async () => {
  asked = [];
  reported = [];
  answer = (reply) => reply({ response: OK });
  server = await startH2({ service, onCallFinished: (method, code) => reported.push([method, code]) });
  client = await openRaw(server.port);
});
afterEach(async () => {
  client.close();
  await server.close(0);
  expect(server.failures).toEqual([]);
});

/** Sends a call with this body. @returns the reply */
async function ask(body: Uint8Array, fields: Fields = {}): Promise<Reply> {
  client.send(callHead(1, fields), data(1, body, true));
  return client.reply(1);
}

const failure = (code: status, message: string | RegExp) => ({
  body: Buffer.alloc(0),
  fields: expect.objectContaining({
    ':status': '200',
    'content-type': 'application/grpc',
    'grpc-status': String(code),
    'grpc-message': expect.stringMatching(message),
  }),
});

const wellAnswered = {
  fields: { ':status': '200', 'content-type': 'application/grpc', 'grpc-status': '0' },
  body: framed(shouldRateLimit.responseSerialize(OK)),
};

describe('a call is answered', () => {
  afterEach(() => expect(asked.map(({ request }) => request)).toEqual([question]));

  test('with a message in one frame', async () => expect(await ask(framed(message))).toEqual(wellAnswered));

  test('with a message in frames of one octet', async () => {
    client.send(
      callHead(1),
      ...Array.from(framed(message), (octet) => data(1, Buffer.of(octet))),
      data(1, Buffer.alloc(0), true),
    );
    expect(await client.reply(1)).toEqual(wellAnswered);
  });

  test('with a message in frames that end where its prefix does', async () => {
    const bytes = framed(message);
    client.send(callHead(1), data(1, bytes.subarray(0, 5)), data(1, bytes.subarray(5), true));
    expect(await client.reply(1)).toEqual(wellAnswered);
  });

  test('with a message in frames with padding', async () => {
    const padded = (bytes: Buffer, padding: number): Buffer =>
      Buffer.concat([Buffer.of(padding), bytes, Buffer.alloc(padding)]);
    const [one, other] = [framed(message).subarray(0, 9), framed(message).subarray(9)];
    client.send(
      callHead(1),
      frame(FrameType.DATA, Flag.PADDED, 1, padded(one, 0)),
      frame(FrameType.DATA, Flag.PADDED, 1, padded(Buffer.alloc(0), 255)),
      frame(FrameType.DATA, Flag.PADDED | Flag.END_STREAM, 1, padded(other, 100)),
    );
    expect(await client.reply(1)).toEqual(wellAnswered);
  });

  test('if its request ends with trailers', async () => {
    const trailers = encodeFields([['x-trailer', 'the end']]);
    client.send(
      callHead(1),
      data(1, framed(message)),
      frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 1, trailers),
    );
    expect(await client.reply(1)).toEqual(wellAnswered);
  });

  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
  ] as const)('with a message compressed with %s', async (encoding, compress) =>
    expect(await ask(framed(compress(message), 1), { 'grpc-encoding': encoding })).toEqual(wellAnswered),
  );

  test('with an uncompressed message despite a grpc-encoding', async () =>
    expect(await ask(framed(message), { 'grpc-encoding': 'gzip' })).toEqual(wellAnswered));

  test('with a message as large as the limit after decompression', async () => {
    const length = MAX_REQUEST_BYTES - message.length - 5;
    const filler = Buffer.concat([Buffer.of(0x7a, 0, 0, 0, 0), Buffer.alloc(length)]); // an unknown field 15
    for (let rest = length, at = 1; at <= 4; rest >>= 7, at++) filler[at] = (rest & 0x7f) | (at < 4 ? 0x80 : 0);
    expect(await ask(framed(gzipSync(Buffer.concat([message, filler])), 1), { 'grpc-encoding': 'gzip' })).toEqual(
      wellAnswered,
    );
  });
});

/** A gzip stream that claims this uncompressed size. */
function withSize(stream: Buffer, size: number): Buffer {
  stream.writeUInt32LE(size, stream.length - 4);
  return stream;
}

describe('a message is refused without calling the service', () => {
  afterEach(async () => {
    expect([asked, reported]).toEqual([[], []]);
    client.send(call(3));
    expect(await client.reply(3)).toEqual(wellAnswered);
  });

  test.each<[string, Uint8Array, Fields, status, string]>([
    ['none at all', Buffer.alloc(0), {}, status.UNIMPLEMENTED, 'the method takes one message, got none'],
    [
      'two',
      Buffer.concat([framed(message), framed(message)]),
      {},
      status.UNIMPLEMENTED,
      'the method takes one message, got more',
    ],
    ['half of one', framed(message).subarray(0, 9), {}, status.INTERNAL, 'the request ends in the middle of a message'],
    ['half a prefix', Buffer.alloc(3), {}, status.INTERNAL, 'the request ends in the middle of a message'],
    ['one of another type', framed(Buffer.of(0x0a, 5, 0x61)), {}, status.INTERNAL, 'the request cannot be decoded: '],
    ['an unknown flag', framed(message, 7), {}, status.INTERNAL, 'compression flag must be 0 or 1, got 7'],
    ['compressed by nothing', framed(gzipSync(message), 1), {}, status.INTERNAL, 'grpc-encoding is missing'],
    ['compressed otherwise', framed(message, 1), { 'grpc-encoding': 'gzip' }, status.INTERNAL, 'is not valid gzip'],
    [
      'a bomb',
      framed(gzipSync(Buffer.alloc(10 * MAX_REQUEST_BYTES)), 1),
      { 'grpc-encoding': 'gzip' },
      status.RESOURCE_EXHAUSTED,
      'a decompressed message may have at most 4194304 bytes',
    ],
    [
      'one that unpacks to more than it states',
      framed(withSize(gzipSync(message), message.length - 1), 1),
      { 'grpc-encoding': 'gzip' },
      status.INTERNAL,
      'is not valid gzip',
    ],
    [
      'one that states a size that its octets cannot unpack to',
      framed(withSize(gzipSync(message), MAX_REQUEST_BYTES), 1),
      { 'grpc-encoding': 'gzip' },
      status.INTERNAL,
      'is not valid gzip',
    ],
  ])('%s', async (_what, body, fields, code, problem) => {
    const half = Math.floor(body.length / 2);
    client.send(
      callHead(1, fields),
      ...parts(body.subarray(0, half)),
      ...parts(body.subarray(half)),
      data(1, Buffer.alloc(0), true),
    );
    expect(await client.reply(1)).toMatchObject(failure(code, problem));
  });

  /** DATA frames of permitted sizes. */
  const parts = (bytes: Uint8Array): readonly Buffer[] =>
    Array.from({ length: Math.ceil(bytes.length / 16_384) }, (_, at) =>
      data(1, bytes.subarray(at * 16_384, (at + 1) * 16_384)),
    );

  test('if its prefix states a length beyond the limit', async () => {
    client.send(callHead(1), data(1, Buffer.concat([Buffer.of(0), uint32(MAX_REQUEST_BYTES + 1)])));
    const tooLarge = failure(status.RESOURCE_EXHAUSTED, 'a message may have at most 4194304 bytes, got 4194305');
    expect(await client.reply(1)).toMatchObject(tooLarge);
    await client.find(
      ({ type, payload }) => type === FrameType.RST_STREAM && payload.readUInt32BE() === ErrorCode.NO_ERROR,
    );
    client.send(data(1, Buffer.alloc(1_000)), data(1, Buffer.alloc(0), true)); // already in transit
  });
});

describe('a deadline', () => {
  test.each<[string, CallOutcome]>([
    ['an answer', { response: OK }],
    ['a failure', { error: { code: status.UNAVAILABLE, details: 'no store' } }],
  ])('that is exceeded before %s arrives ends the call with DEADLINE_EXCEEDED', async (_what, outcome) => {
    answer = (reply) => setTimeout(() => reply(outcome), 20);
    expect(await ask(framed(message), { 'grpc-timeout': '1m' })).toMatchObject(
      failure(status.DEADLINE_EXCEEDED, 'Deadline exceeded'),
    );
    expect(reported).toEqual([['ShouldRateLimit', status.DEADLINE_EXCEEDED]]);
  });
});

describe('the details of a failure', () => {
  const fails = async (details: string): Promise<string | undefined> => {
    answer = (reply) => reply({ error: { code: status.INVALID_ARGUMENT, details } });
    const { fields } = await ask(framed(message));
    expect(fields['grpc-status']).toBe(String(status.INVALID_ARGUMENT));
    return fields['grpc-message'];
  };

  test.each([
    ['plain ~ text: "as it is"', 'plain ~ text: "as it is"'],
    ['100 %', '100 %25'],
    ['%41', '%2541'],
    ['redis: ', 'redis:%20'],
    ['  both ends ', '%20%20both ends%20'],
    ['  ', '%20%20'],
    ['für 5 €', 'f%C3%BCr 5 %E2%82%AC'],
    ['a\r\nb\0\x7f', 'a%0D%0Ab%00%7F'],
    ['😀', '%F0%9F%98%80'],
    ['half \ud83d', 'half %EF%BF%BD'],
    ['', ''],
  ])('are percent-encoded: %j', async (details, encoded) => expect(await fails(details)).toBe(encoded));

  test.each([
    ['a', 'a', 4_096],
    ['é', '%C3%A9', 682],
    ['€', '%E2%82%AC', 455],
    ['😀', '%F0%9F%98%80', 341],
  ])('are cut to the length that clients accept: %s', async (character, encoded, count) =>
    expect(await fails(character.repeat(20_000))).toBe(encoded.repeat(count)),
  );
});

describe('a call that waits for its turn', () => {
  let waiting: PendingCall[];
  let missed: string[];
  let counted: unknown[];
  let isKnown: boolean;
  let overload: Overload;
  let held: H2Server;
  let caller: RawClient;
  beforeEach(async () => {
    [waiting, missed, counted] = [[], [], []];
    isKnown = false;
    const queue = {
      length: 0,
      isBehind: false,
      mayRun: () => false,
      canWait: () => true,
      spend: () => {},
      close: () => {},
    };
    overload = overloadOf({
      queue: { ...queue, add: (one) => void waiting.push(one) },
      missed: (by) => void missed.push(by),
      countLate: (request, times) => void counted.push([request, times]),
      answerKnown: () => (isKnown ? OK : undefined),
    });
    held = await startH2({ service, overload });
    caller = await openRaw(held.port);
  });
  afterEach(async () => {
    caller.close();
    await held.close(0);
    overload.close();
  });

  async function queued(streamId: number, bytes = framed(message), fields: Fields = {}): Promise<PendingCall> {
    const before = waiting.length;
    caller.send(callHead(streamId, fields), data(streamId, bytes, true));
    while (waiting.length === before) await caller.settled();
    return waiting[before] as PendingCall; // just added
  }

  test('expires after half of its time, or never without a deadline', async () => {
    const timely = await queued(1, framed(message), { 'grpc-timeout': '20m' });
    const patient = await queued(3);
    expect(timely.expiresAtMs - timely.dueAtMs).toBe(0);
    expect(patient.dueAtMs - timely.dueAtMs).toBeGreaterThanOrEqual(1_000 - 10);
    expect(patient.expiresAtMs).toBe(Number.POSITIVE_INFINITY);
    expect(patient.connection).toBe(timely.connection);
  });

  test('ends without a decision when it expires, and its hits are counted with those of equal calls', async () => {
    for (const streamId of [1, 3]) (await queued(streamId)).run(0, true);
    (await queued(5, framed(gzipSync(message), 1), { 'grpc-encoding': 'gzip' })).run(0, true);
    (await queued(7, framed(Buffer.of(7)))).run(0, true);
    for (const streamId of [1, 3, 5, 7])
      expect(await caller.reply(streamId)).toMatchObject(failure(status.DEADLINE_EXCEEDED, 'Deadline exceeded'));
    overload.lateCalls.count();
    expect(counted).toEqual([
      [question, 2],
      [question, 1],
    ]);
    expect([asked, missed]).toEqual([[], ['late', 'late', 'late', 'late']]);
  });

  test('is answered, and not counted again, if the answer is known when it expires in time', async () => {
    isKnown = true;
    (await queued(1)).run(0, true);
    expect(await caller.reply(1)).toEqual(wellAnswered);
    const cancelled = await queued(3);
    caller.send(rstStream(3, ErrorCode.CANCEL));
    await caller.settled();
    cancelled.run(0, true);
    overload.lateCalls.count();
    expect([counted, asked, missed]).toEqual([[[question, 1]], [], ['cancelled']]);
  });

  test('counts, and is not decided, if its caller cancels it', async () => {
    const call = await queued(1);
    caller.send(rstStream(1, ErrorCode.CANCEL));
    await caller.settled();
    call.run(0);
    overload.lateCalls.count();
    expect([counted, asked, missed]).toEqual([[[question, 1]], [], ['cancelled']]);
  });

  test('is decided in its turn if its message is empty, compressed and in two frames', async () => {
    const empty = framed(gzipSync(''), 1);
    caller.send(
      callHead(1, { 'grpc-encoding': 'gzip' }),
      data(1, empty.subarray(0, 9)),
      data(1, empty.subarray(9), true),
    );
    while (waiting.length === 0) await caller.settled();
    waiting[0]?.run(0);
    expect([asked.length, missed]).toEqual([1, []]);
  });

  /** The number of buffers that the messages of a hundred calls take, with a domain of this length. */
  async function buffersTaken(
    length: number,
    onQueued: (call: PendingCall, streamId: number) => Promise<void>,
  ): Promise<number> {
    const long = framed(shouldRateLimit.requestSerialize({ ...question, domain: 'd'.repeat(length) }));
    const allocate = jest.spyOn(Buffer, 'allocUnsafeSlow');
    for (let id = 1; id < 200; id += 2) await onQueued(await queued(id, long), id);
    const taken = allocate.mock.calls.filter(([size]) => size >= long.length && size < 2 * long.length).length;
    allocate.mockRestore();
    return taken;
  }

  test('leaves the buffer of its message to the next one', async () => {
    const taken = await buffersTaken(3_000, async (call) => void call.run(0));
    expect(asked).toHaveLength(100);
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(50); // they are dropped once a second
  });

  test('leaves its buffer when it is cancelled, before it is its turn', async () => {
    const taken = await buffersTaken(6_000, async (_, streamId) => {
      caller.send(rstStream(streamId, ErrorCode.CANCEL));
      await caller.settled();
    });
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(50);
    for (const call of waiting) call.run(0);
    expect([asked, missed]).toEqual([[], Array(100).fill('cancelled')]);
  });
});

test('a cancelled call is not answered, and other calls are', async () => {
  const answers = gate();
  answer = (reply) => answers.passed.then(() => reply({ response: OK }));
  client.send(call(1), call(3), rstStream(1, ErrorCode.CANCEL));
  await client.settled();
  expect(asked).toHaveLength(2);
  answers.open();
  expect(await client.reply(3)).toEqual(wellAnswered);
  await client.settled();
  expect(client.frames.filter(({ streamId }) => streamId === 1)).toEqual([]);
});

test('a call that is cancelled before it is complete does not reach the service', async () => {
  client.send(callHead(1), data(1, framed(message)), rstStream(1, ErrorCode.CANCEL), call(3));
  expect(await client.reply(3)).toEqual(wellAnswered);
  expect(asked).toHaveLength(1);
});
