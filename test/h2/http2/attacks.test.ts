import '../../helpers/realm.ts';
import { status } from '@grpc/grpc-js';
import type { GrpcServerOptions } from '../../../src/edge/grpc/grpc-server.ts';
import { ErrorCode } from '../../../src/h2/http2/errors.ts';
import { DEFAULT_WINDOW, Flag, FrameType, MAX_WINDOW, PREFACE, Setting } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import type { Http2Limits } from '../../../src/h2/http2/limits.ts';
import { gate } from '../../helpers/gate.ts';
import { OK } from '../../helpers/grpc-server.ts';
import {
  call,
  callFields,
  callHead,
  data,
  frame,
  framed,
  goaway,
  message,
  openRaw,
  type RawClient,
  rstStream,
  settings,
  windowUpdate,
} from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { until } from '../../helpers/until.ts';

let server: H2Server;
let clients: RawClient[];
beforeEach(() => {
  clients = [];
});
afterEach(async () => {
  await expectOthersAreAnswered();
  for (const client of clients) client.close();
  await server.close(0);
});

/** Starts a server with these limits, and opens a connection to it. */
async function open(limits: Partial<Http2Limits>, changes: Partial<GrpcServerOptions> = {}): Promise<RawClient> {
  server = await startH2(changes, limits);
  return openAnother();
}

async function openAnother(...greeting: readonly Uint8Array[]): Promise<RawClient> {
  const client = await openRaw(server.port, greeting.length > 0 ? { greeting } : {});
  clients.push(client);
  return client;
}

async function expectOthersAreAnswered(): Promise<void> {
  const other = await openAnother();
  other.send(call(1));
  expect((await other.reply(1)).fields).toMatchObject({ ':status': '200', 'grpc-status': '0' });
}

/** Expects the connection to end with this error code, and the error to be reported. */
async function expectEnd(client: RawClient, code: keyof typeof ErrorCode): Promise<void> {
  expect((await client.ended()).code).toBe(code);
  expect(server.failures).toContain(code);
}

/** A service whose answers wait until `letThrough` is called. */
function slowly() {
  const letThrough = gate();
  const counts = { asked: 0 };
  const service: GrpcServerOptions['service'] = {
    async shouldRateLimit(_request, _caller, reply) {
      counts.asked++;
      await letThrough.passed;
      reply({ response: OK });
    },
  };
  return { service, counts, answer: letThrough.open };
}

/** A service whose answers are slightly longer than this. */
const large = (octets: number): Partial<GrpcServerOptions> => ({
  service: {
    shouldRateLimit: async ({ domain }, _caller, reply) =>
      reply({
        response:
          domain === 'demo' ? OK : { ...OK, response_headers_to_add: [{ key: 'padding', value: '-'.repeat(octets) }] },
      }),
  },
});
/** A call to which `large` gives a long answer. */
const largeCall = (streamId: number): Buffer =>
  Buffer.concat([callHead(streamId), data(streamId, framed(Buffer.from('\n\x05large')), true)]);

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);
const streamIds = (count: number, from = 1): readonly number[] => range(count).map((at) => from + at * 2);

