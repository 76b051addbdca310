import { giveBack, takeBuffer } from '../bounds/spare-buffers.ts';
import { decompress } from './compression.ts';
import { GrpcError, status } from './grpc-status.ts';

/** Length of a message's prefix, one octet for the compression flag and four for the length. */
export const PREFIX_BYTES = 5;

/** Initial buffer of a message that arrives in pieces. */
const MIN_HELD_BYTES = 1_024;

/** Receives a message; `bytes` is only valid during the call. */
type OnMessage = (bytes: Buffer, from: number, to: number) => void;

/** Reassembles the messages of a call. A message that arrives in one piece, as most do, is not copied. */
export class MessageReader {
  readonly #encoding: string;
  readonly #maxBytes: number;
  readonly #onMessage: OnMessage;
  #held: Buffer | undefined;
  /** Length of the message, limited to the size of the buffer. */
  #heldLimit = 0;
  #heldLength = 0;

  /** @param maxBytes  limit of a message, before and after decompression */
  constructor(encoding: string, maxBytes: number, onMessage: OnMessage) {
    this.#encoding = encoding;
    this.#maxBytes = maxBytes;
    this.#onMessage = onMessage;
  }

  /** Received octets of an incomplete message. */
  get pending(): number {
    return this.#heldLength;
  }

  /** Discards an incomplete message. */
  release(): void {
    if (this.#held) giveBack(this.#held);
    this.#held = undefined;
    this.#heldLength = 0;
  }

  /** @throws GrpcError if a message is too large, or cannot be decompressed */
  push(bytes: Buffer, from: number, to: number): void {
    let at = from;
    while (at < to) {
      if (this.#held) {
        at += this.#fill(this.#held, bytes, at, to);
        continue;
      }
      const end = to - at >= PREFIX_BYTES ? at + PREFIX_BYTES + this.#lengthAt(bytes, at) : Number.POSITIVE_INFINITY;
      if (end <= to) {
        this.#deliver(bytes, at, end);
        at = end;
      } else {
        this.#held = takeBuffer(PREFIX_BYTES);
        this.#heldLimit = PREFIX_BYTES;
        this.#heldLength = 0;
      }
    }
  }

  /** @returns the number of octets consumed */
  #fill(held: Buffer, bytes: Buffer, at: number, to: number): number {
    const count = bytes.copy(held, this.#heldLength, at, Math.min(to, at + this.#heldLimit - this.#heldLength));
    this.#heldLength += count;
    if (this.#heldLength < this.#heldLimit) return count;
    const whole = PREFIX_BYTES + this.#lengthAt(held, 0);
    if (this.#heldLength === whole) {
      this.#held = undefined;
      this.#heldLength = 0;
      this.#deliver(held, 0, whole);
    } else {
      // the announced length may never arrive
      this.#held = takeBuffer(Math.min(whole, Math.max(held.length * 2, MIN_HELD_BYTES)));
      this.#heldLimit = Math.min(whole, this.#held.length);
      held.copy(this.#held, 0, 0, this.#heldLength);
    }
    giveBack(held);
    return count;
  }

  #lengthAt(bytes: Buffer, at: number): number {
    const length = bytes.readUInt32BE(at + 1);
    if (length > this.#maxBytes)
      throw new GrpcError(
        status.RESOURCE_EXHAUSTED,
        `a message may have at most ${this.#maxBytes} bytes, got ${length}`,
      );
    return length;
  }

  #deliver(bytes: Buffer, from: number, to: number): void {
    const flag = bytes[from];
    if (flag === 0) return this.#onMessage(bytes, from + PREFIX_BYTES, to);
    if (flag !== 1) throw new GrpcError(status.INTERNAL, `the compression flag must be 0 or 1, got ${flag}`);
    const message = decompress(this.#encoding, bytes.subarray(from + PREFIX_BYTES, to), this.#maxBytes);
    this.#onMessage(message, 0, message.length);
  }
}
