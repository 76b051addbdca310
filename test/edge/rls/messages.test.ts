import '../../helpers/realm.ts';
import { readRateLimitRequest, writeRateLimitResponse } from '../../../src/edge/rls/messages.ts';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import { decodeRequest } from '../../../src/edge/wire/codec.ts';
import { maximumRequest, type WireRequest, type WireResponse } from '../../../src/edge/wire/wire.ts';
import { WireType } from '../../../src/protobuf/reader.ts';
import fc from '../../helpers/property.ts';
import { group, lengthField, tag, varintField } from '../../helpers/protobuf.ts';

const MAX_UINT64 = 2n ** 64n - 1n;

/** Reads a request in the middle of a buffer. */
function read(bytes: Uint8Array): WireRequest {
  const around = Buffer.concat([Buffer.alloc(7, 0x0a), bytes, Buffer.alloc(7, 0x0a)]);
  return readRateLimitRequest(around, 7, 7 + bytes.length);
}

// --- messages of any kind

/** ASCII and other texts; their lengths take up to three octets. */
const anyText = fc.oneof(
  { arbitrary: fc.constantFrom('', 'user', 'path', 'a'.repeat(127), 'a'.repeat(128)), weight: 3 },
  { arbitrary: fc.string({ unit: 'binary-ascii', maxLength: 100 }), weight: 3 },
  { arbitrary: fc.string({ unit: 'binary', maxLength: 70 }), weight: 3 },
  { arbitrary: fc.nat(maximumRequest.textLength).map((length) => 'é'.repeat(length)), weight: 1 },
);
const anyUint32 = fc.oneof(fc.nat(300).map(BigInt), fc.bigInt(0n, 2n ** 32n - 1n));
/** Lengths of varints that protobufjs reads as well. */
const anyLength = fc.constantFrom(1, 5, 10);

const textField = (field: number) => anyText.map((text) => lengthField(field, Buffer.from(text)));
const uint32Field = (field: number) =>
  fc.tuple(anyUint32, anyLength).map(([value, octets]) => varintField(field, value, octets));

/** Fields that no message has. */
const unknownField = fc
  .tuple(fc.integer({ min: 15, max: 2 ** 29 - 1 }), fc.uint8Array({ maxLength: 200 }))
  .chain(([field, payload]) =>
    fc.constantFrom(
      lengthField(field, payload),
      varintField(field, MAX_UINT64),
      Buffer.concat([tag(field, WireType.FIXED32), Buffer.alloc(4, 0xff)]),
      Buffer.concat([tag(field, WireType.FIXED64), Buffer.alloc(8, 0xff)]),
      group(field, lengthField(1, payload), group(2, varintField(1, 1n)), lengthField(field, payload)),
    ),
  );

/** Some of these fields, any number of times and in any order. */
const fieldsOf = (...fields: readonly fc.Arbitrary<Buffer>[]) =>
  fc.array(fc.oneof(...fields, unknownField), { maxLength: 6 });
const messageOf = (...fields: readonly fc.Arbitrary<Buffer>[]) =>
  fieldsOf(...fields).map((parts) => Buffer.concat(parts));
/** At most one of each field: protobufjs uses the last message of several, which the tests below cover. */
const onceEach = (...fields: readonly fc.Arbitrary<Buffer>[]) =>
  fc
    .subarray([...fields])
    .chain((some) => fc.tuple(...some))
    .map((parts) => Buffer.concat(parts));
const inner = (field: number, message: fc.Arbitrary<Buffer>) => message.map((bytes) => lengthField(field, bytes));

const wrapped = (field: number, value: fc.Arbitrary<Buffer>) => inner(field, messageOf(value));
const hitsField = fc.bigInt(0n, 2n ** 53n).map((value) => varintField(1, value));
const unitField = fc.integer({ min: -5, max: 9 }).map((value) => varintField(2, BigInt.asUintN(64, BigInt(value))));
const boolField = fc.tuple(fc.boolean(), anyLength).map(([is, octets]) => varintField(4, is ? 1n : 0n, octets));

