import type { Socket } from 'node:net';
import { ErrorCode, Http2Error } from './errors.ts';
import type { Exchanges } from './exchanges.ts';
import type { FrameReader } from './frame-reader.ts';
import { SHARE_UNITS, type SideWaiter, sideTurns } from './side-turns.ts';

/** Output in a turn below which the socket's unsent bytes are not checked. */
const UNSENT_CHECK_BYTES = 8_192;

/**
 * Input after which other connections get their turn. Otherwise libuv reads a socket up to 32 times in a row, 64 KiB
 * each, and a client with expensive frames delays every other one.
 */
const OCTETS_PER_TURN = 65_536;

export interface ReadingObserver {
  /** Called to read what the frame reader buffered while it was paused. */
  onResumed(): void;
}

/**
 * Decides when to read. Limits each turn to the connection's share and to the capacity of side services, pauses while
 * the client leaves answers unread, and ends what has stalled for too long.
 */
export class ReadingPace implements SideWaiter {
  readonly #socket: Socket;
  readonly #reader: FrameReader;
  readonly #exchanges: Exchanges;
  readonly #observer: ReadingObserver;
  #sinceMs: number | undefined;
  #octetsLeft = OCTETS_PER_TURN;
  /** The turn in which side services were last called. */
  #sideTurn = -1;
  /** Units left; negative after work beyond its shares, which later ones make up for. */
  #sideUnitsLeft = 0;
  #waitsForTurn = false;
  /** Time of the last check of streams. */
  #checkedAtMs = performance.now();

  constructor(socket: Socket, reader: FrameReader, exchanges: Exchanges, observer: ReadingObserver) {
    this.#socket = socket;
    this.#reader = reader;
    this.#exchanges = exchanges;
    this.#observer = observer;
  }

  /** Time since which the client has not read its answers. */
  get sinceMs(): number | undefined {
    return this.#sinceMs;
  }

  /** Whether input for side services waits for its turn. */
  get waitsForTurn(): boolean {
    return this.#waitsForTurn;
  }

  /** Stops waiting for turns, since the connection has ended. */
  release(): void {
    if (this.#waitsForTurn) sideTurns.forget(this);
  }

  afterChunk(length: number): void {
    this.#octetsLeft -= length;
    if (this.#octetsLeft > 0) return;
    this.#octetsLeft = OCTETS_PER_TURN;
    this.#socket.pause();
    setImmediate(() => this.#resumeSocket());
  }

  /** Records work of a side service for the client. @returns whether the client has used up its share and must wait */
  spendSide(units: number): boolean {
    if (this.#sideTurn !== sideTurns.number) this.#beginShare(sideTurns.ownShare());
    sideTurns.wake();
    this.#sideUnitsLeft -= units;
    if (this.#sideUnitsLeft > 0 || this.#waitsForTurn) return this.#waitsForTurn;
    if (sideTurns.take(SHARE_UNITS - this.#sideUnitsLeft)) {
      this.#sideUnitsLeft = SHARE_UNITS;
      return false;
    }
    this.#waitsForTurn = true;
    this.#reader.pause();
    this.#socket.pause();
    sideTurns.wait(this);
    return true;
  }

  #beginShare(units: number): void {
    this.#sideTurn = sideTurns.number;
    this.#sideUnitsLeft = Math.min(this.#sideUnitsLeft, 0) + units;
  }

  proceed(): void {
    this.#beginShare(SHARE_UNITS);
    if (this.#sideUnitsLeft <= 0) return sideTurns.wait(this);
    this.#waitsForTurn = false;
    if (this.#sinceMs === undefined) this.#observer.onResumed();
    this.#resumeSocket();
  }

  #resumeSocket(): void {
    if (this.#sinceMs === undefined && !this.#waitsForTurn) this.#socket.resume();
  }

  /** Call after each frame, since the answers to one chunk may be much larger than the chunk. */
  afterFrame(): void {
    const { output, limits } = this.#exchanges;
    if (output.length <= UNSENT_CHECK_BYTES) return;
    if (output.length > limits.maxUnsentBytes) output.flush();
    this.pauseOrResume();
  }

  pauseOrResume(): void {
    const { output, limits } = this.#exchanges;
    const isStalled = output.unsent > limits.maxUnsentBytes;
    if (isStalled === (this.#sinceMs !== undefined)) return;
    if (isStalled) {
      this.#sinceMs = performance.now();
      this.#reader.pause();
      this.#socket.pause();
    } else {
      this.#sinceMs = undefined;
      if (this.#waitsForTurn) return;
      this.#socket.resume();
      this.#observer.onResumed();
    }
  }

  /**
   * Ends streams that already waited for the client at the previous check.
   *
   * @param sinceMs  time since which the whole connection waits for the client
   * @throws Http2Error if that is too long
   */
  check(nowMs: number, sinceMs: number | undefined): void {
    const { stallTimeoutMs } = this.#exchanges.limits;
    if (sinceMs !== undefined && nowMs - sinceMs > stallTimeoutMs)
      throw new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, 'the client has stalled for too long');
    if (nowMs - this.#checkedAtMs <= stallTimeoutMs) return;
    this.#checkedAtMs = nowMs;
    for (const stream of this.#exchanges.streams.all()) {
      if (stream.waitsForClient && stream.waitedForClient)
        this.#exchanges.abort(stream, ErrorCode.ENHANCE_YOUR_CALM, 'the client has stalled a stream for too long');
      stream.waitedForClient = stream.waitsForClient;
    }
  }
}
