import { staticTable } from './static-table.ts';

/**
 * Encodes fields without the dynamic table, so that a block can be encoded once and sent on every connection, and
 * without Huffman coding, since the fields are short.
 *
 * @param fields  lower-case names and ASCII values
 * @see https://www.rfc-editor.org/rfc/rfc7541#section-6
 */
export function encodeFields(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  return Buffer.concat(fields.map(([name, value]) => encodeField(name, value)));
}

/** Announces that the dynamic table is not used from now on (RFC 7541, 4.2). */
export const TABLE_SIZE_ZERO = 0x20;

function encodeField(name: string, value: string): Buffer {
  const exact = staticTable.findIndex((field) => field.name === name && field.value === value) + 1;
  if (exact > 0) return encodeInteger(exact, 7, 0x80);
  const named = staticTable.findIndex((field) => field.name === name) + 1;
  const head = encodeInteger(named, 4, 0x00);
  return Buffer.concat(named > 0 ? [head, encodeString(value)] : [head, encodeString(name), encodeString(value)]);
}

function encodeString(text: string): Buffer {
  return Buffer.concat([encodeInteger(text.length, 7, 0x00), Buffer.from(text, 'latin1')]);
}

function encodeInteger(value: number, prefixBits: number, pattern: number): Buffer {
  const mask = (1 << prefixBits) - 1;
  if (value < mask) return Buffer.of(pattern | value);
  const bytes = [pattern | mask];
  let rest = value - mask;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return Buffer.of(...bytes, rest);
}
