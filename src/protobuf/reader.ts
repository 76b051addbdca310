import type { Interner } from './interner.ts';

/** @see https://protobuf.dev/programming-guides/encoding/#structure */
export const WireType = { VARINT: 0, FIXED64: 1, LENGTH: 2, GROUP: 3, END_GROUP: 4, FIXED32: 5 } as const;

/** Maximum fields of a message, also nested and unknown: milliseconds of work. Valid requests have half at most. */
const MAX_FIELDS = 131_072;

/** Maximum nesting of groups in unknown fields. */
const MAX_DEPTH = 100;

const MAX_OCTETS_PER_CHARACTER = 3;

/** Replaces what is not UTF-8 by U+FFFD: proxies copy headers, which may have any octets, into strings. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Reads a protobuf message in place, without copying it. Every method throws a RangeError on malformed input. */
export class ProtoReader {
  readonly #intern: Interner;
  #bytes: Buffer = Buffer.alloc(0);
  #end = 0;
  #fields = 0;
  at = 0;

  constructor(intern: Interner) {
    this.#intern = intern;
  }

  open(bytes: Buffer, from: number, to: number): void {
    this.#bytes = bytes;
    this.at = from;
    this.#end = to;
    this.#fields = 0;
  }

  /** The next field's tag, its number × 8 + its wire type. */
  tag(): number {
    if (++this.#fields > MAX_FIELDS) throw new RangeError(`a message has more than ${MAX_FIELDS} fields`);
    const tag = this.uint32();
    if (tag >>> 3 === 0) throw new RangeError('a field has number 0');
    return tag;
  }

  /** Reads a length prefix. @returns the position where the field ends */
  length(): number {
    const length = this.uint64();
    const end = this.at + length;
    if (end > this.#end) throw new RangeError('a field is longer than its message');
    return end;
  }

  /** Checks that a nested message ended where its length prefix says. */
  close(end: number): void {
    if (this.at !== end) throw new RangeError('a field extends past the end of its message');
  }

  /** The low 32 bits of a varint. */
  uint32(): number {
    const first = this.#byte();
    if (first < 0x80) return first;
    let value = first & 0x7f;
    for (let shift = 7; shift < 70; shift += 7) {
      const byte = this.#byte();
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    throw new RangeError('a varint has more than 10 octets');
  }

  /** A varint; inexact beyond 2^53. */
  uint64(): number {
    let value = 0;
    let factor = 1;
    for (let count = 0; count < 10; count++) {
      const byte = this.#byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    throw new RangeError('a varint has more than 10 octets');
  }

  double(): number {
    const from = this.at;
    this.#advance(8);
    return this.#bytes.readDoubleLE(from);
  }

  /**
   * A string field.
   *
   * @param maxLength  maximum UTF-16 code units
   * @returns undefined without reading the string if it is longer
   */
  text(maxLength: number): string | undefined {
    const end = this.length();
    const from = this.at;
    if (end - from > maxLength && this.#isLonger(from, end, maxLength)) return undefined;
    const bytes = this.#bytes;
    let hash = 0;
    let seen = 0;
    for (let at = from; at < end; at++) {
      const byte = bytes[at] as number; // within the message
      seen |= byte;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    this.at = end;
    return seen < 0x80 ? this.#intern(bytes, from, end, hash) : decodeUtf8(bytes, from, end);
  }

  /** A string field, cut to its first `maxLength` UTF-16 code units. */
  beginning(maxLength: number): string {
    const start = this.at;
    const whole = this.text(maxLength);
    if (whole !== undefined) return whole;
    this.at = start;
    const end = this.length();
    const from = this.at;
    this.at = end;
    return decodeUtf8(this.#bytes, from, Math.min(end, from + maxLength * MAX_OCTETS_PER_CHARACTER)).slice(
      0,
      maxLength,
    );
  }

  /** Upper bound: a UTF-16 code unit takes at most three octets in UTF-8, characters of four are two units. */
  #isLonger(from: number, end: number, maxLength: number): boolean {
    if (end - from > maxLength * MAX_OCTETS_PER_CHARACTER) return true;
    return decodeUtf8(this.#bytes, from, end).length > maxLength;
  }

  /** Skips a field that is unknown, or has an unexpected wire type. */
  skip(tag: number, depth = 0): void {
    switch (tag & 7) {
      case WireType.VARINT:
        this.uint64();
        return;
      case WireType.FIXED64:
        return this.#advance(8);
      case WireType.LENGTH:
        this.at = this.length();
        return;
      case WireType.FIXED32:
        return this.#advance(4);
      case WireType.GROUP:
        return this.#skipGroup(tag, depth + 1);
      default:
        throw new RangeError(`a field cannot start with wire type ${tag & 7}`);
    }
  }

  #skipGroup(start: number, depth: number): void {
    if (depth > MAX_DEPTH) throw new RangeError(`groups are nested more than ${MAX_DEPTH} deep`);
    const endTag = start - WireType.GROUP + WireType.END_GROUP;
    for (let tag = this.tag(); tag !== endTag; tag = this.tag()) this.skip(tag, depth);
  }

  #advance(count: number): void {
    this.at += count;
    if (this.at > this.#end) throw new RangeError('a field is longer than its message');
  }

  #byte(): number {
    if (this.at >= this.#end) throw new RangeError('a message ends in the middle of a field');
    return this.#bytes[this.at++] as number; // within the message
  }
}

const decodeUtf8 = (bytes: Buffer, from: number, to: number): string => utf8.decode(bytes.subarray(from, to));
