import type { Socket } from 'node:net';
import type { MemoryAccount } from '../../overload/caller-memory.ts';
import { Budget } from './budget.ts';
import { ControlFrames, mustBeOnStream } from './control-frames.ts';
import { ErrorCode, type ErrorNumber, Http2Error } from './errors.ts';
import { FrameReader } from './frame-reader.ts';
import { Flag, FrameType, MAX_STREAM_ID } from './frames.ts';
import type { Http2Limits } from './limits.ts';
import { Output } from './output.ts';
import { type ConnectionHandler, type RequestContext, RequestFrames } from './request-frames.ts';
import { SendQueue } from './send-queue.ts';
import type { PeerState, Stream } from './stream.ts';
import { StreamTable } from './stream-table.ts';

/** With less output than this in a turn, the socket's unsent bytes are not checked. */
const UNSENT_CHECK_BYTES = 8_192;

/** From this server's last frame until the socket is closed in any case. */
const LINGER_MS = 1_000;

/**
 * The server side of one HTTP/2 connection: reads and sends frames, and enforces the limits. It knows nothing about the requests' meaning.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9113
 */
export class Http2Connection implements RequestContext {
  readonly limits: Http2Limits;
  readonly handler: ConnectionHandler;
  readonly output: Output;
  readonly budget: Budget;
  readonly streams = new StreamTable();
  readonly peer: PeerState = {
    sideStreams: 0,
    unreadBytes: () => this.output.unsent + this.#send.bufferedBytes,
  };
  readonly #socket: Socket;
  readonly #account: MemoryAccount;
  readonly #reader: FrameReader;
  readonly #requests: RequestFrames;
  readonly #send: SendQueue;
  readonly #control: ControlFrames;
  readonly #openedAtMs = performance.now();
  #isDraining = false;
  #isOver = false;
  #stalledSinceMs: number | undefined;
  /** When streams were last checked for stalled clients. */
  #checkedAtMs = this.#openedAtMs;

  /** @param account  charged with the memory held for the client */
  constructor(socket: Socket, account: MemoryAccount, limits: Http2Limits, handler: ConnectionHandler) {
    this.#socket = socket;
    this.#account = account;
    this.limits = limits;
    this.handler = handler;
    this.output = new Output(socket, () => this.#onFlushed());
    this.budget = new Budget(limits.controlFrames, limits.controlFramesPerSecond);
    this.#reader = new FrameReader((bytes, from, to, type, flags, id) =>
      this.#onFrame(bytes, from, to, type, flags, id),
    );
    this.#requests = new RequestFrames(this);
    this.#send = new SendQueue(
      this.output,
      (stream, bytes) => this.streams.charge(stream, bytes),
      (stream) => this.#endAnswer(stream),
    );
    this.#control = new ControlFrames(this, this.#send);
    socket.setNoDelay(true);
    this.#control.sendPreface();
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('error', () => {}); // 'close' follows
    socket.once('close', () => this.#close());
  }

