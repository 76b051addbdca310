import type { Socket } from 'node:net';
import { Budget } from './budget.ts';
import { ErrorCode, type ErrorNumber, Http2Error } from './errors.ts';
import {
  DEFAULT_MAX_FRAME_SIZE,
  DEFAULT_WINDOW,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  LARGEST_MAX_FRAME_SIZE,
  MAX_STREAM_ID,
  MAX_WINDOW,
  PREFACE,
  Setting,
} from './frames.ts';
import { type Head, HeadCache } from './head-cache.ts';
import { TABLE_SIZE_ZERO } from './hpack/encode.ts';
import type { Http2Limits, WaitingBytes } from './limits.ts';
import { Output } from './output.ts';
import { findTrailersProblem, type RequestHead } from './request-head.ts';
import { type Receiver, Stream, type StreamWriter } from './stream.ts';

/** What a connection tells the layer above. */
export interface ConnectionHandler {
  /** A request has begun. Undefined: it has been answered already, and what comes of its body does not matter. */
  request(stream: Stream, head: RequestHead): Receiver | undefined;
  /** A request's fields are larger than the limit. */
  tooLarge(stream: Stream): void;
  /** The connection, or one of its streams, ends for this reason; `problem` is in words. */
  failed(code: ErrorNumber, problem: string): void;
}

/** Frames that a request is forgiven: two of each kind that honest clients send with it. */
const FRAMES_PER_REQUEST = 8;
const FRAME_LIMIT = FRAME_HEADER_BYTES + DEFAULT_MAX_FRAME_SIZE;
/** Streams that we have ended before their client: what it had sent by then is no fault of its own. */
const MAX_CUT_SHORT = 1_000;
/** Ranges of stream numbers that a client has left out, and that are remembered. */
const MAX_SKIPPED = 16;

/** From the last frame of ours until the socket is closed, whatever the client does. */
const LINGER_MS = 1_000;

const drainPing = Buffer.from('drain...', 'latin1');
const livePing = Buffer.from('alive?..', 'latin1');

/**
 * The server's side of one HTTP/2 connection: it reads frames where they lie, keeps the streams' states and windows, and holds the client to
 * the limits. It knows nothing of what the requests are about.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9113
 */
export class Connection implements StreamWriter {
  readonly #socket: Socket;
  readonly #limits: Http2Limits;
  readonly #handler: ConnectionHandler;
  readonly #waiting: WaitingBytes;
  readonly #output: Output;
  readonly #budget: Budget;
  readonly #heads: HeadCache;
  readonly #streams = new Map<number, Stream>();
  /** A frame of which not all has come. */
  #partial: Buffer | undefined;
  #partialLength = 0;
  #prefaceLeft = PREFACE.length;
  #hasSettings = false;
  #openedAtMs = performance.now();
  /** A header block of which not all has come. */
  #block: { readonly streamId: number; readonly flags: number; readonly sinceMs: number; bytes: Buffer } | undefined;
  #lastStreamId = 0;
  #skipped: { readonly from: number; readonly to: number }[] = [];
  readonly #cutShort = new Set<number>();
  #cancelledBusy = 0;
  #unfinishedBytes = 0;
  #heldBackBytes = 0;
  #sendWindow = DEFAULT_WINDOW;
  #receiveWindow: number;
  #peerStreamWindow = DEFAULT_WINDOW;
  #peerMaxFrameSize = DEFAULT_MAX_FRAME_SIZE;
  #mustEmptyTable = false;
  #lastAccepted = MAX_STREAM_ID;
  #isDraining = false;
  #isOver = false;
  #stalledSinceMs: number | undefined;
  /** When it was last looked for streams that wait for the client. */
  #lookedAtMs = this.#openedAtMs;
  #onPong: (() => void) | undefined;

