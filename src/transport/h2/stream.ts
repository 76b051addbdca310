import { ErrorCode, type ErrorNumber } from './errors.ts';

/** What takes in one request, as the layer above makes it. */
export interface Receiver {
  /** Octets of the body: the part of `bytes` is only valid during the call. */
  data(bytes: Buffer, from: number, to: number): void;
  /** The client has sent everything. */
  end(): void;
  /** Nobody waits for the answer any more: the client has cancelled, or is gone. Called at most once, and never after the answer's end. */
  cancelled(): void;
}

/** What writes for the streams of a connection. */
export interface StreamWriter {
  answer(stream: Stream, head: Uint8Array, bytes: Uint8Array, length: number, trailers: Uint8Array): void;
  sendHead(stream: Stream, block: Uint8Array, isEnd: boolean): void;
  sendData(stream: Stream, bytes: Uint8Array): void;
  sendEnd(stream: Stream, trailers?: Uint8Array): void;
  resetStream(stream: Stream, code: ErrorNumber): void;
  settle(stream: Stream): void;
}

/** One request and its answer. What is written after its end, or to a client that is gone, is dropped. */
export class Stream {
  readonly id: number;
  readonly #connection: StreamWriter;
  receiver: Receiver | undefined;
  /** Octets that the client still takes, and may still send. */
  sendWindow: number;
  receiveWindow: number;
  /** Octets of the body that are still to come, where the client has said how many there are. */
  announced: number | undefined;
  /** Octets of the body that belong to nothing complete yet. */
  unfinishedBytes = 0;
  hasAllOfRequest = false;
  /** The request goes on for as long as its client wants. */
  isOpenEnded = false;
  isOver = false;
  /** The answer is being made: a stream that is cancelled keeps its place until it has been. */
  isBusy = false;
  /** What the windows hold back, in order. */
  readonly heldBack: Uint8Array[] = [];
  heldBackBytes = 0;
  /** What comes after that; undefined: the answer goes on. */
  ending: Uint8Array | 'end of data' | undefined;
  /** What `waitsForClient` was when it was last looked. */
  waitedForClient = false;

  constructor(connection: StreamWriter, id: number, sendWindow: number, receiveWindow: number) {
    this.#connection = connection;
    this.id = id;
    this.sendWindow = sendWindow;
    this.receiveWindow = receiveWindow;
  }

  /** The client has yet to send the rest of its request, or to make room for the rest of its answer. */
  get waitsForClient(): boolean {
    return (!this.hasAllOfRequest && !this.isOpenEnded) || this.ending !== undefined;
  }

  /** What has come of the body so far has been used: it counts as unfinished no more. */
  used(): void {
    this.#connection.settle(this);
  }

  /** The whole answer in one go: a head, a body that is a part of `bytes`, trailers. The blocks are those of `encodeFields`. */
  answer(head: Uint8Array, bytes: Uint8Array, length: number, trailers: Uint8Array): void {
    this.#connection.answer(this, head, bytes, length, trailers);
  }

  /** The answer's head. */
  head(block: Uint8Array): void {
    this.#connection.sendHead(this, block, false);
  }

  /** A further part of the answer's body, which may be held back: `bytes` must not change any more. */
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