const anyEntry = inner(1, messageOf(textField(1), textField(2)));
const anyLimit = inner(
  2,
  fc
    .tuple(messageOf(uint32Field(1), unitField), onceEach(wrapped(3, uint32Field(1))))
    .map((parts) => Buffer.concat(parts)),
);
const anyDescriptor = inner(
  2,
  fc
    .tuple(messageOf(anyEntry, boolField), onceEach(anyLimit, wrapped(3, hitsField)), messageOf(anyEntry, boolField))
    .map((parts) => Buffer.concat(parts)),
);
const anyFields = fieldsOf(textField(1), anyDescriptor, uint32Field(3));
const anyRequest = anyFields.map((fields) => Buffer.concat(fields));

const plainly = (request: WireRequest): WireRequest => JSON.parse(JSON.stringify(request));

describe('decoding stops when a request is too large', () => {
  const broken = Buffer.of(0xff); // no field begins with this: reading it would throw
  const domain = lengthField(1, Buffer.from('demo'));
  const descriptor = lengthField(2, Buffer.alloc(0));
  const entry = lengthField(1, Buffer.alloc(0));
  const many = (bytes: Buffer, times: number): Buffer => Buffer.concat(new Array<Buffer>(times).fill(bytes));
  const textOf = (length: number, character = 'a'): Buffer => Buffer.from(character.repeat(length));

  test.each<[string, Buffer, string]>([
    ['at the 257th descriptor', many(descriptor, 257), 'descriptors must have at most 256 descriptors, got more'],
    [
      'at the 65th entry',
      lengthField(2, Buffer.concat([many(entry, 65), broken])),
      'descriptors[0].entries must have at most 64 entries, got more',
    ],
    ['at a long domain', lengthField(1, textOf(16_385)), 'domain must have at most 16384 characters, got more'],
    [
      'at a long key',
      lengthField(2, lengthField(1, lengthField(1, textOf(16_385, 'é')))),
      'descriptors[0].entries[0].key must have at most 16384 characters, got more',
    ],
  ])('%s', (_where, bytes, problem) => {
    expect(read(Buffer.concat([domain, bytes, broken]))).toEqual({
      domain: '',
      descriptors: [],
      hits_addend: 0,
      problem,
    });
    expect(() => decodeRequest(read(Buffer.concat([domain, bytes])))).toThrow(problem);
  });

  test.each(['a', 'é', '€', '🦀'])('a long value is cut, since clients choose values: %s', (character) => {
    const value = Buffer.from(character.repeat(50_000));
    const { descriptors } = read(
      lengthField(2, Buffer.concat([lengthField(1, lengthField(2, value)), lengthField(1, lengthField(2, domain))])),
    );
    expect(descriptors[0]?.entries.map((one) => one.value)).toEqual([
      value.toString().slice(0, 16_384),
      domain.toString(),
    ]);
  });

  test('decoding fails after more fields than any valid request has, known or unknown', () => {
    const unknown = varintField(15, 1n);
    expect(read(many(unknown, 131_072))).toMatchObject({ descriptors: [] });
    expect(() => read(many(unknown, 131_073))).toThrow('a message has more than 131072 fields');
    expect(() => read(many(domain, 131_073))).toThrow('a message has more than 131072 fields');
  });

  test('decoding does not stop for a request at the limits', () => {
    const fullDescriptor = lengthField(2, many(entry, 64));
    const { descriptors, problem } = read(
      Buffer.concat([domain, many(fullDescriptor, 256), lengthField(1, textOf(16_384, 'é'))]),
    );
    expect(problem).toBeUndefined();
    expect(descriptors).toHaveLength(256);
    expect(descriptors[255]?.entries).toHaveLength(64);
  });
});