  /** @param waiting  of all connections of the server */
  constructor(socket: Socket, limits: Http2Limits, handler: ConnectionHandler, waiting: WaitingBytes) {
    this.#socket = socket;
    this.#limits = limits;
    this.#handler = handler;
    this.#waiting = waiting;
    this.#output = new Output(socket);
    this.#budget = new Budget(limits.idleFrames, limits.idleFramesPerSecond);
    this.#heads = new HeadCache(limits.maxHeaderListBytes);
    this.#receiveWindow = limits.connectionWindowBytes;
    socket.setNoDelay(true);
    this.#greet();
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('drain', () => this.#resume());
    socket.on('error', () => {}); // 'close' comes next
    socket.once('close', () => this.#close());
  }

  /** Streams that have not ended. */
  get streamCount(): number {
    return this.#streams.size;
  }

  /** Asks the client to open no more streams here, and closes when those that are open have ended. */
  drain(): void {
    if (this.#isDraining || this.#isOver) return;
    this.#isDraining = true;
    this.#sendGoaway(MAX_STREAM_ID, ErrorCode.NO_ERROR, '');
    this.#output.frame(FrameType.PING, 0, 0, drainPing); // what was under way when the client heard of it comes before the answer
  }

  /** @param onPong  called when the client has answered, once */
  ping(onPong: () => void): void {
    this.#onPong = onPong;
    this.#output.frame(FrameType.PING, 0, 0, livePing);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Ends the connection when its client lets it wait too long, or those of its streams that wait for the client. */
  checkPatience(nowMs: number): void {
    if (this.#isOver) return;
    if (this.#output.unsent > this.#limits.maxUnsentBytes) this.#stall();
    const sinceMs = this.#waitingSinceMs();
    if (sinceMs !== undefined && nowMs - sinceMs > this.#limits.patienceMs)
      this.#fail(new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, 'the client lets the connection wait too long'));
    else if (nowMs - this.#lookedAtMs > this.#limits.patienceMs) this.#endSlowStreams(nowMs);
  }

  /** Ends those that wait for the client as they did at the look before. */
  #endSlowStreams(nowMs: number): void {
    this.#lookedAtMs = nowMs;
    for (const stream of this.#streams.values()) {
      if (stream.waitsForClient && stream.waitedForClient)
        this.#giveUp(stream, ErrorCode.ENHANCE_YOUR_CALM, 'the client lets a stream wait too long');
      stream.waitedForClient = stream.waitsForClient;
    }
  }

  #waitingSinceMs(): number | undefined {
    if (!this.#hasSettings) return this.#openedAtMs;
    return this.#block?.sinceMs ?? this.#stalledSinceMs;
  }

  #greet(): void {
    const { maxConcurrentStreams, streamWindowBytes, maxHeaderListBytes, connectionWindowBytes } = this.#limits;
    const settings = [
      [Setting.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
      [Setting.INITIAL_WINDOW_SIZE, streamWindowBytes],
      [Setting.MAX_HEADER_LIST_SIZE, maxHeaderListBytes],
    ] as const;
    const payload = Buffer.alloc(settings.length * 6);
    for (const [at, [id, value]] of settings.entries()) {
      payload.writeUInt16BE(id, at * 6);
      payload.writeUInt32BE(value, at * 6 + 2);
    }
    this.#output.frame(FrameType.SETTINGS, 0, 0, payload);
    this.#output.numbers(FrameType.WINDOW_UPDATE, 0, 0, connectionWindowBytes - DEFAULT_WINDOW);
  }

  // --- reading

  #read(chunk: Buffer): void {
    if (this.#isOver) return;
    try {
      this.#parse(chunk);
    } catch (error) {
      this.#fail(error instanceof Http2Error ? error : new Http2Error(ErrorCode.INTERNAL_ERROR, 'a bug of ours'));
    }
    if (this.#output.unsent > this.#limits.maxUnsentBytes) this.#stall();
  }

  #parse(chunk: Buffer): void {
    const { length } = chunk;
    let at = this.#prefaceLeft > 0 ? this.#readPreface(chunk) : 0;
    if (this.#partial) at = this.#completeFrame(this.#partial, chunk, at);
    while (length - at >= FRAME_HEADER_BYTES && !this.#isOver) {
      const payloadLength = payloadLengthAt(chunk, at);
      const end = at + FRAME_HEADER_BYTES + payloadLength;
      if (end > length) break;
      this.#readFrame(chunk, at, payloadLength);
      at = end;
    }
    if (at < length && !this.#isOver) this.#keep(chunk, at);
  }

  #readPreface(chunk: Buffer): number {
    const from = PREFACE.length - this.#prefaceLeft;
    const count = Math.min(this.#prefaceLeft, chunk.length);
    if (PREFACE.compare(chunk, 0, count, from, from + count) !== 0)
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'the connection does not begin with the preface of HTTP/2');
    this.#prefaceLeft -= count;
    return count;
  }

  /** Keeps the beginning of a frame until the rest comes. */
  #keep(chunk: Buffer, at: number): void {
    this.#partial = Buffer.allocUnsafe(FRAME_LIMIT);
    this.#partialLength = chunk.copy(this.#partial, 0, at);
  }

  /** @returns where in the chunk the next frame begins */
  #completeFrame(partial: Buffer, chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      const isHeader = this.#partialLength < FRAME_HEADER_BYTES;
      const wanted = isHeader ? FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + payloadLengthAt(partial, 0);
      const count = Math.min(wanted - this.#partialLength, chunk.length - at);
      chunk.copy(partial, this.#partialLength, at, at + count);
      this.#partialLength += count;
      at += count;
      if (this.#partialLength < FRAME_HEADER_BYTES) break;
      const payloadLength = payloadLengthAt(partial, 0);
      if (this.#partialLength === FRAME_HEADER_BYTES + payloadLength) {
        this.#partial = undefined;
        this.#readFrame(partial, 0, payloadLength);
        break;
      }
    }
    return at;
  }

  #readFrame(bytes: Buffer, at: number, length: number): void {
    const type = bytes[at + 3] as number; // the header's octets are all there
    const flags = bytes[at + 4] as number;
    const streamId = uint31(bytes, at + 5);
    const from = at + FRAME_HEADER_BYTES;
    const to = from + length;
    if (!this.#hasSettings && (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0))
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'the first frame is not SETTINGS');
    if (this.#block && (type !== FrameType.CONTINUATION || streamId !== this.#block.streamId))
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'a frame comes in the middle of a header block');
    switch (type) {
      case FrameType.DATA:
        return this.#onData(bytes, from, to, flags, streamId);
      case FrameType.HEADERS:
        return this.#onHeaders(bytes, from, to, flags, streamId);
      case FrameType.WINDOW_UPDATE:
        return this.#onWindowUpdate(bytes, from, length, streamId);
      case FrameType.CONTINUATION:
        return this.#onContinuation(bytes, from, to, flags);
      case FrameType.SETTINGS:
        return this.#onSettings(bytes, from, length, flags, streamId);
      case FrameType.PING:
        return this.#onPing(bytes, from, length, flags, streamId);
      case FrameType.RST_STREAM:
        return this.#onReset(length, streamId);
      case FrameType.PRIORITY:
        return this.#onPriority(bytes, from, length, streamId);
      case FrameType.GOAWAY:
        return this.#onGoaway(length, streamId);
      case FrameType.PUSH_PROMISE:
        throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'a client cannot promise a push');
      default:
        return this.#spend();
    }
  }

  #onData(bytes: Buffer, start: number, end: number, flags: number, streamId: number): void {
    onAStream('DATA', streamId);
    const flowLength = end - start; // padding counts
    this.#receiveWindow -= flowLength;
    if (this.#receiveWindow < 0)
      throw new Http2Error(ErrorCode.FLOW_CONTROL_ERROR, 'more DATA than the window has room for');
    const [from, to] = flags & Flag.PADDED ? unpadded(bytes, start, end) : [start, end];
    const isEnd = (flags & Flag.END_STREAM) !== 0;
    if (from === to && !isEnd) this.#spend();
    const stream = this.#streams.get(streamId);
    if (!stream) this.#onLate('DATA', streamId);
    else if (stream.hasAllOfRequest)
      this.#failStream(stream, ErrorCode.STREAM_CLOSED, 'DATA after the end of a request');
    else this.#takeData(stream, bytes, from, to, flowLength, isEnd);
    this.#replenish();
  }

  #takeData(stream: Stream, bytes: Buffer, from: number, to: number, flowLength: number, isEnd: boolean): void {
    stream.receiveWindow -= flowLength;
    if (stream.receiveWindow < 0)
      return this.#failStream(
        stream,
        ErrorCode.FLOW_CONTROL_ERROR,
        'more DATA than the window of its stream has room for',
      );
    if (stream.announced !== undefined) stream.announced -= to - from;
    if (!isEnd) {
      stream.unfinishedBytes += to - from;
      this.#unfinishedBytes += to - from;
      this.#waiting.count += to - from;
      if (this.#unfinishedBytes > this.#limits.maxUnfinishedBytes || this.#isServerFull)
        return this.#failStream(stream, ErrorCode.ENHANCE_YOUR_CALM, 'too much of requests that are not complete');
    }
    if (from < to) stream.receiver?.data(bytes, from, to);
    if (isEnd) this.#endRequest(stream);
    else if (!stream.isOver && stream.receiveWindow < this.#limits.streamWindowBytes / 2) {
      this.#output.numbers(
        FrameType.WINDOW_UPDATE,
        0,
        stream.id,
        this.#limits.streamWindowBytes - stream.receiveWindow,
      );
      stream.receiveWindow = this.#limits.streamWindowBytes;
    }
  }

  #endRequest(stream: Stream): void {
    if (stream.isOver) return;
    if (stream.announced !== undefined && stream.announced !== 0)
      return this.#failStream(stream, ErrorCode.PROTOCOL_ERROR, 'the body is not as long as content-length says');
    stream.hasAllOfRequest = true;
    this.settle(stream);
    this.#budget.refill(FRAMES_PER_REQUEST);
    stream.receiver?.end();
  }

  settle(stream: Stream): void {
    this.#unfinishedBytes -= stream.unfinishedBytes;
    this.#waiting.count -= stream.unfinishedBytes;
    stream.unfinishedBytes = 0;
  }

  #replenish(): void {
    if (this.#receiveWindow >= this.#limits.connectionWindowBytes / 2) return;
    this.#output.numbers(FrameType.WINDOW_UPDATE, 0, 0, this.#limits.connectionWindowBytes - this.#receiveWindow);
    this.#receiveWindow = this.#limits.connectionWindowBytes;
  }

  #onHeaders(bytes: Buffer, start: number, end: number, flags: number, streamId: number): void {
    onAStream('HEADERS', streamId);
    let [from, to] = flags & Flag.PADDED ? unpadded(bytes, start, end) : [start, end];
    if (flags & Flag.PRIORITY) {
      if (to - from < 5) throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, 'HEADERS is shorter than its priority');
      if (uint31(bytes, from) === streamId)
        throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'a stream cannot depend on itself');
      from += 5;
    }
    if (flags & Flag.END_HEADERS) return this.#onBlock(bytes, from, to, flags, streamId);
    this.#block = { streamId, flags, sinceMs: performance.now(), bytes: Buffer.from(bytes.subarray(from, to)) };
  }

