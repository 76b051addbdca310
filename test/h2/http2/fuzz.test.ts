import '../../helpers/realm.ts';
import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Metadata } from '@grpc/grpc-js';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import { Flag, FrameType, PREFACE } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import {
  call,
  callFields,
  data,
  frame,
  framed,
  message,
  openRaw,
  parseFrames,
  type Reply,
  settings,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { heapBytes } from '../../helpers/heap.ts';
import fc from '../../helpers/property.ts';
import { record } from '../../helpers/recorder.ts';

/** Upper bound for the memory of one connection. */
const MAX_GROWTH_BYTES = 16_777_216;

let server: H2Server;
/** Bytes of real clients, each of a whole connection. */
let captures: readonly Buffer[];
let bytesBefore: number;

beforeAll(async () => {
  server = await startH2();
  captures = [await record(server.port, speakAsGrpcJs), await record(server.port, speakAsNode)];
  expect(server.failures).toEqual([]);
  bytesBefore = heapBytes();
});
afterEach(async () => {
  const client = await openRaw(server.port);
  client.send(call(1));
  expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
  client.close();
  expect(server.failures).not.toContain('INTERNAL_ERROR'); // a bug of the server
});
afterAll(async () => {
  const bytes = heapBytes();
  await server.close(0);
  expect(bytes - bytesBefore).toBeLessThan(MAX_GROWTH_BYTES);
});

async function speakAsGrpcJs(port: number): Promise<void> {
  const client = createClient(`127.0.0.1:${port}`);
  const metadata = new Metadata();
  metadata.set('traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
  for (let round = 0; round < 3; round++) await client.ask('demo', metadata);
  await Promise.all([client.ask('some'), client.ask('other'), client.check()]);
  await expect(client.check('unknown')).rejects.toThrow();
  await expect(client.call('/no.such/Method')).rejects.toThrow();
  client.close();
}

/** Sends calls with padding, trailers, a message in pieces and a compressed one. */
async function speakAsNode(port: number): Promise<void> {
  const session = connectHttp2(`http://127.0.0.1:${port}`, { paddingStrategy: constants.PADDING_STRATEGY_MAX });
  const head = { ':method': 'POST', ':path': shouldRateLimit.path, 'content-type': 'application/grpc', te: 'trailers' };
  for (const [parts, fields] of [
    [[framed(message)], {}],
    [[framed(message).subarray(0, 7), framed(message).subarray(7)], { 'grpc-timeout': '10S' }],
    [[framed(gzipSync(message), 1)], { 'grpc-encoding': 'gzip' }],
  ] as const) {
    const stream = session.request({ ...head, ...fields }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-trailer': 'the end' }));
    for (const part of parts) await new Promise((resolve) => stream.write(part, resolve));
    stream.end();
    const [trailers] = await once(stream.resume(), 'trailers');
    expect(trailers).toMatchObject({ 'grpc-status': '0' });
  }
  session.destroy();
}

/** Sends the parts, with a turn of the event loop between them. @returns the answers on all streams of the capture */
async function play(parts: readonly Uint8Array[], streamIds: readonly number[]): Promise<readonly Reply[]> {
  const client = await openRaw(server.port, { greeting: [] });
  try {
    for (const part of parts) {
      client.send(part);
      await nextTurn();
    }
    return await Promise.all(streamIds.map((streamId) => client.reply(streamId)));
  } finally {
    client.close();
  }
}

const streamsIn = (capture: Buffer): readonly number[] => [
  ...new Set(
    parseFrames(capture.subarray(PREFACE.length))
      .read.filter(({ type }) => type === FrameType.HEADERS)
      .map(({ streamId }) => streamId),
  ),
];

/** Splits the bytes before each of these octets. */
function split(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const places = [...new Set([0, ...cuts.map((cut) => cut % bytes.length)])].sort((one, other) => one - other);
  return places.map((from, at) => bytes.subarray(from, places[at + 1]));
}

describe('a connection is answered in the same way', () => {
  test('when it arrives octet by octet', async () => {
    const statuses = [
      ['0', '0', '0', '0', '0', '0', '5', '12'],
      ['0', '0', '0'],
    ];
    for (const [which, capture] of captures.entries()) {
      const streamIds = streamsIn(capture);
      const expected = await play([capture], streamIds);
      expect(expected.map(({ fields }) => fields['grpc-status'])).toEqual(statuses[which]);
      expect(await play(split(capture, [...capture.keys()]), streamIds)).toEqual(expected);
    }
  });

  test('no matter where its input is split', async () => {
    const expected = await Promise.all(captures.map((capture) => play([capture], streamsIn(capture))));
    const anyCuts = fc.array(fc.nat(), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(fc.nat(captures.length - 1), anyCuts, async (which, cuts) => {
        const capture = captures[which] ?? Buffer.alloc(0);
        expect(await play(split(capture, cuts), streamsIn(capture))).toEqual(expected[which]);
      }),
      { numRuns: 50 },
    );
  });
});

/** Sends these bytes only; resolves when the server has closed the connection. */
async function throwAt(...bytes: readonly Uint8Array[]): Promise<void> {
  const client = await openRaw(server.port, { greeting: bytes });
  client.socket.end();
  await client.ended();
}

const anyOctets = (maxLength: number) => fc.uint8Array({ maxLength }).map((octets) => Buffer.from(octets));

describe('the server survives', () => {
  test('random octets instead of a connection', async () => {
    const greetings = [[], [PREFACE], [PREFACE, settings()]];
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...greetings), anyOctets(1_000), (greeting, octets) =>
        throwAt(...greeting, octets),
      ),
      { numRuns: 60 },
    );
  });

  test('random changes to recorded connections of real clients', async () => {
    const at = fc.nat();
    const anyMutation = fc.oneof(
      fc.record({ kind: fc.constant('octet' as const), at, octet: fc.nat(255) }),
      fc.record({ kind: fc.constant('cut out' as const), at, length: fc.nat(30) }),
      fc.record({ kind: fc.constant('put in' as const), at, octets: anyOctets(30) }),
      fc.record({ kind: fc.constant('twice' as const), at, length: fc.nat(200) }),
    );
    type Mutation = typeof anyMutation extends fc.Arbitrary<infer M> ? M : never;
    function mutate(bytes: Buffer, mutation: Mutation): Buffer {
      const from = PREFACE.length + (mutation.at % (bytes.length - PREFACE.length));
      const [before, after] = [bytes.subarray(0, from), bytes.subarray(from)];
      switch (mutation.kind) {
        case 'octet':
          return Buffer.concat([before, Buffer.of(mutation.octet), after.subarray(1)]);
        case 'cut out':
          return Buffer.concat([before, after.subarray(mutation.length)]);
        case 'put in':
          return Buffer.concat([before, mutation.octets, after]);
        case 'twice':
          return Buffer.concat([before, after.subarray(0, mutation.length), after]);
      }
    }
    const anyMutations = fc.array(anyMutation, { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.nat(captures.length - 1), anyMutations, async (which, mutations) => {
        await throwAt(mutations.reduce(mutate, captures[which] ?? Buffer.alloc(0)));
      }),
      { numRuns: 200 },
    );
  });
});

