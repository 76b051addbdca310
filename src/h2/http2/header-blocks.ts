import { giveBack, takeBuffer } from '../bounds/spare-buffers.ts';
import { ErrorCode, Http2Error } from './errors.ts';
import { DEFAULT_MAX_FRAME_SIZE, Flag } from './frames.ts';

/** A header block that spans HEADERS and CONTINUATION frames. Return its buffer with `giveBack`. */
interface HeaderBlock {
  readonly streamId: number;
  /** Flags of its HEADERS frame. */
  readonly flags: number;
  readonly bytes: Buffer;
  readonly length: number;
}

/** Reassembles header blocks that span several frames, of one stream at a time (RFC 9113, 6.10). */
export class HeaderBlocks {
  readonly #maxBytes: number;
  #pending: { streamId: number; flags: number; sinceMs: number; bytes: Buffer; length: number } | undefined;

  /** @param maxBytes  size limit of a block */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get heldBytes(): number {
    return this.#pending?.bytes.length ?? 0;
  }

  /** Start of the incomplete block on the monotonic clock; undefined without one. */
  get pendingSinceMs(): number | undefined {
    return this.#pending?.sinceMs;
  }

  /** Stream of the incomplete block; undefined without one. */
  get pendingStreamId(): number | undefined {
    return this.#pending?.streamId;
  }

  begin(streamId: number, flags: number, bytes: Buffer, from: number, to: number, nowMs: number): void {
    const held = takeBuffer(DEFAULT_MAX_FRAME_SIZE);
    const length = bytes.copy(held, 0, from, to);
    this.#pending = { streamId, flags, sinceMs: nowMs, bytes: held, length };
  }

  /**
   * Adds a CONTINUATION frame.
   *
   * @returns the block, once it is complete
   * @throws Http2Error if no HEADERS frame came before, or the block is longer than the limit
   */
  add(bytes: Buffer, from: number, to: number, flags: number): HeaderBlock | undefined {
    const block = this.#pending;
    if (!block) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'CONTINUATION without a preceding HEADERS');
    const length = block.length + to - from;
    if (length > this.#maxBytes)
      throw new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, `a header block may have at most ${this.#maxBytes} octets`);
    if (length > block.bytes.length) {
      const larger = takeBuffer(Math.min(Math.max(length, block.bytes.length * 2), this.#maxBytes));
      block.bytes.copy(larger, 0, 0, block.length);
      giveBack(block.bytes);
      block.bytes = larger;
    }
    bytes.copy(block.bytes, block.length, from, to);
    block.length = length;
    if (!(flags & Flag.END_HEADERS)) return undefined;
    this.#pending = undefined;
    return block;
  }

  /** Discards an incomplete block. */
  release(): void {
    if (this.#pending) giveBack(this.#pending.bytes);
    this.#pending = undefined;
  }
}
