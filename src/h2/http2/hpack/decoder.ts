import { ErrorCode, Http2Error } from '../errors.ts';
import { createHeaderField, type HeaderField } from './field.ts';
import { decodeHuffman } from './huffman.ts';
import { staticTable } from './static-table.ts';

/** Size limit of the dynamic table, the default of SETTINGS_HEADER_TABLE_SIZE. */
const MAX_TABLE_SIZE = 4_096;

/** A block's fields, or that they exceed the limit; even then it was decoded, since later blocks depend on it. */
export type Decoded = readonly HeaderField[] | 'too large';

const NO_BYTES = Buffer.alloc(0);
/** Maximum length at which a table is copied on insertion, so that it has no spare capacity. */
const SMALL_TABLE_FIELDS = 16;

/** Upper bound for lengths and indexes. */
const MAX_INTEGER = 0x0fff_ffff;

/**
 * Decodes the header blocks of one direction of one connection.
 *
 * @see https://www.rfc-editor.org/rfc/rfc7541
 */
export class HpackDecoder {
  /** Version of the dynamic table; while it is unchanged, equal blocks mean equal fields. */
  generation = 0;
  readonly #maxListSize: number;
  /** Newest first. */
  #table: HeaderField[] = [];
  #tableSize = 0;
  #tableLimit = MAX_TABLE_SIZE;
  #bytes: Buffer = NO_BYTES;
  #at = 0;
  #end = 0;

  /** @param maxListSize  limit for the fields of a block, as the sum of `HeaderField.size` */
  constructor(maxListSize: number) {
    this.#maxListSize = maxListSize;
  }

  /** Size of the dynamic table, as the sum of `HeaderField.size`. */
  get tableSize(): number {
    return this.#tableSize;
  }

  /** @throws Http2Error  with COMPRESSION_ERROR; the connection must end, since the two sides' tables differ */
  decode(bytes: Buffer, from: number, to: number): Decoded {
    this.#bytes = bytes;
    this.#at = from;
    this.#end = to;
    const fields: HeaderField[] = [];
    let size = 0;
    while (this.#at < to) {
      const field = this.#readRepresentation(fields.length === 0 && size === 0);
      if (!field) continue;
      size += field.size;
      if (size <= this.#maxListSize) fields.push(field);
    }
    this.#bytes = NO_BYTES;
    return size <= this.#maxListSize ? fields : 'too large';
  }

  /** The next field, or undefined for a size update of the table. */
  #readRepresentation(isFirst: boolean): HeaderField | undefined {
    const byte = this.#bytes[this.#at] as number; // within the block, as `decode` checked
    if (byte >= 0x80) return this.#entry(this.#readInteger(7));
    if (byte >= 0x40) return this.#insert(this.#readLiteral(6));
    if (byte < 0x20) return this.#readLiteral(4);
    if (!isFirst) throw broken('a table size update in the middle of a block');
    this.#resize(this.#readInteger(5));
    return undefined;
  }

  #readLiteral(prefixBits: number): HeaderField {
    const nameIndex = this.#readInteger(prefixBits);
    const name = nameIndex === 0 ? this.#readString() : this.#entry(nameIndex).name;
    return createHeaderField(name, this.#readString());
  }

  #entry(index: number): HeaderField {
    const field = index <= staticTable.length ? staticTable[index - 1] : this.#table[index - staticTable.length - 1];
    if (!field) throw broken(`invalid table index ${index}`);
    return field;
  }

  #insert(field: HeaderField): HeaderField {
    this.generation++;
    if (this.#table.length < SMALL_TABLE_FIELDS) this.#table = [field].concat(this.#table);
    else this.#table.unshift(field);
    this.#tableSize += field.size;
    this.#evict(); // including the new field if it exceeds the table
    return field;
  }

  #resize(limit: number): void {
    if (limit > MAX_TABLE_SIZE)
      throw broken(`the dynamic table may have at most ${MAX_TABLE_SIZE} octets, got ${limit}`);
    this.generation++;
    this.#tableLimit = limit;
    this.#evict();
  }

  #evict(): void {
    while (this.#tableSize > this.#tableLimit) this.#tableSize -= this.#table.pop()?.size ?? 0;
  }

  #readInteger(prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = this.#readByte() & mask;
    if (value < mask) return value;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#readByte();
      value += (byte & 0x7f) * factor;
      if (value > MAX_INTEGER || factor > MAX_INTEGER) throw broken('an integer is too large');
      if (byte < 0x80) return value;
    }
  }

  #readString(): string {
    const isHuffman = (this.#bytes[this.#at] ?? 0) >= 0x80;
    const length = this.#readInteger(7);
    const from = this.#at;
    const to = from + length;
    if (to > this.#end) throw broken('a string extends past the end of its block');
    this.#at = to;
    if (!isHuffman) return this.#bytes.toString('latin1', from, to);
    const text = decodeHuffman(this.#bytes, from, to);
    if (text === undefined) throw broken('invalid Huffman code');
    return text;
  }

  #readByte(): number {
    if (this.#at >= this.#end) throw broken('a block ends in the middle of a field');
    return this.#bytes[this.#at++] as number; // within the block
  }
}

const broken = (what: string): Http2Error => new Http2Error(ErrorCode.COMPRESSION_ERROR, what);