describe('a request is decoded as protobufjs decodes it', () => {
  test('with any fields in any order, unknown ones included', () => {
    fc.assert(
      fc.property(anyRequest, (bytes) => {
        expect(read(bytes)).toEqual(plainly(shouldRateLimit.requestDeserialize(bytes)));
      }),
      { numRuns: 100 },
    );
  });

  test('when truncated between two fields, and refused when truncated inside one', () => {
    fc.assert(
      fc.property(anyFields, fc.nat(), (fields, at) => {
        const last = fields.pop() ?? Buffer.alloc(0);
        const whole = Buffer.concat(fields);
        expect(read(whole)).toEqual(plainly(shouldRateLimit.requestDeserialize(whole)));
        if (last.length === 0) return;
        const cut = last.subarray(0, 1 + (at % last.length));
        const part = Buffer.concat([whole, cut]);
        if (cut.length < last.length) expect(() => read(part)).toThrow(/^a (message|field|text) /);
        else expect(read(part)).toEqual(plainly(shouldRateLimit.requestDeserialize(part)));
      }),
      { numRuns: 75 },
    );
  });

  test('when encoded by protobufjs', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 200 });
    const uint32 = fc.nat(2 ** 32 - 1);
    const request: fc.Arbitrary<WireRequest> = fc.record({
      domain: text,
      hits_addend: uint32,
      descriptors: fc.array(
        fc.record({
          entries: fc.array(fc.record({ key: text, value: text })),
          limit: fc.option(
            fc.record({
              requests_per_unit: uint32,
              unit: fc.nat(7),
              unit_multiplier: fc.option(fc.record({ value: uint32 })),
            }),
          ),
          hits_addend: fc.option(fc.record({ value: fc.nat(Number.MAX_SAFE_INTEGER) })),
          is_negative_hits: fc.boolean(),
        }),
      ),
    });
    fc.assert(
      fc.property(request, (one) => {
        expect(read(shouldRateLimit.requestSerialize(one))).toEqual(one);
      }),
    );
  });
});

