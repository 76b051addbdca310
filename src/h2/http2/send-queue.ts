import { ownCopy } from '../bounds/own-copy.ts';
import { ErrorCode, Http2Error } from './errors.ts';
import { DEFAULT_MAX_FRAME_SIZE, DEFAULT_WINDOW, Flag, FrameType, MAX_WINDOW } from './frames.ts';
import { TABLE_SIZE_ZERO } from './hpack/encode.ts';
import type { Output } from './output.ts';
import type { Stream } from './stream.ts';

/** Memory of a buffered part besides its octets. */
const BUFFERED_PART_BYTES = 256;

const NO_STREAMS: ReadonlySet<Stream> = new Set();

export interface SendQueueOwner {
  /** Charges memory to a stream; negative: releases it. */
  charge(stream: Stream, bytes: number): void;
  /** Called after the end of a stream's answer was sent. */
  onAnswerSent(stream: Stream): void;
}

/**
 * Sends the answers of a connection within the client's flow-control windows (RFC 9113, 5.2), and buffers and charges
 * the rest. Streams with buffered data are indexed by the window they wait for, so that opening a window costs work in
 * proportion to what it sends.
 */
export class SendQueue {
  readonly #output: Output;
  readonly #owner: SendQueueOwner;
  /** The connection's window. */
  #window = DEFAULT_WINDOW;
  #initialStreamWindow = DEFAULT_WINDOW;
  #mustEmptyTable = false;
  /** Octets that wait for the client's windows. */
  bufferedBytes = 0;
  /** Streams with buffered data in order of service, each in one of two sets; created on demand, as few need them. */
  #waitForConnection: Set<Stream> | undefined;
  #waitForStream: Set<Stream> | undefined;
  /** Streams whose window is larger than the initial window. */
  #widened: Set<Stream> | undefined;

  constructor(output: Output, owner: SendQueueOwner) {
    this.#output = output;
    this.#owner = owner;
  }

  /** @param body  only used during the call, up to `length` */
  answer(stream: Stream, head: Uint8Array, body: Uint8Array, length: number, trailers: Uint8Array): void {
    this.#sendBlock(stream, head, 0);
    const fits = length <= this.#streamWindow(stream) && length <= this.#window && length <= DEFAULT_MAX_FRAME_SIZE;
    if (!fits || stream.buffered.length > 0) {
      this.data(stream, ownCopy(body, 0, length));
      return this.end(stream, trailers);
    }
    this.#take(stream, length);
    this.#output.frame(FrameType.DATA, 0, stream.id, body, 0, length);
    this.#sendBlock(stream, trailers, Flag.END_STREAM);
    this.#owner.onAnswerSent(stream);
  }

  head(stream: Stream, block: Uint8Array, isEnd: boolean): void {
    this.#sendBlock(stream, block, isEnd ? Flag.END_STREAM : 0);
    if (isEnd) this.#owner.onAnswerSent(stream);
  }

  data(stream: Stream, bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    stream.buffered.push(bytes);
    this.bufferedBytes += bytes.length;
    this.#owner.charge(stream, bytes.buffer.byteLength + BUFFERED_PART_BYTES);
    this.#send(stream);
  }

  end(stream: Stream, trailers: Uint8Array | undefined): void {
    stream.ending = trailers ?? 'end of data';
    if (stream.buffered.length === 0) this.#sendEnding(stream);
  }

  /** Drops the buffered data of a stream that has ended. */
  forget(stream: Stream): void {
    this.#widened?.delete(stream);
    if (stream.buffered.length === 0) return; // it waits for no window
    for (const bytes of stream.buffered) this.bufferedBytes -= bytes.length;
    this.#waitForConnection?.delete(stream);
    this.#waitForStream?.delete(stream);
  }

