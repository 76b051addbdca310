import { ErrorCode, type ErrorNumber, Http2Error } from './errors.ts';
import type { Exchanges } from './exchanges.ts';
import { uint31, unpadded } from './frame-reader.ts';
import { Flag, FrameType } from './frames.ts';
import { type Head, HeadCache } from './head-cache.ts';
import { HeaderBlocks } from './header-blocks.ts';
import type { Http2Limits } from './limits.ts';
import { findFieldProblem } from './request-head.ts';
import { Stream } from './stream.ts';

/** Control frames allowed per request, two of each kind that legitimate clients send. */
const CONTROL_FRAMES_PER_REQUEST = 8;

const NO_BYTES = Buffer.alloc(0);

/** Receives the requests of a connection: HEADERS, CONTINUATION and DATA (RFC 9113, 6.1, 6.2, 6.10 and 8.1). */
export class RequestFrames {
  readonly #exchanges: Exchanges;
  readonly #limits: Http2Limits;
  readonly #heads: HeadCache;
  /** Its incomplete block may be interrupted by no other frame. */
  readonly blocks: HeaderBlocks;
  #receiveWindow: number;

  constructor(exchanges: Exchanges) {
    this.#exchanges = exchanges;
    this.#limits = exchanges.limits;
    this.#heads = new HeadCache(exchanges.limits.maxHeaderListBytes);
    this.blocks = new HeaderBlocks(exchanges.limits.maxHeaderBlockBytes);
    this.#receiveWindow = exchanges.limits.connectionWindowBytes;
  }

  /** Memory of header blocks and cached heads. */
  get heldBytes(): number {
    return this.blocks.heldBytes + this.#heads.heldBytes;
  }

