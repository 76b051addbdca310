import { createInterner } from '../../../src/protobuf/interner.ts';
import { ProtoReader } from '../../../src/protobuf/reader.ts';

/** Maximum characters of a text. */
const MAX_TEXT = 65_536;

export const VARINT = 0;
export const LENGTH = 2;

/** Reused for every message. */
export const reader = new ProtoReader(createInterner());

/** A tag: the field's number × 8 + its wire type. */
export const fieldTag = (field: number, wireType: number): number => field * 8 + wireType;

/** Reads a message; `field` is called with each tag, and must read the value. */
export function open(bytes: Buffer, field: (tag: number) => void): void {
  reader.open(bytes, 0, bytes.length);
  while (reader.at < bytes.length) field(reader.tag());
}

/** Reads a nested message, from its length prefix on. */
export function nested(field: (tag: number) => void): void {
  const end = reader.length();
  while (reader.at < end) field(reader.tag());
  reader.close(end);
}

/** A google.protobuf.Duration in ms, rounded up. */
export function readDuration(): number {
  let seconds = 0;
  let nanos = 0;
  nested((tag) => {
    if (tag === fieldTag(1, VARINT)) seconds = reader.uint64();
    else if (tag === fieldTag(2, VARINT)) nanos = reader.uint32();
    else reader.skip(tag);
  });
  return seconds * 1_000 + Math.ceil(nanos / 1e6);
}

export function readText(): string {
  const text = reader.text(MAX_TEXT);
  if (text === undefined) throw new RangeError(`a text has more than ${MAX_TEXT} characters`);
  return text;
}
