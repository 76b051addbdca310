import '../../helpers/realm.ts';
import { once } from 'node:events';
import { type ClientHttp2Session, connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { createServer, type Server, type Socket } from 'node:net';
import { ErrorCode } from '../../../src/h2/http2/errors.ts';
import { Flag, FrameType, PREFACE, Setting } from '../../../src/h2/http2/frames.ts';
import { type Head, HeadCache } from '../../../src/h2/http2/head-cache.ts';
import { HpackDecoder } from '../../../src/h2/http2/hpack/decoder.ts';
import { encodeFields, TABLE_SIZE_ZERO } from '../../../src/h2/http2/hpack/encode.ts';
import { staticTable } from '../../../src/h2/http2/hpack/static-table.ts';
import { readHead } from '../../../src/h2/http2/request-head.ts';
import { callFields, frame, openRaw, parseFrames, settings } from '../../helpers/h2-client.ts';
import { startH2 } from '../../helpers/h2-server.ts';
import { HpackEncoder, literals, type NameAndValue } from '../../helpers/hpack-encoder.ts';
import fc from '../../helpers/property.ts';

const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/** Names and values that a decoder reads from a block in the middle of a larger buffer. */
function decode(decoder: HpackDecoder, block: Uint8Array): readonly NameAndValue[] {
  const around = Buffer.concat([Buffer.alloc(3, 0xff), block, Buffer.alloc(3, 0x41)]);
  const fields = decoder.decode(around, 3, 3 + block.length);
  if (fields === 'too large') throw new Error('expected fields, got too many');
  return fields.map(({ name, value }) => [name, value] as const);
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const brokenBlock = expect.objectContaining({ name: 'Http2Error', code: ErrorCode.COMPRESSION_ERROR });

describe('the examples of RFC 7541, appendix C', () => {
  const get = (scheme: string, path: string): readonly NameAndValue[] => [
    [':method', 'GET'],
    [':scheme', scheme],
    [':path', path],
    [':authority', 'www.example.com'],
  ];
  const requests = [
    get('http', '/'),
    [...get('http', '/'), ['cache-control', 'no-cache']],
    [...get('https', '/index.html'), ['custom-key', 'custom-value']],
  ] as const;
  const answer = (status: string, seconds: number): readonly NameAndValue[] => [
    [':status', status],
    ['cache-control', 'private'],
    ['date', `Mon, 21 Oct 2013 20:13:${seconds} GMT`],
    ['location', 'https://www.example.com'],
  ];
  const answers = [
    answer('302', 21),
    answer('307', 21),
    [
      [':status', '200'],
      ['cache-control', 'private'],
      ['date', 'Mon, 21 Oct 2013 20:13:22 GMT'],
      ['location', 'https://www.example.com'],
      ['content-encoding', 'gzip'],
      ['set-cookie', 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1'],
    ],
  ] as const;
  /** The appendix sets SETTINGS_HEADER_TABLE_SIZE to 256. */
  const tableOf256 = '3fe101';

  test.each<[string, readonly string[], readonly (readonly NameAndValue[])[]]>([
    ['C.2.1', ['400a637573746f6d2d6b65790d637573746f6d2d686561646572'], [[['custom-key', 'custom-header']]]],
    ['C.2.2', ['040c2f73616d706c652f70617468'], [[[':path', '/sample/path']]]],
    ['C.2.3', ['100870617373776f726406736563726574'], [[['password', 'secret']]]],
    ['C.2.4', ['82'], [[[':method', 'GET']]]],
    [
      'C.3',
      [
        '828684410f7777772e6578616d706c652e636f6d',
        '828684be58086e6f2d6361636865',
        '828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565',
      ],
      requests,
    ],
    [
      'C.4',
      [
        '828684418cf1e3c2e5f23a6ba0ab90f4ff',
        '828684be5886a8eb10649cbf',
        '828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf',
      ],
      requests,
    ],
    [
      'C.5',
      [
        `${tableOf256}4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d`,
        '4803333037c1c0bf',
        '88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31',
      ],
      answers,
    ],
    [
      'C.6',
      [
        `${tableOf256}488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3`,
        '4883640effc1c0bf',
        '88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007',
      ],
      answers,
    ],
  ])('%s is decoded', (_section, blocks, expected) => {
    const decoder = new HpackDecoder(NO_LIMIT);
    expect(blocks.map((block) => decode(decoder, hex(block)))).toEqual(expected);
  });

  test('C.2.2 and C.2.4, which use no dynamic table, are encoded as given', () => {
    expect(encodeFields([[':path', '/sample/path']])).toEqual(hex('040c2f73616d706c652f70617468'));
    expect(encodeFields([[':method', 'GET']])).toEqual(hex('82'));
  });
});

describe('a malformed block', () => {
  const blocks: Readonly<Record<string, string>> = {
    'has the index 0': '80',
    'has an index that no table has': 'be',
    'has a name by an index that no table has': '7e 01 61',
    'has the index of an entry that did not fit in the table': '20 40 01 61 01 62 be',
    'ends in the middle of an index': 'ff',
    'ends in the middle of a long index': 'ff 80 80',
    'has an index beyond all bounds': 'ff ff ff ff ff ff ff ff ff ff 7f',
    'has an index that goes on with zeros': 'ff 80 80 80 80 80 80 80 00',
    'ends before a name': '40',
    'ends in the middle of a name': '40 05 61 62',
    'ends before a value': '40 01 61',
    'ends in the middle of a value': '00 01 61 02 62',
    'has a string with a length beyond all bounds': '00 7f ff ff ff ff ff ff 7f',
    'makes the table larger than it may be': '3f e2 1f',
    'resizes the table after a field': '82 20',
    'has the code EOS in a string': '00 01 61 84 ff ff ff ff',
    'has EOS after a code': '00 01 61 85 07 ff ff ff ff',
    'pads a string by an octet': '00 01 61 82 07 ff',
    'pads a string that is empty': '00 01 61 81 ff',
    'pads a string with zeros': '00 01 61 81 00',
    'ends in the middle of a code': '00 01 61 81 fe',
  };

  test.each(Object.entries(blocks))('fails with COMPRESSION_ERROR if it %s', (_what, block) => {
    expect(() => decode(new HpackDecoder(NO_LIMIT), hex(block))).toThrow(brokenBlock);
  });

  test('ends the connection', async () => {
    const server = await startH2();
    const client = await openRaw(server.port);
    try {
      client.send(frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 1, hex('80')));
      expect(await client.ended()).toEqual({ code: 'COMPRESSION_ERROR', debug: expect.stringMatching(/\w/) });
      expect(server.failures).toEqual(['COMPRESSION_ERROR']);
    } finally {
      client.close();
      await server.close(0);
    }
  });
});

test('octets that never occur in text have a Huffman code too', () => {
  expect(decode(new HpackDecoder(NO_LIMIT), hex('00 01 61 82 ff c7'))).toEqual([['a', '\0']]);
});

/** A few repeated names and values, some unique ones, and values that fill the table. */
const anyField = fc.tuple(
  fc.constantFrom('content-type', ':path', 'x-one', 'x-two', 'x-'.repeat(70)),
  fc.oneof(
    fc.constantFrom('', 'application/grpc', '/', '/index.html'),
    fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((octet) => String.fromCharCode(octet)), maxLength: 300 }),
    fc.nat(3_000).map((length) => 'v'.repeat(length)),
  ),
);
const anyLiteral = fc.constantFrom(...(Object.keys(literals) as (keyof typeof literals)[])); // its own keys
const anyBlock = fc.record({
  sizes: fc.array(fc.nat(4_096), { maxLength: 2, size: 'xsmall' }),
  fields: fc.array(fc.tuple(anyField, anyLiteral, fc.boolean()), { maxLength: 12 }),
});
const anyBlocks = fc.array(anyBlock, { maxLength: 12 }).map((blocks) => {
  const encoder = new HpackEncoder();
  return blocks.map(({ sizes, fields }) => ({
    fields: fields.map(([field]) => field),
    block: Buffer.concat([
      ...sizes.map((size) => encoder.resize(size)),
      ...fields.map((field) => encoder.field(...field)),
    ]),
    beyond: encoder.beyond(),
  }));
});

