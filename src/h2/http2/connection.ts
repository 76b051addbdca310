import type { Socket } from 'node:net';
import { monotonicMs } from '../../base/clock.ts';
import type { MemoryAccount } from '../bounds/caller-memory.ts';
import { ControlFrames, mustBeOnStream } from './control-frames.ts';
import { ErrorCode, Http2Error } from './errors.ts';
import { type ConnectionHandler, Exchanges, type ExchangesObserver } from './exchanges.ts';
import { FrameReader, type FrameReceiver } from './frame-reader.ts';
import { Flag, FrameType, MAX_STREAM_ID } from './frames.ts';
import type { Http2Limits } from './limits.ts';
import { Output, type OutputObserver } from './output.ts';
import { type ReadingObserver, ReadingPace } from './reading-pace.ts';
import { RequestFrames } from './request-frames.ts';

const ignore = (): void => {};

/** Octets of one turn: a quarter of what a connection may send in it. */
const MUCH_INPUT = 16_384;

/** Minimum time between two checks for idleness; below a second, since a check may run slightly early. */
const IDLE_MS = 900;

/** Maximum time until the socket is closed after this server's last frame, or until a retired client answers a ping. */
const LINGER_MS = 1_000;

/**
 * The server side of one HTTP/2 connection. Reads and sends frames and enforces the limits, independently of what
 * requests mean. Its parts call the methods named `on…`, since closures would take memory for every connection.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9113
 */
export class Http2Connection implements FrameReceiver, OutputObserver, ExchangesObserver, ReadingObserver {
  readonly #socket: Socket;
  readonly #account: MemoryAccount;
  readonly #handler: ConnectionHandler;
  readonly #output: Output;
  readonly #exchanges: Exchanges;
  readonly #reader: FrameReader;
  readonly #requests: RequestFrames;
  readonly #control: ControlFrames;
  readonly #pace: ReadingPace;
  readonly #openedAtMs = monotonicMs();
  #hasGreeted = false;
  #isDraining = false;
  #isOver = false;
  /** Time of the last check for idleness, and the last stream at that time. */
  #judgedAtMs = this.#openedAtMs;
  #judgedStreamId = 0;