  /** Sends GOAWAY, and closes the connection when its open streams have ended. */
  drain(): void {
    if (this.#isDraining || this.#isOver) return;
    this.#isDraining = true;
    this.#control.sendGoaway(MAX_STREAM_ID, ErrorCode.NO_ERROR, '');
    this.#control.ping(() => {
      this.streams.lastAcceptedId = this.streams.lastId;
      this.#control.sendGoaway(this.streams.lastId, ErrorCode.NO_ERROR, '');
      this.#closeWhenDrained();
    }); // streams that the client opened before it read GOAWAY arrive before its pong
  }

  /** @param onPong  called once, when the client has answered */
  ping(onPong: () => void): void {
    this.#control.ping(onPong);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Ends the connection at once and releases its memory: the memory account is full, and this connection holds most. */
  reset(): void {
    if (this.#isOver) return;
    this.handler.failed(ErrorCode.ENHANCE_YOUR_CALM, 'the memory for callers is full, and this connection holds most');
    this.destroy();
    this.#close();
  }

  /** Ends the connection or the streams whose client has stalled for too long. To be called about once a second. */
  checkStalls(nowMs: number): void {
    if (this.#isOver) return;
    this.#pauseOrResume();
    const { stallTimeoutMs } = this.limits;
    const sinceMs = this.#stalledSince();
    if (sinceMs !== undefined && nowMs - sinceMs > stallTimeoutMs)
      this.#fail(new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, 'the client has stalled for too long'));
    else if (nowMs - this.#checkedAtMs > stallTimeoutMs) this.#endStalledStreams(nowMs);
  }

  /** Ends streams that were already waiting for the client at the previous check. */
  #endStalledStreams(nowMs: number): void {
    this.#checkedAtMs = nowMs;
    for (const stream of this.streams.all()) {
      if (stream.waitsForClient && stream.waitedForClient)
        this.#abort(stream, ErrorCode.ENHANCE_YOUR_CALM, 'the client has stalled a stream for too long');
      stream.waitedForClient = stream.waitsForClient;
    }
  }

  #stalledSince(): number | undefined {
    if (!this.#control.hasSettings) return this.#openedAtMs;
    return this.#requests.blockSinceMs ?? this.#stalledSinceMs ?? this.#reader.incompleteSinceMs;
  }

  // --- reading

  /** @param chunk  undefined: resumes with what was left when reading was paused */
  #read(chunk: Buffer | undefined): void {
    if (this.#isOver) return;
    try {
      if (chunk) this.#reader.read(chunk);
      else this.#reader.resume();
    } catch (error) {
      this.#fail(error instanceof Http2Error ? error : new Http2Error(ErrorCode.INTERNAL_ERROR, 'internal error'));
    }
    this.#reportMemory();
  }

  #onFrame(bytes: Buffer, from: number, to: number, type: number, flags: number, streamId: number): void {
    if (this.#isOver) return;
    if (!this.#control.hasSettings && (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0))
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'the first frame is not SETTINGS');
    const { blockStreamId } = this.#requests;
    if (blockStreamId !== undefined && (type !== FrameType.CONTINUATION || streamId !== blockStreamId))
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'another frame interrupts a header block');
    switch (type) {
      case FrameType.DATA:
        mustBeOnStream('DATA', streamId);
        this.#requests.onData(bytes, from, to, flags, streamId);
        break;
      case FrameType.HEADERS:
        mustBeOnStream('HEADERS', streamId);
        this.#requests.onHeaders(bytes, from, to, flags, streamId);
        break;
      case FrameType.CONTINUATION:
        this.#requests.onContinuation(bytes, from, to, flags);
        break;
      default:
        this.#control.onFrame(bytes, from, to - from, type, flags, streamId);
    }
    if (this.output.length > UNSENT_CHECK_BYTES) this.#checkUnsent();
  }

  spend(): void {
    if (!this.budget.spend()) throw new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, 'too many control frames');
  }

  // --- writing

  answer(stream: Stream, head: Uint8Array, body: Uint8Array, length: number, trailers: Uint8Array): void {
    this.streams.markAnswered(stream);
    if (!stream.isOver) this.#send.answer(stream, head, body, length, trailers);
  }

  sendHead(stream: Stream, block: Uint8Array, isEnd: boolean): void {
    this.streams.markAnswered(stream);
    if (!stream.isOver) this.#send.head(stream, block, isEnd);
  }

  sendData(stream: Stream, bytes: Uint8Array): void {
    if (!stream.isOver) this.#send.data(stream, bytes);
  }

  sendEnd(stream: Stream, trailers?: Uint8Array): void {
    if (!stream.isOver) this.#send.end(stream, trailers);
  }

  resetStream(stream: Stream, code: ErrorNumber): void {
    this.streams.markAnswered(stream);
    if (stream.isOver) return;
    this.sendReset(stream.id, stream.hasAllOfRequest, code);
    this.remove(stream);
  }

  charge(stream: Stream, bytes: number): void {
    this.streams.charge(stream, bytes);
  }

  sendReset(streamId: number, hasAllOfRequest: boolean, code: ErrorNumber): void {
    this.output.numbers(FrameType.RST_STREAM, 0, streamId, code);
    if (!hasAllOfRequest) this.streams.endedEarly(streamId);
  }

  /** The answer has been sent. A client that is still sending its request may stop. */
  #endAnswer(stream: Stream): void {
    if (!stream.hasAllOfRequest) this.sendReset(stream.id, false, ErrorCode.NO_ERROR);
    this.remove(stream);
  }

  // --- memory, and clients that do not read

  #reportMemory(): void {
    if (this.#isOver) return;
    const { streams, output } = this;
    this.#account.set(
      this.#account.baseBytes +
        streams.chargedBytes +
        output.heldBytes +
        this.#reader.heldBytes +
        this.#requests.heldBytes,
    );
  }

  #onFlushed(): void {
    this.#pauseOrResume();
    this.#reportMemory();
  }

  /** The answers to one chunk may be much larger than the chunk. */
  #checkUnsent(): void {
    if (this.output.length > this.limits.maxUnsentBytes) this.output.flush();
    this.#pauseOrResume();
  }

  /** Stops reading from a client that does not read its answers. */
  #pauseOrResume(): void {
    const isStalled = this.output.unsent > this.limits.maxUnsentBytes;
    if (isStalled === (this.#stalledSinceMs !== undefined) || this.#isOver) return;
    if (isStalled) {
      this.#stalledSinceMs = performance.now();
      this.#reader.pause();
      this.#socket.pause();
    } else {
      this.#stalledSinceMs = undefined;
      this.#socket.resume();
      this.#read(undefined);
    }
  }

  // --- the end of streams and of the connection

  remove(stream: Stream): void {
    this.#send.forget(stream);
    this.streams.remove(stream);
    this.#closeWhenDrained();
  }

  failStream(stream: Stream, code: ErrorNumber, problem: string): void {
    this.spend(); // else a client could make this server reset streams forever
    this.#abort(stream, code, problem);
  }

  #abort(stream: Stream, code: ErrorNumber, problem: string): void {
    this.handler.failed(code, problem);
    this.sendReset(stream.id, stream.hasAllOfRequest, code);
    this.remove(stream);
    stream.receiver?.cancelled();
  }

  #fail({ code, message }: Http2Error): void {
    if (this.#isOver) return;
    this.handler.failed(code, message);
    this.#control.sendGoaway(this.streams.lastId, code, message);
    this.#finish();
  }

  /** Ignores further input, but lets the client read what was sent: closing a socket with unread input resets it. */
  #finish(): void {
    this.output.flushNow();
    this.#end();
    this.#socket.end();
    this.#socket.resume();
    const timer = setTimeout(() => this.destroy(), LINGER_MS).unref();
    this.#socket.once('close', () => clearTimeout(timer));
  }

  #closeWhenDrained(): void {
    if (!this.#isDraining || this.streams.lastAcceptedId === MAX_STREAM_ID) return;
    if (this.streams.openCount === 0 && !this.#isOver) this.#finish();
  }

  #close(): void {
    this.output.discard();
    this.#end();
  }

  #end(): void {
    this.#isOver = true;
    for (const stream of [...this.streams.all()]) {
      this.remove(stream);
      stream.receiver?.cancelled();
    }
    this.#account.close();
  }
}