describe('for any representations and table sizes', () => {
  test('blocks are decoded to the original fields, and the table evicts as specified', () => {
    fc.assert(
      fc.property(anyBlocks, (blocks) => {
        const decoder = new HpackDecoder(NO_LIMIT);
        for (const { block, fields, beyond } of blocks) {
          expect(decode(decoder, block)).toEqual(fields);
          expect(() => decode(decoder, beyond)).toThrow(brokenBlock);
        }
      }),
    );
  });

  test('a truncated block is a prefix of its fields, or malformed', () => {
    fc.assert(
      fc.property(anyBlocks, fc.nat(), (blocks, cut) => {
        const decoder = new HpackDecoder(NO_LIMIT);
        const last = blocks.pop();
        if (!last) return;
        for (const { block } of blocks) decode(decoder, block);
        const part = last.block.subarray(0, cut % (last.block.length + 1));
        try {
          const got = decode(decoder, part);
          expect(got).toEqual(last.fields.slice(0, got.length));
        } catch (error) {
          expect(error).toEqual(brokenBlock);
        }
      }),
    );
  });

  /** Removes the cost, which depends on whether a head is cached. */
  const withoutCost = (head: Head) =>
    typeof head === 'object' && 'ownBytes' in head ? { ...head, ownBytes: undefined } : head;

  test('cached blocks equal what decoding them again returns', () => {
    const anySize = fc.oneof({ arbitrary: fc.constant(undefined), weight: 20 }, { arbitrary: fc.nat(500), weight: 1 });
    const anyRequest = fc.record({ what: fc.nat(3), isTrailers: fc.boolean(), literal: anyLiteral, size: anySize });
    const anyRequests = fc.array(anyRequest, { minLength: 20, maxLength: 60 });
    fc.assert(
      fc.property(anyRequests, (requests) => {
        const [encoder, cache, decoder] = [new HpackEncoder(), new HeadCache(NO_LIMIT), new HpackDecoder(NO_LIMIT)];
        for (const { what, isTrailers, literal, size } of requests) {
          const fields: readonly NameAndValue[] = [...callFields(), ['x-what', String(what)]];
          const block = Buffer.concat([
            ...(size === undefined ? [] : [encoder.resize(size)]),
            ...fields.map((field) => encoder.field(field, literal, true)),
          ]);
          const decoded = decoder.decode(block, 0, block.length);
          if (decoded === 'too large') throw new Error('there is no limit');
          if (isTrailers) expect(cache.trailers(block, 0, block.length)).toEqual(decoded);
          else expect(withoutCost(cache.request(block, 0, block.length))).toEqual(readHead(decoded));
        }
      }),
    );
  });
});