  /** @param account  charged with the memory held for the client */
  constructor(socket: Socket, account: MemoryAccount, limits: Http2Limits, handler: ConnectionHandler) {
    this.#socket = socket;
    this.#account = account;
    this.#handler = handler;
    this.#output = new Output(socket, this);
    this.#exchanges = new Exchanges(this.#output, limits, handler, this);
    this.#reader = new FrameReader(this);
    this.#requests = new RequestFrames(this.#exchanges);
    this.#control = new ControlFrames(this.#exchanges);
    this.#pace = new ReadingPace(socket, this.#reader, this.#exchanges, this);
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('error', ignore); // 'close' follows
    socket.on('close', () => this.#close());
  }

  /** Sends GOAWAY, and closes the connection when its open streams have ended. */
  drain(): void {
    if (this.#isDraining || this.#isOver) return;
    this.#isDraining = true;
    this.#greet();
    this.#control.sendGoaway(MAX_STREAM_ID, ErrorCode.NO_ERROR, '');
    this.#control.ping(() => this.#refuseStreams()); // streams opened before the client read GOAWAY precede its pong
  }

  #refuseStreams(): void {
    const { streams } = this.#exchanges;
    if (this.#isOver || streams.lastAcceptedId !== MAX_STREAM_ID) return;
    streams.lastAcceptedId = streams.lastId;
    this.#control.sendGoaway(streams.lastId, ErrorCode.NO_ERROR, '');
    this.#closeWhenDrained();
  }

  /** @param onPong  called once, when the client has answered */
  ping(onPong: () => void): void {
    this.#greet();
    this.#control.ping(onPong);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /**
   * Drains the connection if it is idle, with a short limit on the wait for its client.
   *
   * @returns false if it is not idle
   */
  retire(): boolean {
    if (this.#isOver || !this.#isIdle) return false;
    this.drain();
    const timer = setTimeout(() => this.#refuseStreams(), LINGER_MS).unref();
    this.#socket.on('close', () => clearTimeout(timer));
    return true;
  }

  /** Ends the connection immediately and releases its memory, as the connection that holds most when memory is full. */
  reset(): void {
    if (this.#isOver) return;
    this.#handler.failed(ErrorCode.ENHANCE_YOUR_CALM, 'the memory for callers is full, and this connection holds most');
    this.destroy();
    this.#close();
  }

  /**
   * Ends the connection or streams that have stalled for too long, and records about once a second whether the
   * connection is idle. Call at least once a second.
   */
  check(nowMs: number): void {
    if (this.#isOver) return;
    this.#pace.pauseOrResume();
    try {
      this.#pace.check(nowMs, this.#stalledSince());
    } catch (error) {
      return this.#fail(error);
    }
    if (nowMs - this.#judgedAtMs < IDLE_MS) return;
    this.#account.markIdle(this.#isIdle);
    this.#judgedAtMs = nowMs;
    this.#judgedStreamId = this.#exchanges.streams.lastId;
  }

  /** Whether no stream is open or was opened since the last check, and no input waits. Other frames may still come. */
  get #isIdle(): boolean {
    const { slotsTaken, lastId } = this.#exchanges.streams;
    return slotsTaken === 0 && lastId === this.#judgedStreamId && !this.#pace.waitsForTurn;
  }

  /** Whether streams are open. */
  get isInUse(): boolean {
    return this.#exchanges.streams.openCount > 0;
  }

  #stalledSince(): number | undefined {
    if (!this.#control.hasSettings) return this.#openedAtMs;
    return this.#requests.blocks.pendingSinceMs ?? this.#pace.sinceMs ?? this.#reader.incompleteSinceMs;
  }

  /** Sends SETTINGS with the first answer: idle clients cost no write, and an immediate request only one. */
  #greet(): void {
    if (this.#hasGreeted) return;
    this.#hasGreeted = true;
    this.#control.sendPreface();
  }

  // --- reading

  /** @param chunk  undefined: resumes with what was left when reading was paused */
  #read(chunk: Buffer | undefined): void {
    if (this.#isOver) return;
    this.#greet();
    this.#exchanges.readAtMs = monotonicMs();
    try {
      if (chunk) {
        this.#exchanges.hasMuchInput = chunk.length >= MUCH_INPUT;
        this.#reader.read(chunk);
        this.#pace.afterChunk(chunk.length);
      } else this.#reader.resume();
    } catch (error) {
      this.#fail(error);
    }
    this.#reportMemory();
  }

  onResumed(): void {
    this.#read(undefined);
  }

  onSideWork(units: number): boolean {
    return !this.#isOver && this.#pace.spendSide(units);
  }

  onFrame(bytes: Buffer, from: number, to: number, type: number, flags: number, streamId: number): void {
    if (this.#isOver) return;
    if (!this.#control.hasSettings && (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0))
      throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'the first frame is not SETTINGS');
    const { pendingStreamId } = this.#requests.blocks;
    if (pendingStreamId !== undefined && (type !== FrameType.CONTINUATION || streamId !== pendingStreamId))
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
    this.#pace.afterFrame();
  }

  // --- memory

  #reportMemory(): void {
    if (this.#isOver) return;
    this.#account.set(
      this.#account.baseBytes +
        this.#exchanges.streams.chargedBytes +
        this.#output.heldBytes +
        this.#reader.heldBytes +
        this.#requests.heldBytes,
    );
  }

  onFlushed(): void {
    if (!this.#isOver) this.#pace.pauseOrResume();
    this.#reportMemory();
  }

  // --- the end

  #fail(error: unknown): void {
    if (this.#isOver) return;
    const { code, message } =
      error instanceof Http2Error ? error : new Http2Error(ErrorCode.INTERNAL_ERROR, 'internal error');
    this.#handler.failed(code, message);
    this.#greet();
    this.#control.sendGoaway(this.#exchanges.streams.lastId, code, message);
    this.#finish();
  }

  /** Ignores further input: closing a socket with unread input resets it before the client has read everything. */
  #finish(): void {
    this.#output.flushNow();
    this.#end();
    this.#socket.end();
    this.#socket.resume();
    const timer = setTimeout(() => this.destroy(), LINGER_MS).unref();
    this.#socket.on('close', () => clearTimeout(timer));
  }

  onStreamEnded(): void {
    this.#closeWhenDrained();
  }

  #closeWhenDrained(): void {
    const { streams } = this.#exchanges;
    if (!this.#isDraining || streams.lastAcceptedId === MAX_STREAM_ID) return;
    if (streams.openCount === 0 && !this.#isOver) this.#finish();
  }

  #close(): void {
    this.#output.discard();
    this.#end();
  }

  #end(): void {
    this.#isOver = true;
    this.#exchanges.endAll();
    this.#pace.release();
    this.#reader.release();
    this.#requests.blocks.release();
    this.#account.close();
  }
}
