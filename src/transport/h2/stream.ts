import { ErrorCode, type ErrorNumber } from './errors.ts';

/** Takes one request, on behalf of the layer above. */
export interface Receiver {
  /** Octets of the body that are not its last: the part of `bytes` is valid only during the call. */
  data(bytes: Buffer, from: number, to: number): void;
  /** The last octets of the body, perhaps none: the client has sent everything. They, too, are valid only during the call. */
  end(bytes: Buffer, from: number, to: number): void;
  /** The client has cancelled, or its connection has ended. Called at most once, and never after the end of the answer. */
  cancelled(): void;
}

/** Writes for the streams of a connection. */
export interface StreamWriter {
  answer(stream: Stream, head: Uint8Array, bytes: Uint8Array, length: number, trailers: Uint8Array): void;
  sendHead(stream: Stream, block: Uint8Array, isEnd: boolean): void;
  sendData(stream: Stream, bytes: Uint8Array): void;
  sendEnd(stream: Stream, trailers?: Uint8Array): void;
  resetStream(stream: Stream, code: ErrorNumber): void;
  charge(stream: Stream, bytes: number): void;
}

/** What the streams of one connection share. */
export interface PeerState {
  /** Streams of side services that are open. */
  sideStreams: number;
  /** Octets of output that the client's windows or its socket have not taken. */
  readonly unreadBytes: () => number;
}

/** One request and its answer. What is written after its end, or to a client that has gone, is dropped. */
export class Stream {
  readonly id: number;
  readonly #connection: StreamWriter;
  readonly peer: PeerState;
  receiver: Receiver | undefined;
  /** What the client's window for this stream has beyond the initial window, which SETTINGS may change for all streams at once. */
  sendWindowOffset = 0;
  /** Octets that the client may still send. */
  receiveWindow: number;
  /** Octets of the body that are still to come, where content-length said how many there are. */
  bodyBytesLeft: number | undefined;
  hasAllOfRequest = false;
  /** The request lasts for as long as its client wants. */
  isOpenEnded = false;
  isOver = false;
  /** A handler is running; a cancelled stream keeps its slot until it returns (rapid-reset defence). */
  isBusy = false;
  /** Parts of the answer that wait for the client's windows, in order. */
  readonly buffered: Uint8Array[] = [];
  /** What is sent after the buffered parts; undefined: the answer goes on. */
  ending: Uint8Array | 'end of data' | undefined;
  /** Bytes of memory charged to the connection for this stream. */
  chargedBytes = 0;
  /** The value of `waitsForClient` at the previous check. */
  waitedForClient = false;

  constructor(connection: StreamWriter, peer: PeerState, id: number, receiveWindow: number) {
    this.#connection = connection;
    this.peer = peer;
    this.id = id;
    this.receiveWindow = receiveWindow;
  }

  /** The client has yet to send the rest of its request, or to make room for the rest of its answer. */
  get waitsForClient(): boolean {
    return (!this.hasAllOfRequest && !this.isOpenEnded) || this.ending !== undefined;
  }

  /** Charges memory that is kept for this stream to its connection; a negative number gives it back. The end of the stream gives back all of it. */
  charge(bytes: number): void {
    this.#connection.charge(this, bytes);
  }

  /** The whole answer at once: a head, a body that is a part of `bytes`, trailers. The blocks are those of `encodeFields`. */
  answer(head: Uint8Array, bytes: Uint8Array, length: number, trailers: Uint8Array): void {
    this.#connection.answer(this, head, bytes, length, trailers);
  }

  /** The answer's head. */
  head(block: Uint8Array): void {
    this.#connection.sendHead(this, block, false);
  }

  /** A further part of the answer's body, which may have to wait: `bytes` must not change any more. */
  data(bytes: Uint8Array): void {
    this.#connection.sendData(this, bytes);
  }

  /** The answer's end. */
  end(trailers?: Uint8Array): void {
    this.#connection.sendEnd(this, trailers);
  }

  /** An answer that is a head only. */
  headOnly(block: Uint8Array): void {
    this.#connection.sendHead(this, block, true);
  }

  reset(code: ErrorNumber = ErrorCode.CANCEL): void {
    this.#connection.resetStream(this, code);
  }
}