describe('cancelled calls do not free their slots before their handlers return', () => {
  test('when the client resets its streams (rapid reset)', async () => {
    const { service, counts, answer } = slowly();
    const client = await open({ maxConcurrentStreams: 5 }, { service });
    client.send(...streamIds(100).map((id) => Buffer.concat([call(id), rstStream(id, ErrorCode.CANCEL)])));
    await client.settled();
    expect(counts.asked).toBe(5);
    expect(server.failures).toEqual(range(95).map(() => 'REFUSED_STREAM'));
    answer();
    client.send(call(201));
    expect((await client.reply(201)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('when the client provokes resets by the server (made you reset)', async () => {
    const { service, counts, answer } = slowly();
    const client = await open({ maxConcurrentStreams: 5 }, { service });
    client.send(...streamIds(5).map((id) => Buffer.concat([call(id), windowUpdate(id, MAX_WINDOW)])));
    for (const id of streamIds(5)) expect((await client.reply(id)).reset).toBe('FLOW_CONTROL_ERROR');
    client.send(call(11));
    expect((await client.reply(11)).reset).toBe('REFUSED_STREAM');
    expect(counts.asked).toBe(5);
    answer();
    client.send(call(13));
    expect((await client.reply(13)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test.each([
    ['requests that are cancelled before they are complete', (id: number) => [callHead(id), rstStream(id, 8)]],
    ['requests that the server resets for their trailers', (id: number) => [callHead(id), callHead(id)]],
    ['requests that are malformed', (id: number) => [callHead(id, { ':path': '' })]],
    ['requests that are refused', (id: number) => [callHead(id)]],
  ])('%s', async (_what, attack) => {
    const client = await open({ controlFrames: 60, controlFramesPerSecond: 0, maxConcurrentStreams: 5 });
    client.send(...streamIds(100).flatMap(attack));
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });
});

describe('a flood of control frames ends its connection', () => {
  const block = encodeFields(callFields());
  const floods: Readonly<Record<string, Buffer>> = {
    'PING (CVE-2019-9512)': frame(FrameType.PING, 0, 0, Buffer.alloc(8)),
    'answers to PING': frame(FrameType.PING, Flag.ACK, 0, Buffer.alloc(8)),
    'SETTINGS (CVE-2019-9515)': settings(),
    'answers to SETTINGS': frame(FrameType.SETTINGS, Flag.ACK, 0),
    'PRIORITY (CVE-2019-9513)': frame(FrameType.PRIORITY, 0, 3, Buffer.alloc(5)),
    'empty DATA (CVE-2019-9518)': data(1, Buffer.alloc(0)),
    'DATA of padding alone': frame(
      FrameType.DATA,
      Flag.PADDED,
      1,
      Buffer.alloc(11, Buffer.of(10, ...range(10).map(() => 0))),
    ),
    'WINDOW_UPDATE on the connection': windowUpdate(0, 1),
    'WINDOW_UPDATE on a stream': windowUpdate(1, 1),
    GOAWAY: goaway(ErrorCode.NO_ERROR),
    'frames of no known type': frame(0xfe, 0, 0, Buffer.alloc(3)),
  };

  test.each(Object.entries(floods))('%s', async (_what, flood) => {
    const client = await open({ controlFrames: 50, controlFramesPerSecond: 0 });
    client.send(callHead(1), ...range(40).map(() => flood));
    client.send(call(3));
    expect((await client.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
    client.send(...range(40).map(() => flood));
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });

  test('RST_STREAM on a stream that has ended', async () => {
    const client = await open({ controlFrames: 50, controlFramesPerSecond: 0 });
    client.send(call(1));
    await client.reply(1);
    client.send(...range(60).map(() => rstStream(1, ErrorCode.CANCEL)));
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });

  test('settings in one frame', async () => {
    const client = await open({ controlFrames: 50, controlFramesPerSecond: 0 });
    client.send(settings(...range(60).map((at) => [Setting.INITIAL_WINDOW_SIZE, at] as const)));
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });

  test('empty CONTINUATION frames (CVE-2024-27316)', async () => {
    const client = await open({ controlFrames: 50, controlFramesPerSecond: 0 });
    client.send(frame(FrameType.HEADERS, 0, 1, block), ...range(60).map(() => frame(FrameType.CONTINUATION, 0, 1)));
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });

  test('CONTINUATION frames of an endless header block', async () => {
    const client = await open({ maxHeaderBlockBytes: 20_000 });
    const part = Buffer.alloc(1_000);
    client.send(
      frame(FrameType.HEADERS, 0, 1, block),
      ...range(30).map(() => frame(FrameType.CONTINUATION, 0, 1, part)),
    );
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });

  test('requests after GOAWAY', async () => {
    const { service, answer } = slowly();
    const limits = { maxCount: 10, maxAgeMs: 1, maxAgeGraceMs: 0, keepaliveTimeMs: 0, keepaliveTimeoutMs: 0 };
    const client = await open({ controlFrames: 50, controlFramesPerSecond: 0 }, { service, connections: limits });
    client.send(call(1));
    const ping = await client.find(({ type }) => type === FrameType.PING);
    client.send(frame(FrameType.PING, Flag.ACK, 0, ping.payload));
    await client.find(({ type, payload }) => type === FrameType.GOAWAY && payload.readUInt32BE() === 1);
    client.send(...streamIds(60, 3).map((id) => callHead(id, {}, Flag.END_STREAM)));
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
    answer();
  });

  test('complete calls refill the budget that legitimate clients need', async () => {
    const client = await open({ controlFrames: 50, controlFramesPerSecond: 0 });
    for (const id of streamIds(100)) {
      client.send(
        call(id),
        windowUpdate(0, 10),
        frame(FrameType.PING, 0, 0, Buffer.alloc(8)),
        frame(FrameType.PING, Flag.ACK, 0, Buffer.alloc(8)),
      );
      expect((await client.reply(id)).fields).toMatchObject({ 'grpc-status': '0' });
    }
    expect(server.failures).toEqual([]);
  });
});

describe('header fields', () => {
  /** 0x40: a literal that is added to the dynamic table; 0xbe: the table's newest entry. */
  const literal = (name: string, value: string): Buffer => Buffer.concat([Buffer.of(0x40), text(name), text(value)]);
  function text(octets: string): Buffer {
    const length =
      octets.length < 127 ? [octets.length] : [127, ((octets.length - 127) & 127) | 128, (octets.length - 127) >> 7];
    return Buffer.concat([Buffer.of(...length), Buffer.from(octets)]);
  }

  test('beyond the limit are answered with 431, and their effect on the dynamic table is kept (HPACK bomb)', async () => {
    const client = await open({ maxHeaderListBytes: 20_000 });
    const bomb = Buffer.concat([
      encodeFields(callFields()),
      literal('bomb', 'x'.repeat(4_000)),
      Buffer.alloc(10_000, 0xbe),
    ]);
    client.send(frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 1, bomb));
    expect(await client.reply(1)).toMatchObject({ fields: { ':status': '431' } });
    const block = Buffer.concat([encodeFields(callFields()), Buffer.of(0xbe)]);
    client.send(frame(FrameType.HEADERS, Flag.END_HEADERS, 3, block), data(3, framed(message), true));
    expect((await client.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('up to the advertised limit are accepted', async () => {
    const client = await open({ maxHeaderListBytes: 1_000 });
    const size = callFields().reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0);
    const filler = (octets: number): string => '-'.repeat(octets - 'filler'.length - 32);
    client.send(call(1, { filler: filler(1_000 - size) }), call(3, { filler: filler(1_001 - size) }));
    expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
    expect((await client.reply(3)).fields).toMatchObject({ ':status': '431' });
  });

  test('that are too large repeatedly end the connection', async () => {
    const client = await open({ maxHeaderListBytes: 1_000, controlFrames: 50, controlFramesPerSecond: 0 });
    client.send(...streamIds(100).map((id) => callHead(id, { filler: '-'.repeat(1_000) })));
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });
});

describe('flow-control windows', () => {
  test.each<[string, keyof typeof ErrorCode, Buffer]>([
    ['an increment of 0', 'PROTOCOL_ERROR', windowUpdate(0, 0)],
    ['an increment beyond 2^31-1', 'FLOW_CONTROL_ERROR', windowUpdate(0, MAX_WINDOW)],
    ['an initial size beyond 2^31-1', 'FLOW_CONTROL_ERROR', settings([Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW + 1])],
    [
      'an initial size that makes the window of a stream larger than 2^31-1',
      'FLOW_CONTROL_ERROR',
      Buffer.concat([windowUpdate(1, 1), settings([Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW])]),
    ],
  ])('%s ends the connection: %s', async (_what, code, attack) => {
    const client = await open({});
    client.send(callHead(1), attack);
    await expectEnd(client, code);
  });

  test.each<[string, keyof typeof ErrorCode, Buffer]>([
    ['an increment of 0', 'PROTOCOL_ERROR', windowUpdate(1, 0)],
    ['an increment beyond 2^31-1', 'FLOW_CONTROL_ERROR', windowUpdate(1, MAX_WINDOW)],
  ])('%s on a stream ends the stream: %s', async (_what, code, attack) => {
    const client = await open({});
    client.send(callHead(1), attack, call(3));
    expect((await client.reply(1)).reset).toBe(code);
    expect((await client.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
    expect(server.failures).toEqual([code]);
  });

  test('overrun by DATA on a stream end the stream', async () => {
    const client = await open({ streamWindowBytes: 1_000 });
    client.send(callHead(1), data(1, Buffer.alloc(1_001)), call(3));
    expect((await client.reply(1)).reset).toBe('FLOW_CONTROL_ERROR');
    expect((await client.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('reopen the connection when half used, so that no frame exceeds them', async () => {
    const client = await open({ connectionWindowBytes: DEFAULT_WINDOW, streamWindowBytes: 1_000_000 });
    client.send(callHead(1), ...range(2).map(() => frame(FrameType.DATA, 0, 1, Buffer.alloc(16_384))));
    await client.find(
      ({ type, streamId, payload }) => type === FrameType.WINDOW_UPDATE && streamId === 0 && payload.readUInt32BE() > 0,
    );
    client.close();
  });

  test('can grow and shrink, also below 0, and buffered answers arrive complete and in order', async () => {
    const client = await open({}, large(3_000));
    const initial = (size: number): Buffer => settings([Setting.INITIAL_WINDOW_SIZE, size]);
    const got = (): number =>
      client.frames.filter(({ type }) => type === FrameType.DATA).reduce((sum, { payload }) => sum + payload.length, 0);
    client.send(initial(1_000), largeCall(1));
    await client.settled();
    expect(got()).toBe(1_000);
    client.send(initial(0));
    await client.settled();
    client.send(initial(1_500)); // from -1000 to 500
    await client.settled();
    expect(got()).toBe(1_500);
    client.send(initial(100), windowUpdate(1, 1_400));
    await client.settled();
    expect(got()).toBe(1_500);
    client.send(windowUpdate(1, 1));
    await client.settled();
    expect(got()).toBe(1_501);
    client.send(initial(MAX_WINDOW - 10_000));
    const { body, fields } = await client.reply(1);
    expect(body.subarray(-3_000).toString()).toBe('-'.repeat(3_000));
    expect(body.readUInt32BE(1)).toBe(body.length - 5);
    expect(fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('for the connection apply to all of its streams', async () => {
    const client = await open({}, large(10_000));
    client.send(settings([Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW]), ...streamIds(10).map(largeCall));
    await client.settled();
    const got = client.frames.filter(({ type }) => type === FrameType.DATA);
    expect(got.reduce((sum, { payload }) => sum + payload.length, 0)).toBe(DEFAULT_WINDOW);
    client.send(windowUpdate(0, 1_000_000));
    for (const id of streamIds(10)) expect((await client.reply(id)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('cost no more work to open than the answers that they let through', async () => {
    const client = await open({}, large(10));
    const streams = 2_000;
    client.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), ...streamIds(streams).map(largeCall));
    await client.settled();
    const sent = () => client.frames.filter(({ type }) => type === FrameType.DATA).length;
    expect(sent()).toBe(0);
    client.send(...range(5_000).map(() => windowUpdate(0, 1))); // for the connection, while every stream has none
    await client.settled();
    expect(sent()).toBe(0);
    client.send(windowUpdate(5, 1));
    await client.settled();
    expect(sent()).toBe(1);
    for (const id of streamIds(streams)) client.send(windowUpdate(id, 10_000));
    for (const id of streamIds(streams)) expect((await client.reply(id)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('changed by SETTINGS for all streams count as a control frame for each stream', async () => {
    const client = await open({ controlFrames: 3_000, controlFramesPerSecond: 0 }, large(10));
    const [none, one] = [settings([Setting.INITIAL_WINDOW_SIZE, 0]), settings([Setting.INITIAL_WINDOW_SIZE, 1])];
    client.send(none, ...streamIds(1_000).map(largeCall));
    await client.settled();
    for (let times = 0; times < 20; times++) client.send(one, none);
    await expectEnd(client, 'ENHANCE_YOUR_CALM');
  });
});

describe("the connection that holds most of the callers' memory", () => {
  const memoryBytes = 600_000;
  const half = framed(Buffer.alloc(300_000)).subarray(0, 150_000);

  /** Sends half a request in frames. */
  const halfRequest = (id: number): Buffer =>
    Buffer.concat([callHead(id), ...range(10).map((at) => data(id, half.subarray(at * 15_000, (at + 1) * 15_000)))]);
  const isClosed = (client: RawClient): Promise<unknown> =>
    new Promise((resolve) => client.socket.once('close', resolve));

  test('is reset when another connection exceeds the limit, and the other one continues', async () => {
    const overload = overloadOf({}, memoryBytes);
    const large = await open({}, { overload });
    const small = await openAnother();
    const closed = isClosed(large);
    large.send(halfRequest(1), halfRequest(3));
    await large.settled();
    small.send(halfRequest(1));
    await closed;
    expect(server.failures).toEqual(['ENHANCE_YOUR_CALM']);
    small.send(call(3));
    expect((await small.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('is reset because of answers that wait for its windows', async () => {
    const overload = overloadOf({}, memoryBytes);
    const greedy = await open({}, { overload, ...large(10_000) });
    const closed = isClosed(greedy);
    greedy.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), ...streamIds(100).map(largeCall));
    await closed;
    expect(server.failures).toEqual(['ENHANCE_YOUR_CALM']);
    await until('nothing is held', () => overload.memory.bytes === 0);
  });

  test('releases its memory as soon as its streams end', async () => {
    const overload = overloadOf({}, memoryBytes);
    const client = await open({}, { overload });
    client.send(call(1));
    await client.settled();
    const before = overload.memory.bytes;
    for (let id = 3; id < 43; id += 2) {
      client.send(halfRequest(id));
      await client.settled();
      expect(overload.memory.bytes).toBeGreaterThan(before + 150_000);
      client.send(rstStream(id, ErrorCode.CANCEL));
      await client.settled();
      expect(overload.memory.bytes).toBe(before);
    }
    expect(server.failures).toEqual([]);
  });
});

describe('a slow client', () => {
  const shortTimeout = { stallTimeoutMs: 100 };

  test('that says nothing, or half of what it has to say, loses its connection', async () => {
    server = await startH2({}, shortTimeout);
    const greetings = {
      nothing: [Buffer.alloc(0)],
      'half the preface': [PREFACE.subarray(0, 10)],
      'the preface alone': [PREFACE],
      'half a frame after it': [PREFACE, settings().subarray(0, 5)],
      'half a frame later': [PREFACE, settings(), frame(FrameType.PING, 0, 0, Buffer.alloc(8)).subarray(0, 12)],
      'half a header block': [PREFACE, settings(), frame(FrameType.HEADERS, 0, 1, encodeFields(callFields()))],
    };
    const ends = Object.entries(greetings).map(async ([said, greeting]) => {
      const { code } = await (await openAnother(...greeting)).ended();
      return [said, code];
    });
    expect(await Promise.all(ends)).toEqual(Object.keys(greetings).map((said) => [said, 'ENHANCE_YOUR_CALM']));
    expect(server.failures).toEqual(ends.map(() => 'ENHANCE_YOUR_CALM'));
  });

  test('that does not open its window for its answer loses its stream', async () => {
    const client = await open(shortTimeout, large(10));
    client.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), largeCall(1));
    expect(await client.reply(1)).toMatchObject({ fields: { ':status': '200' }, reset: 'ENHANCE_YOUR_CALM' });
  });

  test('that does not complete its request loses its stream, and others may be idle or wait for an answer', async () => {
    const { service, answer } = slowly();
    const idle = await open(shortTimeout, { service });
    const [waiting, slow] = [await openAnother(), await openAnother()];
    waiting.send(call(1));
    slow.send(callHead(1), data(1, framed(message).subarray(0, 7)));
    expect((await slow.reply(1)).reset).toBe('ENHANCE_YOUR_CALM'); // after two checks
    answer();
    idle.send(call(1));
    slow.send(call(3));
    for (const reply of [waiting.reply(1), idle.reply(1), slow.reply(3)])
      expect((await reply).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('that reads nothing is not read from, and loses its connection', async () => {
    const calls = 3_000;
    let asked = 0;
    const client = await open(
      { ...shortTimeout, maxUnsentBytes: 131_072 },
      {
        service: {
          async shouldRateLimit({ domain }, _caller, reply) {
            if (domain !== 'demo') asked++;
            const padding = { key: 'padding', value: '-'.repeat(domain === 'demo' ? 0 : 50_000) };
            reply({ response: { ...OK, response_headers_to_add: [padding] } });
          },
        },
      },
    );
    client.socket.pause();
    client.send(settings([Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW]), windowUpdate(0, MAX_WINDOW - DEFAULT_WINDOW));
    client.send(...streamIds(calls).map(largeCall));
    const closed = new Promise((resolve) => client.socket.once('close', resolve));
    await until('ENHANCE_YOUR_CALM', () => server.failures.includes('ENHANCE_YOUR_CALM'));
    expect(asked).toBeLessThan(calls / 2);
    client.socket.resume();
    await closed;
  });
});

describe('a request', () => {
  test('is malformed if its content-length fields differ from each other or from the body', async () => {
    const client = await open({});
    const body = framed(message);
    const lengths = (...values: readonly number[]) => values.map((value) => ['content-length', String(value)] as const);
    const withLengths = (id: number, ...values: readonly number[]): Buffer => {
      const block = encodeFields([...callFields(), ...lengths(...values)]);
      return Buffer.concat([frame(FrameType.HEADERS, Flag.END_HEADERS, id, block), data(id, body, true)]);
    };
    client.send(withLengths(1, body.length, body.length + 1), withLengths(3, body.length, body.length));
    client.send(withLengths(5, body.length - 1), withLengths(7, body.length + 1));
    for (const id of [1, 5, 7]) expect((await client.reply(id)).reset).toBe('PROTOCOL_ERROR');
    expect((await client.reply(3)).fields).toMatchObject({ 'grpc-status': '0' });
  });

  test('is not decoded before it is complete', async () => {
    let asked = 0;
    const service: GrpcServerOptions['service'] = {
      async shouldRateLimit(_request, _caller, reply) {
        asked++;
        reply({ response: OK });
      },
    };
    const client = await open({}, { service });
    client.send(callHead(1), data(1, framed(message)));
    await client.settled();
    expect(asked).toBe(0);
    client.send(data(1, Buffer.alloc(0), true));
    expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': '0' });
    expect(asked).toBe(1);
  });

  test('with a second message ends the call', async () => {
    const client = await open({});
    client.send(callHead(1), data(1, Buffer.concat([framed(message), framed(message)])));
    expect((await client.reply(1)).fields).toMatchObject({ 'grpc-status': String(status.UNIMPLEMENTED) });
  });
});