test('a connection answers random frames, or ends with an error code', async () => {
  const streamId = fc.constantFrom(0, 1, 1, 3, 3, 5, 2, 2 ** 31 - 1);
  const block = encodeFields(callFields());
  const payload = fc.oneof(
    anyOctets(30),
    fc.nat(20).map((length) => Buffer.alloc(length)),
    fc.constantFrom<Buffer>(block, framed(message), framed(message, 1)),
  );
  const flags = fc.oneof(
    fc.constantFrom(0, Flag.END_STREAM, Flag.END_HEADERS, Flag.END_HEADERS | Flag.END_STREAM),
    fc.nat(255),
  );
  const anyFrame = fc.oneof(
    { arbitrary: fc.tuple(fc.nat(12), flags, streamId, payload).map((parts) => frame(...parts)), weight: 3 },
    {
      arbitrary: fc
        .tuple(streamId, fc.nat(1))
        .map(([id, isEnd]) => frame(FrameType.HEADERS, Flag.END_HEADERS | isEnd, id, block)),
      weight: 1,
    },
    { arbitrary: streamId.map((id) => data(id, framed(message), true)), weight: 1 },
  );
  const ends: string[] = [];
  await fc.assert(
    fc.asyncProperty(fc.array(anyFrame, { minLength: 1, maxLength: 15 }), async (frames) => {
      const client = await openRaw(server.port);
      client.send(...frames);
      ends.push(
        await client.settled().then(
          () => 'answered',
          async () => (await client.ended()).code,
        ),
      );
      client.close();
    }),
    { numRuns: 200 },
  );
  expect(new Set(ends)).toEqual(
    new Set(['answered', 'PROTOCOL_ERROR', 'FRAME_SIZE_ERROR', 'COMPRESSION_ERROR', 'STREAM_CLOSED']),
  );
});
