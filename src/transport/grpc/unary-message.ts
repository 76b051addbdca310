import { status } from '../../grpc-status.ts';
import { GrpcError } from './grpc-error.ts';
import { PREFIX_BYTES } from './message-reader.ts';

/** The first buffer for a message that arrives in parts. */
const MIN_BUFFER_BYTES = 1_024;

/** Reassembles the message of a unary call whose body arrives in several frames. */
export class UnaryMessage {
  readonly #maxBytes: number;
  readonly #charge: (bytes: number) => void;
  #bytes = Buffer.alloc(0);
  #length = 0;

  /** @param charge  called with each growth of the buffer */
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
   * The message with its prefix.
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

  #reserve(needed: number, most = MIN_BUFFER_BYTES): void {
    if (needed <= this.#bytes.length) return;
    const size = Math.max(needed, Math.min(most, Math.max(this.#bytes.length * 2, MIN_BUFFER_BYTES)));
    const larger = Buffer.allocUnsafeSlow(size);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#charge(size - this.#bytes.length);
    this.#bytes = larger;
  }
}

/**
 * The length in the message prefix at this position.
 *
 * @throws GrpcError  RESOURCE_EXHAUSTED: longer than the limit
 */
export function messageLength(bytes: Buffer, at: number, maxBytes: number): number {
  const length = bytes.readUInt32BE(at + 1);
  if (length <= maxBytes) return length;
  throw new GrpcError(status.RESOURCE_EXHAUSTED, `a message may have at most ${maxBytes} bytes, got ${length}`);
}
