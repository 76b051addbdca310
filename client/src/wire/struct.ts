import type { ProtoReader } from '../../../src/protobuf/reader.ts';

const MAX_DEPTH = 16;
const MAX_TEXT = 65_536;

/**
 * Reads a google.protobuf.Struct, from its length prefix on, as a plain object without a prototype.
 *
 * @see https://protobuf.dev/reference/protobuf/google.protobuf/#struct
 */
export function readStruct(reader: ProtoReader, depth = 0): Record<string, unknown> {
  if (depth > MAX_DEPTH) throw new RangeError(`a struct is nested more than ${MAX_DEPTH} deep`);
  const fields: Record<string, unknown> = Object.create(null);
  const end = reader.length();
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag !== 0x0a) {
      reader.skip(tag);
      continue;
    }
    let key = '';
    let value: unknown = null;
    const entryEnd = reader.length();
    while (reader.at < entryEnd) {
      const part = reader.tag();
      if (part === 0x0a) key = reader.text(MAX_TEXT) ?? '';
      else if (part === 0x12) value = readValue(reader, depth);
      else reader.skip(part);
    }
    reader.close(entryEnd);
    fields[key] = value;
  }
  reader.close(end);
  return fields;
}

function readValue(reader: ProtoReader, depth: number): unknown {
  let value: unknown = null;
  const end = reader.length();
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === 0x11) value = reader.double();
    else if (tag === 0x1a) value = reader.text(MAX_TEXT) ?? '';
    else if (tag === 0x20) value = reader.uint32() !== 0;
    else if (tag === 0x2a) value = readStruct(reader, depth + 1);
    else if (tag === 0x32) value = readList(reader, depth + 1);
    else reader.skip(tag); // and null
  }
  reader.close(end);
  return value;
}

function readList(reader: ProtoReader, depth: number): unknown[] {
  if (depth > MAX_DEPTH) throw new RangeError(`a struct is nested more than ${MAX_DEPTH} deep`);
  const values: unknown[] = [];
  const end = reader.length();
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === 0x0a) values.push(readValue(reader, depth));
    else reader.skip(tag);
  }
  reader.close(end);
  return values;
}