  #onContinuation(bytes: Buffer, from: number, to: number, flags: number): void {
    const block = this.#block;
    if (!block) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'CONTINUATION without HEADERS before it');
    this.#spend();
    if (block.bytes.length + to - from > this.#limits.maxHeaderBlockBytes)
      throw new Http2Error(
        ErrorCode.ENHANCE_YOUR_CALM,
        `a header block is longer than ${this.#limits.maxHeaderBlockBytes}`,
      );
    block.bytes = Buffer.concat([block.bytes, bytes.subarray(from, to)]);
    if (!(flags & Flag.END_HEADERS)) return;
    this.#block = undefined;
    this.#onBlock(block.bytes, 0, block.bytes.length, block.flags, block.streamId);
  }

  #onBlock(bytes: Buffer, from: number, to: number, flags: number, streamId: number): void {
    const stream = this.#streams.get(streamId);
    if (stream || this.#cutShort.has(streamId)) return this.#onTrailers(stream, bytes, from, to, flags);
    if (streamId % 2 === 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'the streams of a client have odd numbers');
    if (streamId <= this.#lastStreamId) this.#failLate('HEADERS', streamId);
    const head = this.#heads.request(bytes, from, to);
    if (streamId > this.#lastAccepted) return this.#spend(); // it has been told so with GOAWAY
    if (streamId > this.#lastStreamId + 2) this.#skip(streamId);
    this.#lastStreamId = streamId;
    this.#open(streamId, head, (flags & Flag.END_STREAM) !== 0);
  }

  #open(streamId: number, head: Head, isEnd: boolean): void {
    if (this.#streams.size + this.#cancelledBusy >= this.#limits.maxConcurrentStreams) {
      this.#spend();
      this.#cut(streamId, isEnd, ErrorCode.REFUSED_STREAM);
      this.#handler.failed(ErrorCode.REFUSED_STREAM, 'more streams at a time than the limit');
      return;
    }
    const stream = new Stream(this, streamId, this.#peerStreamWindow, this.#limits.streamWindowBytes);
    this.#streams.set(streamId, stream);
    stream.hasAllOfRequest = isEnd;
    if (head === 'too large') {
      this.#spend();
      return this.#handler.tooLarge(stream);
    }
    if ('problem' in head) return this.#failStream(stream, ErrorCode.PROTOCOL_ERROR, head.problem);
    stream.announced = head.contentLength;
    stream.receiver = this.#handler.request(stream, head);
    if (isEnd) this.#endRequest(stream);
  }

  /** @param stream  undefined: we have ended it before its client */
  #onTrailers(stream: Stream | undefined, bytes: Buffer, from: number, to: number, flags: number): void {
    const fields = this.#heads.trailers(bytes, from, to);
    if (!stream) return this.#spend();
    if (stream.hasAllOfRequest)
      return this.#failStream(stream, ErrorCode.STREAM_CLOSED, 'HEADERS after the end of a request');
    if (!(flags & Flag.END_STREAM))
      return this.#failStream(stream, ErrorCode.PROTOCOL_ERROR, 'a second HEADERS that does not end its request');
    const problem = fields === 'too large' ? 'the trailers are too large' : findTrailersProblem(fields);
    if (problem !== undefined) return this.#failStream(stream, ErrorCode.PROTOCOL_ERROR, problem);
    this.#endRequest(stream);
  }

  #onWindowUpdate(bytes: Buffer, from: number, length: number, streamId: number): void {
    ofLength('WINDOW_UPDATE', 4, length);
    this.#spend();
    const increment = uint31(bytes, from);
    if (streamId === 0) {
      if (increment === 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'WINDOW_UPDATE by 0');
      this.#sendWindow += increment;
      if (this.#sendWindow > MAX_WINDOW) throw new Http2Error(ErrorCode.FLOW_CONTROL_ERROR, 'a window beyond 2^31-1');
      return this.#sendHeldBack();
    }
    this.#mustNotBeIdle('WINDOW_UPDATE', streamId);
    const stream = this.#streams.get(streamId);
    if (!stream) return;
    if (increment === 0) return this.#failStream(stream, ErrorCode.PROTOCOL_ERROR, 'WINDOW_UPDATE by 0');
    stream.sendWindow += increment;
    if (stream.sendWindow > MAX_WINDOW)
      return this.#failStream(stream, ErrorCode.FLOW_CONTROL_ERROR, 'a window beyond 2^31-1');
    this.#sendHeldBackOf(stream);
  }

  #onSettings(bytes: Buffer, from: number, length: number, flags: number, streamId: number): void {
    onTheConnection('SETTINGS', streamId);
    this.#spend();
    if (flags & Flag.ACK) return ofLength('the ACK of SETTINGS', 0, length);
    if (length % 6 !== 0) throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, 'SETTINGS has no whole number of settings');
    for (let at = from; at < from + length; at += 6) this.#set(bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2));
    this.#hasSettings = true;
    this.#output.numbers(FrameType.SETTINGS, Flag.ACK, 0);
    this.#sendHeldBack();
  }

  #set(id: number, value: number): void {
    this.#spend(); // one frame has room for thousands, and each may touch every stream
    switch (id) {
      case Setting.HEADER_TABLE_SIZE:
        this.#mustEmptyTable = true; // it may have become smaller than what the client believes us to use
        return;
      case Setting.ENABLE_PUSH:
        if (value > 1) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'ENABLE_PUSH is neither 0 nor 1');
        return;
      case Setting.INITIAL_WINDOW_SIZE:
        return this.#setStreamWindow(value);
      case Setting.MAX_FRAME_SIZE:
        if (value < DEFAULT_MAX_FRAME_SIZE || value > LARGEST_MAX_FRAME_SIZE)
          throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'MAX_FRAME_SIZE is not between 2^14 and 2^24-1');
        this.#peerMaxFrameSize = value;
    }
  }

  #setStreamWindow(value: number): void {
    if (value > MAX_WINDOW) throw new Http2Error(ErrorCode.FLOW_CONTROL_ERROR, 'INITIAL_WINDOW_SIZE beyond 2^31-1');
    for (const stream of this.#streams.values()) {
      stream.sendWindow += value - this.#peerStreamWindow;
      if (stream.sendWindow > MAX_WINDOW) throw new Http2Error(ErrorCode.FLOW_CONTROL_ERROR, 'a window beyond 2^31-1');
    }
    this.#peerStreamWindow = value;
  }

  #onPing(bytes: Buffer, from: number, length: number, flags: number, streamId: number): void {
    onTheConnection('PING', streamId);
    ofLength('PING', 8, length);
    this.#spend();
    if (!(flags & Flag.ACK)) {
      this.#output.frame(FrameType.PING, Flag.ACK, 0, bytes, from, from + length);
    } else if (this.#isDraining && drainPing.compare(bytes, from, from + length) === 0) {
      this.#lastAccepted = this.#lastStreamId;
      this.#sendGoaway(this.#lastStreamId, ErrorCode.NO_ERROR, '');
      this.#closeWhenDrained();
    } else {
      this.#onPong?.();
      this.#onPong = undefined;
    }
  }

  #onReset(length: number, streamId: number): void {
    onAStream('RST_STREAM', streamId);
    ofLength('RST_STREAM', 4, length);
    this.#mustNotBeIdle('RST_STREAM', streamId);
    this.#spend();
    const stream = this.#streams.get(streamId);
    if (!stream) return;
    if (!stream.hasAllOfRequest) this.#spend();
    this.#forget(stream);
    this.#cancel(stream);
  }

  #onPriority(bytes: Buffer, from: number, length: number, streamId: number): void {
    onAStream('PRIORITY', streamId);
    ofLength('PRIORITY', 5, length);
    this.#spend();
    if (uint31(bytes, from) === streamId)
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'a stream cannot depend on itself');
  }

  /** The client opens no more streams, and closes when it has its answers. */
  #onGoaway(length: number, streamId: number): void {
    onTheConnection('GOAWAY', streamId);
    if (length < 8)
      throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, `GOAWAY must have at least 8 octets, got ${length}`);
    this.#spend();
  }

  /** A frame on a stream that is no more. */
  #onLate(frame: string, streamId: number): void {
    if (this.#cutShort.has(streamId) || streamId > this.#lastAccepted) return this.#spend();
    if (streamId > this.#lastStreamId)
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, `${frame} on a stream that is idle`);
    this.#failLate(frame, streamId);
  }

  #failLate(frame: string, streamId: number): never {
    const wasSkipped = this.#skipped.some(({ from, to }) => streamId >= from && streamId < to);
    throw wasSkipped
      ? new Http2Error(ErrorCode.PROTOCOL_ERROR, 'a stream has a lower number than one before it')
      : new Http2Error(ErrorCode.STREAM_CLOSED, `${frame} on a stream that is closed`);
  }

  #skip(streamId: number): void {
    if (this.#skipped.length === MAX_SKIPPED) this.#skipped.shift();
    this.#skipped.push({ from: this.#lastStreamId + 1, to: streamId });
  }

  #mustNotBeIdle(frame: string, streamId: number): void {
    if (streamId > this.#lastStreamId && streamId <= this.#lastAccepted)
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, `${frame} on a stream that is idle`);
  }

  #spend(): void {
    if (!this.#budget.spend())
      throw new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, 'too many frames that bring no request nearer its answer');
  }

  // --- writing

  answer(stream: Stream, head: Uint8Array, body: Uint8Array, length: number, trailers: Uint8Array): void {
    this.#unbusy(stream);
    if (stream.isOver) return;
    const fits = length <= stream.sendWindow && length <= this.#sendWindow && length <= this.#peerMaxFrameSize;
    this.#sendBlock(stream, head, 0);
    if (!fits || stream.heldBackBytes > 0) {
      this.sendData(stream, Buffer.from(body.subarray(0, length)));
      return this.sendEnd(stream, trailers);
    }
    stream.sendWindow -= length;
    this.#sendWindow -= length;
    this.#output.frame(FrameType.DATA, 0, stream.id, body, 0, length);
    this.#sendBlock(stream, trailers, Flag.END_STREAM);
    this.#endAnswer(stream);
  }

  sendHead(stream: Stream, block: Uint8Array, isEnd: boolean): void {
    this.#unbusy(stream);
    if (stream.isOver) return;
    this.#sendBlock(stream, block, isEnd ? Flag.END_STREAM : 0);
    if (isEnd) this.#endAnswer(stream);
  }

  get #isServerFull(): boolean {
    return this.#waiting.count > this.#limits.maxWaitingBytes;
  }

  #holdBack(stream: Stream, octets: number): void {
    stream.heldBackBytes += octets;
    this.#heldBackBytes += octets;
    this.#waiting.count += octets;
  }

  sendData(stream: Stream, bytes: Uint8Array): void {
    if (stream.isOver || bytes.length === 0) return;
    stream.heldBack.push(bytes);
    this.#holdBack(stream, bytes.length);
    this.#sendHeldBackOf(stream);
    if (this.#heldBackBytes > 0 && (this.#heldBackBytes > this.#limits.maxHeldBackBytes || this.#isServerFull))
      this.#fail(new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, 'the client takes none of its answers'));
  }

  sendEnd(stream: Stream, trailers?: Uint8Array): void {
    if (stream.isOver) return;
    stream.ending = trailers ?? 'end of data';
    this.#sendHeldBackOf(stream);
  }

  resetStream(stream: Stream, code: ErrorNumber): void {
    this.#unbusy(stream);
    if (stream.isOver) return;
    this.#cut(stream.id, stream.hasAllOfRequest, code);
    this.#forget(stream);
  }

  #sendBlock({ id }: Stream, block: Uint8Array, flags: number): void {
    if (!this.#mustEmptyTable) return this.#output.frame(FrameType.HEADERS, Flag.END_HEADERS | flags, id, block);
    this.#mustEmptyTable = false;
    this.#output.frame(FrameType.HEADERS, Flag.END_HEADERS | flags, id, Buffer.of(TABLE_SIZE_ZERO, ...block));
  }

  #sendHeldBack(): void {
    if (this.#heldBackBytes === 0) return;
    for (const stream of this.#streams.values()) if (stream.heldBackBytes > 0) this.#sendHeldBackOf(stream);
  }

  /** Sends as much as the windows let through, and the trailers when nothing is held back. */
  #sendHeldBackOf(stream: Stream): void {
    for (let bytes = stream.heldBack[0]; bytes; bytes = stream.heldBack[0]) {
      const room = Math.min(stream.sendWindow, this.#sendWindow, this.#peerMaxFrameSize, DEFAULT_MAX_FRAME_SIZE);
      const length = Math.min(room, bytes.length);
      if (length <= 0) return;
      this.#output.frame(FrameType.DATA, 0, stream.id, bytes, 0, length);
      stream.sendWindow -= length;
      this.#sendWindow -= length;
      this.#holdBack(stream, -length);
      if (length === bytes.length) stream.heldBack.shift();
      else stream.heldBack[0] = bytes.subarray(length);
    }
    if (!stream.ending) return;
    if (stream.ending === 'end of data') this.#output.numbers(FrameType.DATA, Flag.END_STREAM, stream.id);
    else this.#sendBlock(stream, stream.ending, Flag.END_STREAM);
    this.#endAnswer(stream);
  }

  /** The answer is out. A client that has not sent all of its request need not. */
  #endAnswer(stream: Stream): void {
    if (!stream.hasAllOfRequest) this.#cut(stream.id, false, ErrorCode.NO_ERROR);
    this.#forget(stream);
  }

  #cut(streamId: number, hasAllOfRequest: boolean, code: ErrorNumber): void {
    this.#output.numbers(FrameType.RST_STREAM, 0, streamId, code);
    if (hasAllOfRequest) return;
    this.#cutShort.add(streamId);
    if (this.#cutShort.size > MAX_CUT_SHORT)
      for (const oldest of this.#cutShort) return void this.#cutShort.delete(oldest);
  }

  #sendGoaway(lastStreamId: number, code: ErrorNumber, debugData: string): void {
    const payload = Buffer.alloc(8 + debugData.length);
    payload.writeUInt32BE(lastStreamId, 0);
    payload.writeUInt32BE(code, 4);
    payload.write(debugData, 8, 'latin1');
    this.#output.frame(FrameType.GOAWAY, 0, 0, payload);
  }

  // --- the end of streams and of the connection

  #forget(stream: Stream): void {
    stream.isOver = true;
    stream.heldBack.length = 0;
    this.#holdBack(stream, -stream.heldBackBytes);
    this.settle(stream);
    this.#streams.delete(stream.id);
    this.#closeWhenDrained();
  }

  #cancel(stream: Stream): void {
    if (stream.isBusy) this.#cancelledBusy++;
    stream.receiver?.cancelled();
  }

  #unbusy(stream: Stream): void {
    if (!stream.isBusy) return;
    stream.isBusy = false;
    if (stream.isOver) this.#cancelledBusy--;
  }

  #failStream(stream: Stream, code: ErrorNumber, problem: string): void {
    this.#spend(); // else a client could have us reset streams for ever
    this.#giveUp(stream, code, problem);
  }

  #giveUp(stream: Stream, code: ErrorNumber, problem: string): void {
    this.#handler.failed(code, problem);
    this.#cut(stream.id, stream.hasAllOfRequest, code);
    this.#forget(stream);
    this.#cancel(stream);
  }

  #fail({ code, message }: Http2Error): void {
    if (this.#isOver) return;
    this.#handler.failed(code, message);
    this.#sendGoaway(this.#lastStreamId, code, message);
    this.#finish();
  }

  /** Takes no notice of the client any more, but leaves it a moment to read what has been sent: a socket that is closed with something unread is reset. */
  #finish(): void {
    this.#isOver = true;
    this.#output.flush();
    this.#socket.end();
    this.#socket.resume();
    const timer = setTimeout(() => this.destroy(), LINGER_MS).unref();
    this.#socket.once('close', () => clearTimeout(timer));
  }

  #closeWhenDrained(): void {
    if (!this.#isDraining || this.#lastAccepted === MAX_STREAM_ID || this.#streams.size > 0 || this.#isOver) return;
    this.#finish();
  }

  #close(): void {
    this.#isOver = true;
    for (const stream of [...this.#streams.values()]) {
      this.#forget(stream);
      this.#cancel(stream);
    }
  }

  #stall(): void {
    this.#stalledSinceMs ??= performance.now();
    this.#socket.pause();
  }

  #resume(): void {
    this.#stalledSinceMs = undefined;
    this.#socket.resume();
  }
}

/** @throws Http2Error  it is longer than we let a frame be */
function payloadLengthAt(bytes: Buffer, at: number): number {
  const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number); // its octets are there
  if (length > DEFAULT_MAX_FRAME_SIZE)
    throw new Http2Error(
      ErrorCode.FRAME_SIZE_ERROR,
      `a frame of ${length} octets; ${DEFAULT_MAX_FRAME_SIZE} are the most`,
    );
  return length;
}

const uint31 = (bytes: Buffer, at: number): number => bytes.readUInt32BE(at) & 0x7fff_ffff;

function unpadded(bytes: Buffer, from: number, to: number): readonly [number, number] {
  const padding = bytes[from] ?? 0;
  if (from >= to) throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, 'a padded frame without the length of its padding');
  if (from + 1 + padding > to) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'more padding than frame');
  return [from + 1, to - padding];
}

function onAStream(frame: string, streamId: number): void {
  if (streamId === 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, `${frame} on stream 0`);
}

function onTheConnection(frame: string, streamId: number): void {
  if (streamId !== 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, `${frame} on a stream`);
}

function ofLength(frame: string, wanted: number, got: number): void {
  if (got !== wanted)
    throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, `${frame} must have ${wanted} octets, got ${got}`);
}
