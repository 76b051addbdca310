import '../helpers/realm.ts';
import { createInterner } from '../../src/protobuf/interner.ts';
import { ProtoReader } from '../../src/protobuf/reader.ts';
import { ProtoWriter } from '../../src/protobuf/writer.ts';

/** Reads back what `write` wrote after a headroom of 5 octets. */
function writtenBy(write: (writer: ProtoWriter) => void): ProtoReader {
  const writer = new ProtoWriter();
  writer.start(5);
  write(writer);
  const reader = new ProtoReader(createInterner());
  reader.open(writer.bytes, 5, writer.length);
  return reader;
}

test.each([1, 127, 128, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1])('a uint32 of %i is read back', (value) => {
  const reader = writtenBy((writer) => writer.uint32Field(3, value));
  expect([reader.tag(), reader.uint32()]).toEqual([3 << 3, value]);
});

test.each([1, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER])('an integer of %i is read back', (value) => {
  const reader = writtenBy((writer) => writer.uintField(3, value));
  expect([reader.tag(), reader.uint64()]).toEqual([3 << 3, value]);
});

test.each([1, 126, 127, 128, 129, 4_095, 4_096, 16_383, 16_384, 2_097_151, 2_097_152])(
  'a message with a string of %i octets is read back, for any size of its length prefix',
  (length) => {
    for (const text of ['v'.repeat(length), 'é'.repeat(Math.ceil(length / 2))]) {
      const reader = writtenBy((writer) => {
        const start = writer.begin(2);
        writer.textField(1, text);
        writer.end(start);
      });
      expect(reader.tag()).toBe((2 << 3) | 2);
      const end = reader.length();
      expect(reader.tag()).toBe((1 << 3) | 2);
      expect(reader.text(3_000_000) === text).toBe(true);
      reader.close(end);
    }
  },
);

test('fields with their default values are omitted', () => {
  const writer = new ProtoWriter();
  writer.start(0);
  writer.uint32Field(1, 0);
  writer.uintField(2, 0);
  writer.textField(3, '');
  expect(writer.length).toBe(0);
});
