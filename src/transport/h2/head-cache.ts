import { type Decoded, HpackDecoder } from './hpack/decoder.ts';
import type { Field } from './hpack/field.ts';
import { type RequestHead, readHead } from './request-head.ts';

/** A request's head, why it is malformed, or that it is larger than wanted. */
export type Head = RequestHead | { readonly problem: string } | 'too large';

/** Blocks that are remembered: clients come to a few different ones. */
const MAX_BLOCKS = 8;
/** Longer ones are decoded each time. */
const MAX_BLOCK_BYTES = 256;

interface Known {
  readonly block: Buffer;
  readonly head: Head;
}

/**
 * Decodes the header blocks of a connection, and remembers what came of those that left the dynamic table alone: until a later one changes it,
 * the same octets mean the same request. Most calls of a gRPC client begin with such a block.
 */
export class HeadCache {
  readonly #decoder: HpackDecoder;
  #known: Known[] = [];
  #generation = 0;

  /** @param maxListSize  of a request's fields, 32 octets for each included */
  constructor(maxListSize: number) {
    this.#decoder = new HpackDecoder(maxListSize);
  }

  /** @throws Http2Error  COMPRESSION_ERROR */
  request(bytes: Buffer, from: number, to: number): Head {
    for (const { block, head } of this.#known) if (isSame(block, bytes, from, to)) return head;
    const head = headOf(this.#decode(bytes, from, to));
    const isStill = this.#decoder.generation === this.#generation;
    this.#generation = this.#decoder.generation;
    if (!isStill) this.#known = [];
    else if (to - from <= MAX_BLOCK_BYTES) {
      if (this.#known.length === MAX_BLOCKS) this.#known.shift();
      this.#known.push({ block: Buffer.from(bytes.subarray(from, to)), head });
    }
    return head;
  }

  /** @throws Http2Error  COMPRESSION_ERROR */
  trailers(bytes: Buffer, from: number, to: number): readonly Field[] | 'too large' {
    const fields = this.#decode(bytes, from, to);
    if (this.#decoder.generation !== this.#generation) this.#known = [];
    this.#generation = this.#decoder.generation;
    return fields;
  }

  #decode(bytes: Buffer, from: number, to: number): Decoded {
    return this.#decoder.decode(bytes, from, to);
  }
}

function headOf(fields: Decoded): Head {
  if (fields === 'too large') return fields;
  const head = readHead(fields);
  return typeof head === 'string' ? { problem: head } : head;
}

function isSame(block: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (block.length !== to - from) return false;
  for (let at = 0; at < block.length; at++) if (block[at] !== bytes[from + at]) return false;
  return true;
}