  onHeaders(bytes: Buffer, start: number, end: number, flags: number, streamId: number): void {
    let [from, to] = flags & Flag.PADDED ? unpadded(bytes, start, end) : [start, end];
    if (flags & Flag.PRIORITY) {
      if (to - from < 5)
        throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, 'HEADERS is shorter than its priority fields');
      if (uint31(bytes, from) === streamId)
        throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'a stream cannot depend on itself');
      from += 5;
    }
    if (flags & Flag.END_HEADERS) this.#onBlock(bytes, from, to, flags, streamId);
    else this.blocks.begin(streamId, flags, bytes, from, to);
  }

  onContinuation(bytes: Buffer, from: number, to: number, flags: number): void {
    this.#exchanges.spend();
    const block = this.blocks.add(bytes, from, to, flags);
    if (!block) return;
    this.#onBlock(block.parts.bytes, 0, block.parts.length, block.flags, block.streamId);
    block.parts.release();
  }

  #onBlock(bytes: Buffer, from: number, to: number, flags: number, streamId: number): void {
    const { streams } = this.#exchanges;
    const stream = streams.get(streamId);
    if (stream || streams.hasEndedEarly(streamId)) return this.#onTrailers(stream, bytes, from, to, flags);
    streams.mustBeNew(streamId);
    const head = this.#heads.request(bytes, from, to);
    if (streamId > streams.lastAcceptedId) return this.#exchanges.spend(); // announced by GOAWAY
    streams.use(streamId);
    this.#open(streamId, head, (flags & Flag.END_STREAM) !== 0);
  }

  #open(streamId: number, head: Head, isEnd: boolean): void {
    const { streams, handler } = this.#exchanges;
    if (streams.slotsTaken >= this.#limits.maxConcurrentStreams) {
      this.#exchanges.spend();
      this.#exchanges.sendReset(streamId, isEnd, ErrorCode.REFUSED_STREAM);
      return handler.failed(ErrorCode.REFUSED_STREAM, 'too many concurrent streams');
    }
    const stream = new Stream(this.#exchanges, streamId, this.#limits.streamWindowBytes);
    stream.hasAllOfRequest = isEnd;
    streams.add(stream);
    if (head === 'too large') {
      this.#exchanges.spend();
      return handler.tooLarge(stream);
    }
    if (head.problem !== undefined) return this.#exchanges.failStream(stream, ErrorCode.PROTOCOL_ERROR, head.problem);
    stream.charge(head.ownBytes);
    stream.bodyBytesLeft = head.contentLength;
    stream.receiver = handler.request(stream, head);
    if (isEnd) this.#endRequest(stream, NO_BYTES, 0, 0);
  }

  /** @param stream  undefined if this server ended the stream early */
  #onTrailers(stream: Stream | undefined, bytes: Buffer, from: number, to: number, flags: number): void {
    const fields = this.#heads.trailers(bytes, from, to);
    if (!stream) return this.#exchanges.spend();
    const fail = (code: ErrorNumber, problem: string) => this.#exchanges.failStream(stream, code, problem);
    if (stream.hasAllOfRequest) return fail(ErrorCode.STREAM_CLOSED, 'HEADERS after the end of a request');
    if (!(flags & Flag.END_STREAM)) return fail(ErrorCode.PROTOCOL_ERROR, 'trailers must end the request');
    const problem = fields === 'too large' ? 'the trailers are too large' : findFieldProblem(fields);
    if (problem !== undefined) return fail(ErrorCode.PROTOCOL_ERROR, problem);
    this.#endRequest(stream, NO_BYTES, 0, 0);
  }

  onData(bytes: Buffer, start: number, end: number, flags: number, streamId: number): void {
    const flowLength = end - start; // includes padding
    this.#receiveWindow -= flowLength;
    if (this.#receiveWindow < 0)
      throw new Http2Error(ErrorCode.FLOW_CONTROL_ERROR, 'DATA exceeds the window of the connection');
    const [from, to] = flags & Flag.PADDED ? unpadded(bytes, start, end) : [start, end];
    const isEnd = (flags & Flag.END_STREAM) !== 0;
    if (from === to && !isEnd) this.#exchanges.spend();
    const stream = this.#exchanges.streams.get(streamId);
    if (!stream) {
      this.#exchanges.streams.mustBeLate('DATA', streamId);
      this.#exchanges.spend();
    } else if (stream.hasAllOfRequest)
      this.#exchanges.failStream(stream, ErrorCode.STREAM_CLOSED, 'DATA after the end of a request');
    else this.#takeData(stream, bytes, from, to, flowLength, isEnd);
    this.#replenish();
  }

  #takeData(stream: Stream, bytes: Buffer, from: number, to: number, flowLength: number, isEnd: boolean): void {
    stream.receiveWindow -= flowLength;
    if (stream.receiveWindow < 0)
      return this.#exchanges.failStream(stream, ErrorCode.FLOW_CONTROL_ERROR, 'DATA exceeds the window of the stream');
    if (stream.bodyBytesLeft !== undefined) stream.bodyBytesLeft -= to - from;
    if (isEnd) return this.#endRequest(stream, bytes, from, to);
    if (from < to) stream.receiver?.data(bytes, from, to);
    const { streamWindowBytes } = this.#limits;
    if (stream.isOver || stream.receiveWindow >= streamWindowBytes / 2) return;
    this.#grant(stream.id, streamWindowBytes - stream.receiveWindow);
    stream.receiveWindow = streamWindowBytes;
  }

  #endRequest(stream: Stream, bytes: Buffer, from: number, to: number): void {
    if (stream.isOver) return;
    if (stream.bodyBytesLeft !== undefined && stream.bodyBytesLeft !== 0)
      return this.#exchanges.failStream(
        stream,
        ErrorCode.PROTOCOL_ERROR,
        'the length of the body differs from content-length',
      );
    stream.hasAllOfRequest = true;
    this.#exchanges.budget.refill(CONTROL_FRAMES_PER_REQUEST);
    stream.receiver?.end(bytes, from, to);
  }

  #replenish(): void {
    const { connectionWindowBytes } = this.#limits;
    if (this.#receiveWindow >= connectionWindowBytes / 2) return;
    this.#grant(0, connectionWindowBytes - this.#receiveWindow);
    this.#receiveWindow = connectionWindowBytes;
  }

  #grant(streamId: number, octets: number): void {
    this.#exchanges.output.numbers(FrameType.WINDOW_UPDATE, 0, streamId, octets);
  }
}
