import { WireType } from '../../src/protobuf/reader.ts';

/** Protobuf fields, built octet by octet. */

/** @param minOctets  pads the varint with zero groups to this many octets */
export function varint(value: bigint, minOctets = 1): Buffer {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push(Number(rest & 0x7fn));
    rest >>= 7n;
  } while (rest > 0n || bytes.length < minOctets);
  return Buffer.from(bytes.map((byte, at) => (at < bytes.length - 1 ? byte | 0x80 : byte)));
}

export const tag = (field: number, type: number): Buffer => varint(BigInt(field * 8 + type));
export const lengthField = (field: number, payload: Uint8Array): Buffer =>
  Buffer.concat([tag(field, WireType.LENGTH), varint(BigInt(payload.length)), payload]);
export const varintField = (field: number, value: bigint, minOctets?: number): Buffer =>
  Buffer.concat([tag(field, WireType.VARINT), varint(value, minOctets)]);
export const group = (field: number, ...inner: readonly Buffer[]): Buffer =>
  Buffer.concat([tag(field, WireType.GROUP), ...inner, tag(field, WireType.END_GROUP)]);