describe('with the HTTP/2 client of Node', () => {
  let server: Server;
  let session: ClientHttp2Session;
  let socket: Socket;
  let received: Buffer;

  /** A server that keeps received bytes, and only sends SETTINGS. */
  beforeEach(async () => {
    received = Buffer.alloc(0);
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const accepted = once(server, 'connection');
    session = connect(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`).on('error', () => {});
    [socket] = await accepted;
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
    });
    socket.on('error', () => {});
    await sendSettings();
  });
  afterEach(() => {
    session.destroy();
    socket.destroy();
    server.close();
  });

  /** Sends SETTINGS; resolves when the client has acknowledged them. */
  async function sendSettings(...pairs: readonly (readonly [id: number, value: number])[]): Promise<void> {
    const acknowledged = () =>
      frames().filter(({ type, flags }) => type === FrameType.SETTINGS && flags === Flag.ACK).length;
    const before = acknowledged();
    socket.write(settings(...pairs));
    while (acknowledged() === before) await once(socket, 'data');
  }

  const frames = () => parseFrames(received.subarray(PREFACE.length)).read;
  const blocks = () => frames().filter(({ type }) => type === FrameType.HEADERS);

  /** Lets the client send a request without a body; resolves with the received block. */
  async function blockOf(fields: OutgoingHttpHeaders): Promise<Buffer> {
    received = PREFACE; // drops earlier frames
    session.request({ ':path': '/', ...fields }, { endStream: true }).on('error', () => {});
    while (blocks().length === 0) await once(socket, 'data');
    const [last] = blocks();
    if (!last || !(last.flags & Flag.END_HEADERS)) throw new Error('expected a block in one frame');
    return last.payload.subarray(last.flags & Flag.PRIORITY ? 5 : 0);
  }

  const lookedFor = (fields: readonly NameAndValue[], name: string): string | undefined =>
    fields.find((field) => field[0] === name)?.[1];

  test('every octet that a value may have is decoded, Huffman-coded', async () => {
    const decoder = new HpackDecoder(NO_LIMIT);
    for (let octet = 1; octet < 256; octet++) {
      const value = `${'0'.repeat(20)}${String.fromCharCode(octet)}0`; // short codes, so that the client uses Huffman coding
      const block = await blockOf({ 'x-octet': value });
      expect(block.includes('0'.repeat(20))).toBe(false);
      expect(lookedFor(decode(decoder, block), 'x-octet')).toBe(value);
    }
  });

  test('values of any length are decoded, raw and Huffman-coded', async () => {
    const decoder = new HpackDecoder(NO_LIMIT);
    for (const length of [0, 1, 125, 126, 127, 128, 129, 254, 255, 256, 1_000, 4_000, 8_000]) {
      for (const character of ['e', '\\']) {
        const value = character.repeat(length);
        expect(lookedFor(decode(decoder, await blockOf({ 'x-long': value })), 'x-long')).toBe(value);
      }
    }
  });

  test('every entry of the static table is decoded', async () => {
    const decoder = new HpackDecoder(NO_LIMIT);
    const names = staticTable
      .map(({ name }) => name)
      .filter((name) => !name.startsWith(':') && name !== 'transfer-encoding');
    for (const name of names)
      expect(lookedFor(decode(decoder, await blockOf({ [name]: 'some value' })), name)).toBe('some value');
    expect(lookedFor(decode(decoder, await blockOf({ 'accept-encoding': 'gzip, deflate' })), 'accept-encoding')).toBe(
      'gzip, deflate',
    );
    for (const [name, value] of [
      [':method', 'GET'],
      [':method', 'POST'],
      [':path', '/index.html'],
      [':scheme', 'https'],
    ] as const)
      expect(lookedFor(decode(decoder, await blockOf({ [name]: value })), name)).toBe(value);
  });

  test('a table that fills, overflows and changes its size stays the same on both sides', async () => {
    const decoder = new HpackDecoder(NO_LIMIT);
    for (const size of [4_096, 100, 0, 4_096, 1_000]) {
      await sendSettings([Setting.HEADER_TABLE_SIZE, size]);
      for (let round = 0; round < 60; round++) {
        const fields = {
          'x-round': `${size} ${round % 40}`,
          'x-padding': 'p'.repeat((round * 37) % 500),
          [`x-${round % 7}`]: 'again',
        };
        expect(decode(decoder, await blockOf(fields))).toEqual(
          expect.arrayContaining(Object.entries(fields).filter(([, value]) => value !== undefined)),
        );
      }
    }
  });

  test('encoded fields are decoded by Node, with the dynamic table and without', async () => {
    const anyValue = fc
      .string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((octet) => String.fromCharCode(octet)), maxLength: 300 })
      .map((value) => value.trim());
    const anyName = fc.constantFrom(
      'content-type',
      'grpc-status',
      'age',
      'www-authenticate',
      'x-one',
      'x-'.repeat(100),
    );
    const anyFields = fc.uniqueArray(fc.tuple(anyName, anyValue), { selector: ([name]) => name });
    const anyStatus = fc.constantFrom('200', '204', '404', '415', '503');
    let streamId = -1;
    await fc.assert(
      fc.asyncProperty(anyStatus, anyFields, fc.boolean(), async (status, fields, empties) => {
        const stream = session.request({ ':path': '/' }).on('error', () => {});
        streamId += 2;
        const block = encodeFields([[':status', status], ...fields]);
        const whole = empties ? Buffer.concat([Buffer.of(TABLE_SIZE_ZERO), block]) : block;
        const response = once(stream, 'response');
        socket.write(frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, streamId, whole));
        const [headers] = (await response) as [IncomingHttpHeaders]; // decoded by Node
        expect(headers).toMatchObject({ ':status': Number(status), ...Object.fromEntries(fields) });
        stream.destroy();
      }),
    );
  });
});
