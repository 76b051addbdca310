import type { CallSource } from '../bounds/call-queue.ts';
import type { PeerAddress } from '../listen/listener.ts';
import { ErrorCode, type ErrorNumber } from './errors.ts';

/** Receives one request, for the layer above. */
export interface Receiver {
  /** Receives octets of the body except its last; `bytes` is valid only during the call. */
  data(bytes: Buffer, from: number, to: number): void;
  /** Receives the last octets of the body, possibly none; `bytes` is valid only during the call. */
  end(bytes: Buffer, from: number, to: number): void;
  /** Called when the client cancelled or its connection ended; at most once, and never after the end of the answer. */
  cancelled(): void;
}

/** The connection of a stream, as handlers see it. */
export interface Peer extends CallSource {
  /** The client; undefined on unix sockets, and after the end. */
  readonly address: PeerAddress | undefined;
  /** Number of open streams of side services. */
  sideStreams: number;
  /**
   * Records work of a side service for the client.
   *
   * @param units  as in `sideTurns`
   * @returns whether further input from the client has to wait
   */
  spendSide(units: number): boolean;
  /** Octets of output that wait for the client's windows or its socket. */
  unreadBytes(): number;
  /** Time at which the current input was read from the socket, on the clock of `performance.now()`. */
  readAtMs: number;
}

export interface StreamWriter extends Peer {
  answer(stream: Stream, head: Uint8Array, bytes: Uint8Array, length: number, trailers: Uint8Array): void;
  sendHead(stream: Stream, block: Uint8Array, isEnd: boolean): void;
  sendData(stream: Stream, bytes: Uint8Array): void;
  sendEnd(stream: Stream, trailers?: Uint8Array): void;
  resetStream(stream: Stream, code: ErrorNumber): void;
  charge(stream: Stream, bytes: number): void;
}

/** One request and its answer. Writes after its end, or after the connection ended, are dropped. */
export class Stream {
  readonly id: number;
  readonly #connection: StreamWriter;
  receiver: Receiver | undefined;
  /** The stream's send window minus the initial window, which SETTINGS may change for all streams at once. */
  sendWindowOffset = 0;
  /** Octets that the client may still send. */
  receiveWindow: number;
  /** Octets of the body still to come, if content-length states its length. */
  bodyBytesLeft: number | undefined;
  hasAllOfRequest = false;
  /** Whether the request is streaming, and may last indefinitely. */
  isOpenEnded = false;
  isOver = false;
  /** Whether a handler is running; a cancelled stream keeps its slot until it returns (rapid-reset defence). */
  isBusy = false;
  /** Parts of the answer that wait for the client's windows. */
  readonly buffered: Uint8Array[] = [];
  /** Sent after the buffered parts; undefined while more data follows. */
  ending: Uint8Array | 'end of data' | undefined;
  /** Memory charged to the connection for this stream. */
  chargedBytes = 0;
  /** The value of `waitsForClient` at the previous check. */
  waitedForClient = false;

  constructor(connection: StreamWriter, id: number, receiveWindow: number) {
    this.#connection = connection;
    this.id = id;
    this.receiveWindow = receiveWindow;
  }

  get peer(): Peer {
    return this.#connection;
  }

  /** Whether the client has yet to send the rest of its request, or to open its window for the rest of the answer. */
  get waitsForClient(): boolean {
    return (!this.hasAllOfRequest && !this.isOpenEnded) || this.ending !== undefined;
  }

  /** Charges memory held for this stream to its connection; negative: releases it, as the stream's end does. */
  charge(bytes: number): void {
    this.#connection.charge(this, bytes);
  }

  /** Sends the whole answer: head, the first `length` octets of `bytes`, trailers. Blocks are from `encodeFields`. */
  answer(head: Uint8Array, bytes: Uint8Array, length: number, trailers: Uint8Array): void {
    this.#connection.answer(this, head, bytes, length, trailers);
  }

  head(block: Uint8Array): void {
    this.#connection.sendHead(this, block, false);
  }

  /** Sends a part of the answer's body, which may be buffered, so `bytes` must not change later. */
  data(bytes: Uint8Array): void {
    this.#connection.sendData(this, bytes);
  }

  end(trailers?: Uint8Array): void {
    this.#connection.sendEnd(this, trailers);
  }

  headOnly(block: Uint8Array): void {
    this.#connection.sendHead(this, block, true);
  }

  reset(code: ErrorNumber = ErrorCode.CANCEL): void {
    this.#connection.resetStream(this, code);
  }
}
