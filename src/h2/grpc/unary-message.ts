import { giveBack, takeBuffer } from '../bounds/spare-buffers.ts';
import { uint32 } from '../http2/octets.ts';
import { GrpcError, status } from './grpc-status.ts';
import { PREFIX_BYTES } from './message-reader.ts';

/** Initial buffer of a message that arrives in parts. */
const MIN_BUFFER_BYTES = 1_024;

const NO_BYTES: Buffer = Buffer.alloc(0);

/** Reassembles the message of a unary call whose body arrives in several frames. */
export class UnaryMessage {
  readonly #maxBytes: number;
  readonly #charge: (bytes: number) => void;
  #bytes: Buffer = NO_BYTES;
  #length = 0;

  /** @param charge  called whenever the buffer grows */
  constructor(maxBytes: number, charge: (bytes: number) => void) {
    this.#maxBytes = maxBytes;
    this.#charge = charge;
  }

  /** Size of the buffer. */
  get heldBytes(): number {
    return this.#bytes.length;
  }

  /** @throws GrpcError if the message is larger than the limit, or a second one follows */
  push(bytes: Buffer, from: number, to: number): void {
    const length = this.#length + to - from;
    if (this.#length < PREFIX_BYTES) {
      this.#reserve(Math.min(length, PREFIX_BYTES));
      const count = bytes.copy(this.#bytes, this.#length, from, Math.min(to, from + PREFIX_BYTES - this.#length));
      this.#length += count;
      if (this.#length === PREFIX_BYTES) this.push(bytes, from + count, to);
      return;
    }
    const whole = PREFIX_BYTES + messageLength(this.#bytes, 0, this.#maxBytes);
    if (length > whole) throw new GrpcError(status.UNIMPLEMENTED, 'the method takes one message, got more');
    this.#reserve(length, whole); // the announced length may never arrive
    bytes.copy(this.#bytes, this.#length, from, to);
    this.#length = length;
  }

  /**
   * The message with its prefix, valid until `release`.
   *
   * @throws GrpcError if there is no message, or only a part of it
   */
  end(): Buffer {
    if (this.#length === 0) throw new GrpcError(status.UNIMPLEMENTED, 'the method takes one message, got none');
    const isWhole =
      this.#length >= PREFIX_BYTES && this.#length === PREFIX_BYTES + messageLength(this.#bytes, 0, this.#maxBytes);
    if (!isWhole) throw new GrpcError(status.INTERNAL, 'the request ends in the middle of a message');
    return this.#bytes.subarray(0, this.#length);
  }

  /** Releases the buffer, which the next message may reuse. */
  release(): void {
    giveBack(this.#bytes);
    this.#bytes = NO_BYTES;
    this.#length = 0;
  }

  #reserve(needed: number, max = MIN_BUFFER_BYTES): void {
    if (needed <= this.#bytes.length) return;
    const size = Math.max(needed, Math.min(max, Math.max(this.#bytes.length * 2, MIN_BUFFER_BYTES)));
    const smaller = this.#bytes;
    this.#bytes = takeBuffer(size);
    smaller.copy(this.#bytes, 0, 0, this.#length);
    giveBack(smaller);
    this.#charge(this.#bytes.length - smaller.length);
  }
}

/**
 * The length in the message prefix at this position.
 *
 * @throws GrpcError  with RESOURCE_EXHAUSTED if it exceeds the limit
 */
export function messageLength(bytes: Buffer, at: number, maxBytes: number): number {
  const length = uint32(bytes, at + 1);
  if (length <= maxBytes) return length;
  throw new GrpcError(status.RESOURCE_EXHAUSTED, `a message may have at most ${maxBytes} bytes, got ${length}`);
}