  /** @throws Http2Error if the window exceeds 2^31-1 */
  openWindow(increment: number): void {
    this.#window += increment;
    if (this.#window > MAX_WINDOW) throw tooLarge();
    for (const stream of this.#waitForConnection ?? NO_STREAMS) {
      if (this.#window <= 0) return;
      this.#send(stream);
    }
  }

  /** @returns false if the window exceeds 2^31-1 */
  openStreamWindow(stream: Stream, increment: number): boolean {
    stream.sendWindowOffset += increment;
    if (this.#streamWindow(stream) > MAX_WINDOW) return false;
    if (stream.sendWindowOffset > 0) {
      this.#widened ??= new Set();
      this.#widened.add(stream);
    }
    if (this.#waitForStream?.has(stream)) this.#send(stream);
    return true;
  }

  /**
   * Applies SETTINGS_INITIAL_WINDOW_SIZE, which changes the windows of all streams.
   *
   * @param onWork  called for each stream that has to be checked
   * @throws Http2Error if the window of a stream exceeds 2^31-1
   */
  setInitialStreamWindow(value: number, onWork: () => void): void {
    const isLarger = value > this.#initialStreamWindow;
    this.#initialStreamWindow = value;
    if (!isLarger) return;
    for (const stream of this.#widened ?? NO_STREAMS) {
      onWork();
      if (this.#streamWindow(stream) > MAX_WINDOW) throw tooLarge();
    }
    for (const stream of this.#waitForStream ?? NO_STREAMS) {
      onWork();
      this.#send(stream);
    }
  }

  /** Makes the next block announce an empty table, as the client may have shrunk its header table (RFC 7541, 4.2). */
  emptyTable(): void {
    this.#mustEmptyTable = true;
  }

  #streamWindow(stream: Stream): number {
    return this.#initialStreamWindow + stream.sendWindowOffset;
  }

  #take(stream: Stream, octets: number): void {
    stream.sendWindowOffset -= octets;
    this.#window -= octets;
  }

  /** Sends as much of the buffered data as the windows allow, then the answer's end if nothing is left. */
  #send(stream: Stream): void {
    for (let bytes = stream.buffered[0]; bytes; bytes = stream.buffered[0]) {
      const room = Math.min(this.#streamWindow(stream), this.#window, DEFAULT_MAX_FRAME_SIZE);
      if (room <= 0) return this.#wait(stream);
      const length = Math.min(room, bytes.length);
      this.#output.frame(FrameType.DATA, 0, stream.id, bytes, 0, length);
      this.#take(stream, length);
      this.bufferedBytes -= length;
      if (length < bytes.length) {
        stream.buffered[0] = bytes.subarray(length);
        continue;
      }
      stream.buffered.shift();
      this.#owner.charge(stream, -bytes.buffer.byteLength - BUFFERED_PART_BYTES);
    }
    this.#waitForConnection?.delete(stream);
    this.#waitForStream?.delete(stream);
    if (stream.ending) this.#sendEnding(stream);
  }

  #wait(stream: Stream): void {
    if (this.#streamWindow(stream) <= 0) {
      this.#waitForConnection?.delete(stream);
      this.#waitForStream ??= new Set();
      this.#waitForStream.add(stream);
    } else {
      this.#waitForStream?.delete(stream);
      this.#waitForConnection ??= new Set();
      this.#waitForConnection.add(stream);
    }
  }

  #sendEnding(stream: Stream): void {
    if (stream.ending === 'end of data') this.#output.numbers(FrameType.DATA, Flag.END_STREAM, stream.id);
    else if (stream.ending) this.#sendBlock(stream, stream.ending, Flag.END_STREAM);
    this.#owner.onAnswerSent(stream);
  }

  #sendBlock({ id }: Stream, block: Uint8Array, flags: number): void {
    if (!this.#mustEmptyTable) return this.#output.frame(FrameType.HEADERS, Flag.END_HEADERS | flags, id, block);
    this.#mustEmptyTable = false;
    this.#output.frame(FrameType.HEADERS, Flag.END_HEADERS | flags, id, Buffer.of(TABLE_SIZE_ZERO, ...block));
  }
}

const tooLarge = (): Http2Error => new Http2Error(ErrorCode.FLOW_CONTROL_ERROR, 'a window is larger than 2^31-1');
