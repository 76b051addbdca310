import '../helpers/realm.ts';
import { createInterner } from '../../src/protobuf/interner.ts';
import { ProtoReader, WireType } from '../../src/protobuf/reader.ts';
import { group, lengthField, tag, varint, varintField } from '../helpers/protobuf.ts';

const MAX_UINT64 = 2n ** 64n - 1n;

/** A reader of a message in the middle of a buffer. */
function readerOf(message: Uint8Array): ProtoReader {
  const reader = new ProtoReader(createInterner());
  const around = Buffer.concat([Buffer.alloc(7, 0x0a), message, Buffer.alloc(7, 0x0a)]);
  reader.open(around, 7, 7 + message.length);
  return reader;
}

/** Reads a message whose fields are all unknown. */
function skipAll(message: Uint8Array): void {
  const reader = readerOf(message);
  while (reader.at < 7 + message.length) reader.skip(reader.tag());
}

describe('a varint', () => {
  test.each([0n, 1n, 127n, 128n, 300n, 2n ** 32n - 1n])('of %s is read in full as uint32 and as uint64', (value) => {
    for (const octets of [1, 5, 10]) {
      expect(readerOf(varint(value, octets)).uint32()).toBe(Number(value));
      expect(readerOf(varint(value, octets)).uint64()).toBe(Number(value));
    }
  });

  test('beyond 32 bits keeps its low 32 bits as uint32', () => {
    expect(readerOf(varint(2n ** 32n + 7n)).uint32()).toBe(7);
    expect(readerOf(varint(MAX_UINT64)).uint32()).toBe(2 ** 32 - 1);
  });

  test('up to 2^53 is exact as uint64, and the nearest number beyond', () => {
    expect(readerOf(varint(2n ** 53n)).uint64()).toBe(2 ** 53);
    expect(readerOf(varint(MAX_UINT64)).uint64()).toBe(2 ** 64);
  });

  test('with more than 10 octets is refused', () => {
    const bytes = Buffer.of(...Array<number>(10).fill(0x80), 0);
    expect(() => readerOf(bytes).uint32()).toThrow('a varint has more than 10 octets');
    expect(() => readerOf(bytes).uint64()).toThrow('a varint has more than 10 octets');
  });
});

describe('a string', () => {
  const textOf = (bytes: Uint8Array, maxLength = 100) => {
    const reader = readerOf(lengthField(1, bytes));
    reader.tag();
    return reader.text(maxLength);
  };

  test.each(['', 'demo', 'é', '🦀', '\ufeffdemo', 'a'.repeat(100)])('is decoded as UTF-8: %p', (text) => {
    expect(textOf(Buffer.from(text))).toBe(text);
  });

  test.each<[string, number, string]>([
    ['one octet per character', 10, 'a'],
    ['two octets a character', 10, 'é'],
    ['three octets a character', 10, '€'],
    ['four octets a character, which JavaScript counts as two', 5, '🦀'],
  ])('may have the requested number of characters and no more, with %s', (_what, count, character) => {
    expect(textOf(Buffer.from(character.repeat(count)), 10)).toBe(character.repeat(count));
    expect(textOf(Buffer.from(character.repeat(count + 1)), 10)).toBeUndefined();
  });

  test.each<[string, Buffer]>([
    ['an octet that UTF-8 does not use', Buffer.of(0xff)],
    ['a truncated character', Buffer.from('é').subarray(0, 1)],
    ['half of a surrogate pair', Buffer.of(0xed, 0xa0, 0x80)],
    ['an overlong encoding', Buffer.of(0xc0, 0xaf)],
  ])('with %s is read, with U+FFFD in its place', (_what, octets) => {
    expect(textOf(Buffer.concat([Buffer.from('text '), octets]))).toMatch(/^text \ufffd+$/);
  });
});

describe('unknown fields', () => {
  test('are skipped for any wire type', () => {
    const fields = [
      varintField(15, MAX_UINT64),
      Buffer.concat([tag(16, WireType.FIXED32), Buffer.alloc(4, 0xff)]),
      Buffer.concat([tag(17, WireType.FIXED64), Buffer.alloc(8, 0xff)]),
      lengthField(18, Buffer.alloc(200)),
      group(19, lengthField(1, Buffer.alloc(3)), group(2, varintField(1, 1n))),
    ];
    for (const field of fields) {
      const reader = readerOf(Buffer.concat([field, varintField(1, 5n)]));
      reader.skip(reader.tag());
      expect([reader.tag(), reader.uint32()]).toEqual([8, 5]);
    }
  });

  test('may nest groups 100 deep, and no deeper', () => {
    const nested = (depth: number): Buffer => (depth === 0 ? Buffer.alloc(0) : group(15, nested(depth - 1)));
    expect(() => skipAll(nested(100))).not.toThrow();
    expect(() => skipAll(nested(101))).toThrow('groups are nested more than 100 deep');
    expect(() => skipAll(Buffer.alloc(1_000_000, 0x7b))).toThrow('groups are nested more than 100 deep');
  });

  test('are counted, so that a message cannot consist of millions', () => {
    const many = (times: number): Buffer => Buffer.concat(new Array<Buffer>(times).fill(varintField(15, 1n)));
    expect(() => skipAll(many(131_072))).not.toThrow();
    expect(() => skipAll(many(131_073))).toThrow('a message has more than 131072 fields');
  });
});

test.each<[string, Buffer, string]>([
  ['a field of number 0', Buffer.of(0x02, 0x00), 'a field has number 0'],
  ['a length beyond the message', Buffer.of(0x0a, 0x05, 0x61), 'a field is longer than its message'],
  [
    'a length that never ends',
    lengthField(1, Buffer.alloc(0)).fill(0xff, 1),
    'a message ends in the middle of a field',
  ],
  [
    'a length that a uint32 would cut to 0',
    Buffer.concat([tag(1, 2), varint(2n ** 32n)]),
    'a field is longer than its message',
  ],
  ['a fixed field beyond the message', Buffer.of(0x79, 1, 2, 3), 'a field is longer than its message'],
  ['wire type 6', Buffer.of(0x7e), 'a field cannot start with wire type 6'],
  ['the end of a group that has not begun', tag(15, WireType.END_GROUP), 'a field cannot start with wire type 4'],
  [
    'a group that ends with the number of another',
    Buffer.concat([tag(15, 3), tag(16, 4)]),
    'a field cannot start with wire type 4',
  ],
  ['a group without an end', tag(15, WireType.GROUP), 'a message ends in the middle of a field'],
])('a message with %s is refused', (_what, message, problem) => {
  expect(() => skipAll(message)).toThrow(problem);
});

test('an inner message must end at its stated length', () => {
  const reader = readerOf(lengthField(1, lengthField(1, Buffer.from('aa'))));
  reader.tag();
  const end = reader.length();
  reader.tag();
  reader.text(100);
  expect(() => reader.close(end)).not.toThrow();
  expect(() => reader.close(end - 1)).toThrow('a field extends past the end of its message');
});
