import { ErrorCode, Http2Error } from './errors.ts';
import { MAX_STREAM_ID } from './frames.ts';
import type { Stream } from './stream.ts';
import { StreamIndex } from './stream-index.ts';

/** Maximum number of remembered streams that this server ended early, on which frames in transit are no error. */
const MAX_ENDED_EARLY = 1_000;
/** Memory of each remembered number in a set. */
const ENDED_EARLY_BYTES = 48;
/** Maximum number of remembered ranges of skipped stream numbers. */
const MAX_SKIPPED = 16;

/**
 * Memory of an open stream and its call: 1.1 to 1.5 KB, measured with 10,000 streams on a connection
 * (`npm run attack -- --only 'open streams'`).
 */
export const STREAM_BYTES = 2_048;

/** The streams of one connection: the open ones, the numbers used before, and their memory. */
export class StreamTable {
  readonly #open = new StreamIndex();
  #endedEarly: Set<number> | undefined;
  #skipped: { readonly from: number; readonly to: number }[] | undefined;
  #cancelledBusy = 0;
  /** The highest stream number used. */
  lastId = 0;
  /** Highest accepted number; GOAWAY announced that streams beyond it are ignored. */
  lastAcceptedId = MAX_STREAM_ID;
  /** Memory charged for all streams, open and remembered. */
  chargedBytes = 0;

  get openCount(): number {
    return this.#open.size;
  }

  /** Open streams, plus cancelled ones whose handler is still running. */
  get slotsTaken(): number {
    return this.#open.size + this.#cancelledBusy;
  }

  get(id: number): Stream | undefined {
    return this.#open.get(id);
  }

  all(): readonly Stream[] {
    return this.#open.all();
  }

  add(stream: Stream): void {
    this.#open.add(stream);
    this.charge(stream, STREAM_BYTES);
  }

  charge(stream: Stream, bytes: number): void {
    if (stream.isOver && !stream.isBusy) return;
    stream.chargedBytes += bytes;
    this.chargedBytes += bytes;
  }

  /** Removes an ended stream, whose memory stays charged while its handler is running. */
  remove(stream: Stream): void {
    stream.isOver = true;
    if (stream.buffered.length > 0) stream.buffered.length = 0; // conditional, since setting it is slow
    this.#open.delete(stream.id);
    if (stream.isBusy) this.#cancelledBusy++;
    else this.#release(stream);
  }

  /** Releases what was held until the stream's handler returned. */
  markAnswered(stream: Stream): void {
    if (!stream.isBusy) return;
    stream.isBusy = false;
    if (!stream.isOver) return;
    this.#cancelledBusy--;
    this.#release(stream);
  }

  #release(stream: Stream): void {
    this.chargedBytes -= stream.chargedBytes;
    stream.chargedBytes = 0;
  }

  /** Marks the number of a new stream as used. */
  use(id: number): void {
    if (id > this.lastId + 2) this.#skip(id);
    this.lastId = id;
  }

  /** @throws Http2Error if a client may not open a stream with this number */
  mustBeNew(id: number): void {
    if (id % 2 === 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'clients must open streams with odd numbers');
    if (id <= this.lastId) this.#failClosed('HEADERS', id);
  }

  #skip(id: number): void {
    this.#skipped ??= [];
    if (this.#skipped.length === MAX_SKIPPED) this.#skipped.shift();
    this.#skipped.push({ from: this.lastId + 1, to: id });
  }

  /** Records that this server ended the stream early. */
  endedEarly(id: number): void {
    this.#endedEarly ??= new Set();
    if (this.#endedEarly.has(id)) return;
    this.#endedEarly.add(id);
    if (this.#endedEarly.size <= MAX_ENDED_EARLY) this.chargedBytes += ENDED_EARLY_BYTES;
    else for (const oldest of this.#endedEarly) return void this.#endedEarly.delete(oldest);
  }

  hasEndedEarly(id: number): boolean {
    return this.#endedEarly?.has(id) === true;
  }

  /** @throws Http2Error unless the frame may still arrive on this stream, which is not open */
  mustBeLate(frame: string, id: number): void {
    if (this.hasEndedEarly(id) || id > this.lastAcceptedId) return;
    this.mustNotBeIdle(frame, id);
    this.#failClosed(frame, id);
  }

  /** @throws Http2Error if no stream with this number was ever opened */
  mustNotBeIdle(frame: string, id: number): void {
    if (id > this.lastId && id <= this.lastAcceptedId)
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, `${frame} on an idle stream`);
  }

  #failClosed(frame: string, id: number): never {
    const wasSkipped = this.#skipped?.some(({ from, to }) => id >= from && id < to) === true;
    throw wasSkipped
      ? new Http2Error(ErrorCode.PROTOCOL_ERROR, 'stream numbers must increase')
      : new Http2Error(ErrorCode.STREAM_CLOSED, `${frame} on a closed stream`);
  }
}