describe('a request', () => {
  const descriptorWith = (...fields: readonly Buffer[]): Buffer => lengthField(2, Buffer.concat(fields));

  test('that is malformed throws a RangeError, and never another error', () => {
    const anyMutation = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 });
    const anyMutated = fc.tuple(anyRequest, anyMutation).map(([bytes, mutations]) => {
      for (const [at, octet] of mutations) if (bytes.length > 0) bytes[at % bytes.length] = octet;
      return bytes;
    });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
          anyMutated,
        ),
        (bytes) => {
          try {
            read(bytes);
          } catch (error) {
            expect(error).toMatchObject({ name: 'RangeError', message: expect.stringMatching(/\w/) });
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test('merges a message field that occurs twice, as the encoding requires', () => {
    const limit = (...fields: readonly Buffer[]): Buffer => lengthField(2, Buffer.concat(fields));
    const bytes = descriptorWith(
      limit(varintField(1, 7n), lengthField(3, varintField(1, 5n))),
      lengthField(3, varintField(1, 9n)),
      limit(varintField(2, 3n), lengthField(3, Buffer.alloc(0))),
      lengthField(3, Buffer.alloc(0)),
    );
    expect(read(bytes).descriptors).toEqual([
      {
        entries: [],
        limit: { requests_per_unit: 7, unit: 3, unit_multiplier: { value: 5 } },
        hits_addend: { value: 9 },
        is_negative_hits: false,
      },
    ]);
  });

  test('is negative if any octet of the varint is not zero', () => {
    for (const value of [1n, 2n, 2n ** 32n, 2n ** 63n])
      expect(read(descriptorWith(varintField(4, value))).descriptors[0]?.is_negative_hits).toBe(true);
  });

  test('may request more hits than a number represents exactly', () => {
    const [descriptor] = read(descriptorWith(lengthField(3, varintField(1, MAX_UINT64)))).descriptors;
    expect(descriptor?.hits_addend).toEqual({ value: 2 ** 64 });
  });

  test('skips known fields with an unexpected wire type', () => {
    const bytes = Buffer.concat([
      lengthField(1, Buffer.from('demo')),
      varintField(1, 5n),
      lengthField(3, Buffer.from('abc')),
      varintField(2, 1n),
      group(1, lengthField(1, Buffer.from('other'))),
    ]);
    expect(read(bytes)).toEqual({ domain: 'demo', descriptors: [], hits_addend: 0 });
  });

  test('with strings that are not UTF-8 is read, with U+FFFD in place of what is not', () => {
    const text = Buffer.from('text \xff', 'latin1');
    const entry = Buffer.concat([lengthField(1, text), lengthField(2, text)]);
    const { domain, descriptors } = read(Buffer.concat([lengthField(1, text), descriptorWith(lengthField(1, entry))]));
    const shown = 'text \ufffd';
    expect({ domain, entries: descriptors[0]?.entries }).toEqual({
      domain: shown,
      entries: [{ key: shown, value: shown }],
    });
  });

  test.each<[string, Buffer]>([
    ['an entry that is longer than its descriptor', Buffer.of(0x12, 2, 0x0a, 4, 0x0a, 2, 0x61, 0x61)],
    ['a string that is longer than its entry', Buffer.of(0x12, 5, 0x0a, 2, 0x0a, 1, 0x61)],
  ])('with %s is refused', (_what, bytes) => {
    expect(() => read(bytes)).toThrow('a field extends past the end of its message');
  });
});

describe('a response', () => {
  const anyUint = fc.oneof(fc.nat(300), fc.nat(2 ** 32 - 1));
  const anyResponse: fc.Arbitrary<WireResponse> = fc.record({
    overall_code: fc.nat(2),
    statuses: fc.array(
      fc.record(
        {
          code: fc.nat(2),
          current_limit: fc.record(
            {
              name: anyText,
              requests_per_unit: anyUint,
              unit: fc.nat(7),
              unit_multiplier: fc.record({ value: anyUint }),
            },
            { requiredKeys: ['name', 'requests_per_unit', 'unit'] },
          ),
          limit_remaining: anyUint,
          duration_until_reset: fc.record({
            seconds: fc.oneof(anyUint, fc.nat(Number.MAX_SAFE_INTEGER)),
            nanos: fc.nat(999_999_999),
          }),
        },
        { requiredKeys: ['code', 'limit_remaining'] },
      ),
    ),
    response_headers_to_add: fc.array(fc.record({ key: anyText, value: anyText })),
    raw_body: fc.uint8Array({ maxLength: 300 }).map((octets) => Buffer.from(octets)),
  });

  /** A copy of a message's octets, since the next one is written into the same buffer. */
  function write(response: WireResponse, headroom: number): Buffer {
    const { bytes, length } = writeRateLimitResponse(response, headroom);
    return Buffer.from(bytes.subarray(headroom, length));
  }

  test('is decoded by protobufjs', () => {
    fc.assert(
      fc.property(anyResponse, fc.nat(10), (response, headroom) => {
        const message = write(response, headroom);
        const { raw_body: body, ...others } = response;
        expect(shouldRateLimit.responseDeserialize(message)).toMatchObject({ ...plain(others), raw_body: body });
        expect(shouldRateLimit.responseDeserialize(message)).toEqual(
          shouldRateLimit.responseDeserialize(shouldRateLimit.responseSerialize(response)),
        );
      }),
      { numRuns: 100 },
    );
  });

  /** Removes undefined fields. */
  const plain = (response: WireResponse): object => JSON.parse(JSON.stringify(response));

  test.each([0, 1, 126, 127, 128, 129, 4_095, 16_383, 16_384, 2_097_151, 2_097_152])(
    'may have a string of %i octets, with length prefixes of any size',
    (length) => {
      const value = 'v'.repeat(length);
      const response: WireResponse = {
        overall_code: 1,
        statuses: [{ code: 1, limit_remaining: 0, current_limit: { name: value, requests_per_unit: 1, unit: 1 } }],
        response_headers_to_add: [{ key: 'key', value }],
      };
      expect(shouldRateLimit.responseDeserialize(write(response, 5))).toMatchObject(plain(response));
    },
  );

  test('omits fields that have their default', () => {
    const status = { code: 0, limit_remaining: 0, current_limit: { name: '', requests_per_unit: 0, unit: 0 } };
    expect(write({ overall_code: 0, statuses: [status], response_headers_to_add: [] }, 5)).toEqual(
      Buffer.of(0x12, 2, 0x12, 0),
    );
  });
});
