import { ownCopy } from '../bounds/own-copy.ts';
import { JoinedParts } from '../bounds/spare-buffers.ts';
import { ErrorCode, Http2Error } from './errors.ts';
import { DEFAULT_MAX_FRAME_SIZE, FRAME_HEADER_BYTES, PREFACE } from './frames.ts';
import { uint32 } from './octets.ts';

const NO_BYTES = Buffer.alloc(0);

export interface FrameReceiver {
  /** Receives one frame; its payload, `bytes` from `from` to `to`, is valid only during the call. */
  onFrame(bytes: Buffer, from: number, to: number, type: number, flags: number, streamId: number): void;
}

/**
 * Splits a connection's input into the client's preface and frames. A frame within one chunk is not copied; one that
 * spans chunks is reassembled. A chunk is valid only during `read`.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9113#section-4.1
 */
export class FrameReader {
  readonly #receiver: FrameReceiver;
  #prefaceLeft = PREFACE.length;
  /** An incomplete frame, with its header. */
  #frame: JoinedParts | undefined;
  #incompleteSinceMs: number | undefined;
  /** Input that arrived after `pause`. */
  #rest: Buffer | undefined;
  #isPaused = false;
  #isReleased = false;

  constructor(receiver: FrameReceiver) {
    this.#receiver = receiver;
  }

  /** Memory of input that has not been passed on. */
  get heldBytes(): number {
    return (this.#frame?.bytes.length ?? 0) + (this.#rest?.buffer.byteLength ?? 0);
  }

  /** Start of the incomplete frame on the monotonic clock; undefined without one. */
  get incompleteSinceMs(): number | undefined {
    return this.#incompleteSinceMs;
  }

  /** Discards an incomplete frame and buffered input of a connection that has ended. */
  release(): void {
    this.#isReleased = true;
    this.#rest = undefined;
    this.#frame?.release();
    this.#frame = undefined;
    this.#incompleteSinceMs = undefined;
  }

  /** Stops reading frames, also within the current chunk, until `resume`. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Continues after `pause`. @throws Http2Error as `read` does */
  resume(): void {
    this.#isPaused = false;
    const rest = this.#rest;
    this.#rest = undefined;
    if (rest) this.read(rest, true);
  }

  /**
   * @param isOwn  whether the chunk is not reused, so that its rest can be kept without a copy
   * @throws Http2Error if the preface is wrong or a frame is longer than the limit; and what the receiver throws
   */
  read(chunk: Buffer, isOwn = false): void {
    const { length } = chunk;
    let at = this.#prefaceLeft > 0 ? this.#readPreface(chunk) : 0;
    if (this.#incompleteSinceMs !== undefined) at = this.#complete(chunk, at);
    while (length - at >= FRAME_HEADER_BYTES && !this.#isPaused) {
      const from = at + FRAME_HEADER_BYTES;
      const to = from + payloadLengthAt(chunk, at);
      if (to > length) break;
      this.#deliver(chunk, at, to);
      at = to;
    }
    if (at === length || this.#isReleased) return;
    if (this.#isPaused && isOwn && !this.#rest) this.#rest = chunk.subarray(at);
    else if (this.#isPaused) this.#rest = ownCopy(Buffer.concat([this.#rest ?? NO_BYTES, chunk.subarray(at)]));
    else this.#complete(chunk, at);
  }

  #readPreface(chunk: Buffer): number {
    const from = PREFACE.length - this.#prefaceLeft;
    const count = Math.min(this.#prefaceLeft, chunk.length);
    if (PREFACE.compare(chunk, 0, count, from, from + count) !== 0)
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'expected the HTTP/2 connection preface');
    this.#prefaceLeft -= count;
    return count;
  }

  /**
   * Adds to the incomplete frame, and passes it on once it is complete.
   *
   * @returns the position of the next frame in the chunk
   */
  #complete(chunk: Buffer, start: number): number {
    this.#incompleteSinceMs ??= performance.now();
    this.#frame ??= new JoinedParts(FRAME_HEADER_BYTES + DEFAULT_MAX_FRAME_SIZE);
    const frame = this.#frame;
    let at = start;
    if (frame.length < FRAME_HEADER_BYTES) at = frame.add(chunk, at, chunk.length, FRAME_HEADER_BYTES);
    if (frame.length < FRAME_HEADER_BYTES) return at;
    const length = FRAME_HEADER_BYTES + payloadLengthAt(frame.bytes, 0);
    at = frame.add(chunk, at, chunk.length, length);
    if (frame.length < length) return at;
    this.#frame = undefined;
    this.#incompleteSinceMs = undefined;
    this.#deliver(frame.bytes, 0, length);
    frame.release();
    return at;
  }

  #deliver(bytes: Buffer, at: number, to: number): void {
    const type = bytes[at + 3] as number; // the header's nine octets are there
    const flags = bytes[at + 4] as number;
    this.#receiver.onFrame(bytes, at + FRAME_HEADER_BYTES, to, type, flags, uint31(bytes, at + 5));
  }
}

/** @throws Http2Error if it exceeds SETTINGS_MAX_FRAME_SIZE */
function payloadLengthAt(bytes: Buffer, at: number): number {
  // as above
  const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
  if (length > DEFAULT_MAX_FRAME_SIZE)
    throw new Http2Error(
      ErrorCode.FRAME_SIZE_ERROR,
      `a frame may have at most ${DEFAULT_MAX_FRAME_SIZE} octets, got ${length}`,
    );
  return length;
}

export const uint31 = (bytes: Uint8Array, at: number): number => uint32(bytes, at) & 0x7fff_ffff;

/**
 * The payload of a frame without its padding.
 *
 * @throws Http2Error if the padding is longer than the frame
 */
export function unpadded(bytes: Buffer, from: number, to: number): readonly [from: number, to: number] {
  const padding = bytes[from] ?? 0;
  if (from >= to) throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, 'a padded frame without a padding length');
  if (from + 1 + padding > to) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'the padding is longer than its frame');
  return [from + 1, to - padding];
}
