import type { PeerAddress } from '../listen/listener.ts';
import { ErrorCode, type ErrorNumber, Http2Error } from './errors.ts';
import { FrameType } from './frames.ts';
import type { Http2Limits } from './limits.ts';
import type { Output } from './output.ts';
import type { RequestHead } from './request-head.ts';
import { SendQueue, type SendQueueOwner } from './send-queue.ts';
import type { Peer, Receiver, Stream, StreamWriter } from './stream.ts';
import { StreamTable } from './stream-table.ts';

/** The layer above a connection. */
export interface ConnectionHandler {
  /** Called when a request begins. @returns undefined if it has been answered, so that its body is dropped */
  request(stream: Stream, head: RequestHead): Receiver | undefined;
  /** Called when a request's fields exceed the limit. */
  tooLarge(stream: Stream): void;
  /** Called when the connection or one of its streams ends with an error. */
  failed(code: ErrorNumber, problem: string): void;
}

export interface ExchangesObserver {
  /** Called after a stream has ended. */
  onStreamEnded(): void;
  /** Called before a side service works for the client. @returns whether further input has to wait */
  onSideWork(units: number): boolean;
}

/** The requests and answers of one connection, each on a stream of its own (RFC 9113, 8.1). */
export class Exchanges implements StreamWriter, SendQueueOwner {
  readonly limits: Http2Limits;
  readonly handler: ConnectionHandler;
  readonly output: Output;
  readonly budget: Budget;
  readonly streams = new StreamTable();
  readonly send: SendQueue;
  waiting: Peer['waiting'];
  waitingCostly: Peer['waitingCostly'];
  hasMuchInput = false;
  sideStreams = 0;
  readAtMs = 0;
  readonly #observer: ExchangesObserver;

  constructor(output: Output, limits: Http2Limits, handler: ConnectionHandler, observer: ExchangesObserver) {
    this.output = output;
    this.limits = limits;
    this.handler = handler;
    this.#observer = observer;
    this.budget = new Budget(limits.controlFrames, limits.controlFramesPerSecond);
    this.send = new SendQueue(output, this);
  }

  get address(): PeerAddress | undefined {
    return this.output.address;
  }

  spendSide(units: number): boolean {
    return this.#observer.onSideWork(units);
  }

  unreadBytes(): number {
    return this.output.unsent + this.send.bufferedBytes;
  }

  /** @throws Http2Error if the client has sent too many control frames */
  spend(): void {
    if (!this.budget.spend()) throw new Http2Error(ErrorCode.ENHANCE_YOUR_CALM, 'too many control frames');
  }

  answer(stream: Stream, head: Uint8Array, body: Uint8Array, length: number, trailers: Uint8Array): void {
    this.streams.markAnswered(stream);
    if (!stream.isOver) this.send.answer(stream, head, body, length, trailers);
  }

  sendHead(stream: Stream, block: Uint8Array, isEnd: boolean): void {
    this.streams.markAnswered(stream);
    if (!stream.isOver) this.send.head(stream, block, isEnd);
  }

  sendData(stream: Stream, bytes: Uint8Array): void {
    if (!stream.isOver) this.send.data(stream, bytes);
  }

  sendEnd(stream: Stream, trailers?: Uint8Array): void {
    if (!stream.isOver) this.send.end(stream, trailers);
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

  /** Ends the stream, and lets a client that is still sending its request stop. */
  onAnswerSent(stream: Stream): void {
    if (!stream.hasAllOfRequest) this.sendReset(stream.id, false, ErrorCode.NO_ERROR);
    this.remove(stream);
  }

  remove(stream: Stream): void {
    this.send.forget(stream);
    this.streams.remove(stream);
    this.#observer.onStreamEnded();
  }

  /** Ends a stream whose client violated the protocol. */
  failStream(stream: Stream, code: ErrorNumber, problem: string): void {
    this.spend(); // otherwise a client could cause any number of resets
    this.abort(stream, code, problem);
  }

  /** Ends a stream before it has been answered. */
  abort(stream: Stream, code: ErrorNumber, problem: string): void {
    this.handler.failed(code, problem);
    this.sendReset(stream.id, stream.hasAllOfRequest, code);
    this.remove(stream);
    stream.receiver?.cancelled();
  }

  endAll(): void {
    for (const stream of this.streams.all()) {
      this.remove(stream);
      stream.receiver?.cancelled();
    }
  }
}

/**
 * A token bucket for overhead, such as control frames and the streams that they touch. It refills with time and with
 * each complete request, since legitimate clients send a few control frames per request. The clock is read only when
 * the bucket is empty.
 */
class Budget {
  readonly #capacity: number;
  readonly #perMs: number;
  #left: number;
  #filledAtMs = performance.now();

  constructor(capacity: number, perSecond: number) {
    this.#capacity = capacity;
    this.#perMs = perSecond / 1_000;
    this.#left = capacity;
  }

  /** @returns false if the bucket is empty */
  spend(): boolean {
    if (--this.#left >= 0) return true;
    const nowMs = performance.now();
    this.refill(Math.floor((nowMs - this.#filledAtMs) * this.#perMs));
    this.#filledAtMs = nowMs;
    return this.#left >= 0;
  }

  refill(tokens: number): void {
    this.#left = Math.min(this.#left + tokens, this.#capacity);
  }
}
