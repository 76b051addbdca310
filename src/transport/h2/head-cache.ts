import { type Decoded, HpackDecoder } from './hpack/decoder.ts';
import type { Field } from './hpack/field.ts';
import { type RequestHead, readHead } from './request-head.ts';

/** The head of a request; why it is malformed; or that it is larger than the limit. */
export type Head =
  | (RequestHead & {
      /** Bytes of memory that this head takes for its stream alone; 0: it is remembered, and shared. */
      readonly ownBytes: number;
    })
  | { readonly problem: string }
  | 'too large';

/** Remembered blocks: clients send a few different ones. */
const MAX_BLOCKS = 8;
/** Longer blocks are decoded each time, and so are those whose fields are larger. */
const MAX_BLOCK_BYTES = 256;
const MAX_LIST_BYTES = 4_096;

/** Memory per octet of a field list as HPACK counts it, which adds 32 a field: an object, two strings, and their places in the list. */
const BYTES_PER_LIST_OCTET = 3;

interface Known {
  readonly block: Buffer;
  readonly head: Head;
  readonly heldBytes: number;
}

/**
 * Decodes the header blocks of a connection, and remembers the result of those that left the dynamic table unchanged: until a later one changes
 * it, the same octets mean the same request. Most calls of a gRPC client begin with such a block.
 */
export class HeadCache {
  readonly #decoder: HpackDecoder;
  #known: Known[] = [];
  #knownBytes = 0;
  #generation = 0;

  /** @param maxListSize  of a request's fields, with 32 octets for each */
  constructor(maxListSize: number) {
    this.#decoder = new HpackDecoder(maxListSize);
  }

  /** Bytes of memory in remembered heads and the dynamic table. */
  get heldBytes(): number {
    return this.#knownBytes + this.#decoder.tableSize * BYTES_PER_LIST_OCTET;
  }

  /** @throws Http2Error  COMPRESSION_ERROR */
  request(bytes: Buffer, from: number, to: number): Head {
    for (const { block, head } of this.#known) if (isSame(block, bytes, from, to)) return head;
    const fields = this.#decoder.decode(bytes, from, to);
    if (this.#decoder.generation !== this.#generation) this.#forgetAll();
    else if (to - from <= MAX_BLOCK_BYTES && sizeOf(fields) <= MAX_LIST_BYTES)
      return this.#remember(Buffer.from(bytes.subarray(from, to)), headOf(fields, 0), sizeOf(fields));
    return headOf(fields, sizeOf(fields) * BYTES_PER_LIST_OCTET);
  }

  /** @throws Http2Error  COMPRESSION_ERROR */
  trailers(bytes: Buffer, from: number, to: number): Decoded {
    const fields = this.#decoder.decode(bytes, from, to);
    if (this.#decoder.generation !== this.#generation) this.#forgetAll();
    return fields;
  }

  #remember(block: Buffer, head: Head, listBytes: number): Head {
    const known = { block, head, heldBytes: block.length + listBytes * BYTES_PER_LIST_OCTET };
    this.#known.push(known);
    this.#knownBytes += known.heldBytes;
    if (this.#known.length > MAX_BLOCKS) this.#knownBytes -= this.#known.shift()?.heldBytes ?? 0;
    return head;
  }

  #forgetAll(): void {
    this.#generation = this.#decoder.generation;
    this.#known = [];
    this.#knownBytes = 0;
  }
}

const sizeOf = (fields: Decoded): number =>
  fields === 'too large' ? 0 : fields.reduce((sum: number, { size }: Field) => sum + size, 0);

function headOf(fields: Decoded, ownBytes: number): Head {
  if (fields === 'too large') return fields;
  const head = readHead(fields);
  return typeof head === 'string' ? { problem: head } : { ...head, ownBytes };
}

function isSame(block: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (block.length !== to - from) return false;
  for (let at = 0; at < block.length; at++) if (block[at] !== bytes[from + at]) return false;
  return true;
}
