import { JoinedParts } from '../bounds/spare-buffers.ts';
import { ErrorCode, Http2Error } from './errors.ts';
import { DEFAULT_MAX_FRAME_SIZE, Flag } from './frames.ts';

/** A header block that spans HEADERS and CONTINUATION frames; its parts are to be released. */
interface HeaderBlock {
  readonly streamId: number;
  readonly flags: number;
  readonly sinceMs: number;
  readonly parts: JoinedParts;
}

/** Reassembles header blocks that span several frames, of one stream at a time (RFC 9113, 6.10). */
export class HeaderBlocks {
  readonly #maxBytes: number;
  #pending: HeaderBlock | undefined;

  /** @param maxBytes  size limit of a block */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get heldBytes(): number {
    return this.#pending?.parts.bytes.length ?? 0;
  }

  /** Start of the incomplete block on the monotonic clock; undefined without one. */
  get pendingSinceMs(): number | undefined {
    return this.#pending?.sinceMs;
  }

  /** Stream of the incomplete block; undefined without one. */
  get pendingStreamId(): number | undefined {
    return this.#pending?.streamId;
  }

  begin(streamId: number, flags: number, bytes: Buffer, from: number, to: number): void {
    const parts = new JoinedParts(DEFAULT_MAX_FRAME_SIZE);
    parts.add(bytes, from, to, this.#maxBytes);
    this.#pending = { streamId, flags, sinceMs: performance.now(), parts };
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
    if (block.parts.length + to - from > this.#maxBytes)
      throw new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, `a header block may have at most ${this.#maxBytes} octets`);
    block.parts.add(bytes, from, to, this.#maxBytes);
    if (!(flags & Flag.END_HEADERS)) return undefined;
    this.#pending = undefined;
    return block;
  }

  /** Discards an incomplete block. */
  release(): void {
    this.#pending?.parts.release();
    this.#pending = undefined;
  }
}
