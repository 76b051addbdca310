import { ownCopy } from '../bounds/own-copy.ts';
import { type Decoded, HpackDecoder } from './hpack/decoder.ts';
import type { HeaderField } from './hpack/field.ts';
import { type RequestHead, readHead } from './request-head.ts';

/** The head of a request, the reason why it is malformed, or that it exceeds the limit. */
export type Head =
  | (RequestHead & {
      /** Memory of an uncached head; 0 for cached heads, which streams share. */
      readonly ownBytes: number;
      readonly problem?: undefined;
    })
  | { readonly problem: string }
  | 'too large';

/** Maximum number of cached blocks, as clients send only a few different ones. */
const MAX_BLOCKS = 8;
/** Maximum size of cached blocks, and of their fields. */
const MAX_BLOCK_BYTES = 256;
const MAX_LIST_BYTES = 4_096;

/** Memory of a field list per octet as HPACK counts it (32 per field), for an object, two strings and a slot. */
const BYTES_PER_LIST_OCTET = 3;

interface CachedHead {
  readonly block: Buffer;
  readonly head: Head;
  readonly heldBytes: number;
}

/**
 * Decodes the header blocks of a connection, and caches those that left the dynamic table unchanged, since the same
 * octets mean the same request until a later block changes it. Most calls of a gRPC client begin with such a block.
 */
export class HeadCache {
  readonly #decoder: HpackDecoder;
  #cached: CachedHead[] = [];
  #cachedBytes = 0;
  #generation = 0;

  /** @param maxListSize  limit of a request's fields, plus 32 octets each */
  constructor(maxListSize: number) {
    this.#decoder = new HpackDecoder(maxListSize);
  }

  /** Memory of cached heads and the dynamic table. */
  get heldBytes(): number {
    return this.#cachedBytes + this.#decoder.tableSize * BYTES_PER_LIST_OCTET;
  }

  /** @throws Http2Error  COMPRESSION_ERROR */
  request(bytes: Buffer, from: number, to: number): Head {
    for (const { block, head } of this.#cached) if (isSame(block, bytes, from, to)) return head;
    const fields = this.#decoder.decode(bytes, from, to);
    if (this.#decoder.generation !== this.#generation) this.#clear();
    else if (to - from <= MAX_BLOCK_BYTES && listSize(fields) <= MAX_LIST_BYTES)
      return this.#cache(ownCopy(bytes, from, to), parseHead(fields, 0), listSize(fields));
    return parseHead(fields, listSize(fields) * BYTES_PER_LIST_OCTET);
  }

  /** @throws Http2Error  COMPRESSION_ERROR */
  trailers(bytes: Buffer, from: number, to: number): Decoded {
    const fields = this.#decoder.decode(bytes, from, to);
    if (this.#decoder.generation !== this.#generation) this.#clear();
    return fields;
  }

  #cache(block: Buffer, head: Head, listBytes: number): Head {
    const cached = { block, head, heldBytes: block.length + listBytes * BYTES_PER_LIST_OCTET };
    this.#cached = this.#cached.concat(cached); // unlike `push`, allocates no spare capacity
    this.#cachedBytes += cached.heldBytes;
    if (this.#cached.length > MAX_BLOCKS) this.#cachedBytes -= this.#cached.shift()?.heldBytes ?? 0;
    return head;
  }

  #clear(): void {
    this.#generation = this.#decoder.generation;
    this.#cached = [];
    this.#cachedBytes = 0;
  }
}

const listSize = (fields: Decoded): number =>
  fields === 'too large' ? 0 : fields.reduce((sum: number, { size }: HeaderField) => sum + size, 0);

function parseHead(fields: Decoded, ownBytes: number): Head {
  if (fields === 'too large') return fields;
  const head = readHead(fields);
  if (typeof head === 'string') return { problem: head };
  const { method, path, fields: others, contentLength } = head;
  return { method, path, fields: others, contentLength, ownBytes, problem: undefined }; // an object made by spreading is slower to read
}

function isSame(block: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (block.length !== to - from) return false;
  for (let at = 0; at < block.length; at++) if (block[at] !== bytes[from + at]) return false;
  return true;
}
