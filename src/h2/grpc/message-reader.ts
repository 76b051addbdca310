import { JoinedParts } from '../bounds/spare-buffers.ts';
import { uint32 } from '../http2/octets.ts';
import { decompress } from './compression.ts';
import { GrpcError, status } from './grpc-status.ts';

/** Maximum size of a message on the hot path, the same as grpc-go's default; larger ones fail with RESOURCE_EXHAUSTED. */
export const MAX_REQUEST_BYTES = 4 * 1024 * 1024;

/** Length of a message's prefix, one octet for the compression flag and four for the length. */
export const PREFIX_BYTES = 5;

/** Receives a message with its prefix; `bytes` is only valid during the call. */
type OnMessage = (bytes: Buffer, from: number, to: number) => void;

/** Reassembles the messages of a call. A message that arrives in one piece, as most do, is not copied. */
export class MessageReader {
  readonly #maxBytes: number;
  readonly #onMessage: OnMessage;
  #parts: JoinedParts | undefined;

  /** @param maxBytes  limit of a message before decompression */
  constructor(maxBytes: number, onMessage: OnMessage) {
    this.#maxBytes = maxBytes;
    this.#onMessage = onMessage;
  }

  /** Received octets of an incomplete message. */
  get pending(): number {
    return this.#parts?.length ?? 0;
  }

  /** Memory of an incomplete message. */
  get heldBytes(): number {
    return this.#parts?.bytes.length ?? 0;
  }

  /** Discards an incomplete message. */
  release(): void {
    this.#parts?.release();
    this.#parts = undefined;
  }

  /** @throws GrpcError if a message is too large; and what the receiver throws */
  push(bytes: Buffer, from: number, to: number): void {
    let at = from;
    while (at < to) {
      const isWhole = !this.#parts && to - at >= PREFIX_BYTES;
      const end = isWhole ? at + PREFIX_BYTES + messageLength(bytes, at, this.#maxBytes) : Number.POSITIVE_INFINITY;
      if (end <= to) {
        this.#onMessage(bytes, at, end);
        at = end;
      } else at = this.#join(bytes, at, to);
    }
  }

  /** @returns the position behind the octets that were consumed */
  #join(bytes: Buffer, from: number, to: number): number {
    this.#parts ??= new JoinedParts();
    const parts = this.#parts;
    let at = from;
    if (parts.length < PREFIX_BYTES) at = parts.add(bytes, at, to, PREFIX_BYTES);
    if (parts.length < PREFIX_BYTES) return at;
    const whole = PREFIX_BYTES + messageLength(parts.bytes, 0, this.#maxBytes);
    at = parts.add(bytes, at, to, whole);
    if (parts.length < whole) return at;
    this.#parts = undefined;
    this.#onMessage(parts.bytes, 0, whole);
    parts.release();
    return at;
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

/**
 * The content of a message with its prefix, which is decompressed if the prefix says so.
 *
 * @param maxBytes  limit after decompression
 * @throws GrpcError if it is too large, or not valid for the encoding
 */
export function unpacked(
  [bytes, from, to]: readonly [bytes: Buffer, from: number, to: number],
  encoding: string,
  maxBytes: number,
): readonly [bytes: Buffer, from: number, to: number] {
  const flag = bytes[from];
  if (flag === 0) return [bytes, from + PREFIX_BYTES, to];
  if (flag !== 1) throw new GrpcError(status.INTERNAL, `the compression flag must be 0 or 1, got ${flag}`);
  const message = decompress(encoding, bytes.subarray(from + PREFIX_BYTES, to), maxBytes);
  return [message, 0, message.length];
}
