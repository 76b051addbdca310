import { monotonicMs } from '../../base/clock.ts';
import type { Stream } from '../http2/stream.ts';
import { type Failure, failureTrailers, HEAD, OK_TRAILERS, refusalHead } from './answers.ts';
import type { CallHead } from './call-head.ts';
import { status } from './grpc-status.ts';
import { PREFIX_BYTES } from './message-reader.ts';
import { defaultMethodLimits, type Method, type OpenCall } from './method.ts';

const INTERNAL: Failure = { code: status.INTERNAL, details: 'internal error' };
export const UNREAD = 'the client does not read its answers';

/** Receives events through methods, since closures would take memory for every call. */
interface AnswerOwner {
  /** Called when the handler has sent a message, or ended or failed the call. */
  onAnswered(): void;
  /** Called once, when the call is over. */
  onOver(): void;
}

/** The answer to a call of a `Method`, which its handler writes. */
export class MethodAnswer implements OpenCall {
  readonly #method: Method;
  readonly #stream: Stream;
  readonly #owner: AnswerOwner;
  /** Kept until the handler has been called. */
  head: CallHead | undefined;
  readonly #deadlineMs: number;
  isOver = false;
  #hasHead = false;
  #unreadMessages = 0;
  #isGone = false;
  #onGone: (() => void) | undefined;

  constructor(method: Method, stream: Stream, head: CallHead, owner: AnswerOwner) {
    this.#method = method;
    this.#stream = stream;
    this.head = head;
    this.#deadlineMs = head.timeoutMs === Infinity ? Infinity : monotonicMs() + head.timeoutMs;
    this.#owner = owner;
  }

  send(message: unknown): void {
    this.#owner.onAnswered();
    if (this.isOver) return;
    this.#unreadMessages = this.#stream.buffered.length > 0 ? this.#unreadMessages + 1 : 0;
    const { maxUnreadMessages } = this.#method.limits ?? defaultMethodLimits;
    if (this.#unreadMessages >= maxUnreadMessages)
      return this.abort({
        code: status.RESOURCE_EXHAUSTED,
        details: `${UNREAD}: ${maxUnreadMessages} messages are unread`,
      });
    try {
      this.#write(this.#method.encode(message));
    } catch {
      this.abort(INTERNAL);
    }
  }

  #write(message: Buffer): void {
    // a pooled buffer would keep its whole pool alive
    const framed = Buffer.allocUnsafeSlow(PREFIX_BYTES + message.length);
    framed[0] = 0;
    framed.writeUInt32BE(message.length, 1);
    framed.set(message, PREFIX_BYTES);
    if (!this.#hasHead) this.#stream.head(HEAD);
    this.#hasHead = true;
    this.#stream.data(framed);
  }

  end(): void {
    this.#owner.onAnswered();
    if (this.isOver) return;
    this.#close();
    if (!this.#hasHead) this.#stream.head(HEAD);
    this.#stream.end(OK_TRAILERS);
  }

  fail(code: status, details: string): void {
    this.#owner.onAnswered();
    if (!this.isOver) this.#fail({ code, details });
  }

  timeLeftMs(): number {
    return this.#deadlineMs - monotonicMs();
  }

  header(name: string): string | undefined {
    return this.head?.header(name);
  }

  charge(bytes: number): void {
    if (!this.isOver) this.#stream.charge(bytes);
  }

  onGone(listener: () => void): void {
    if (this.#isGone) listener();
    else if (!this.isOver) this.#onGone = listener;
  }

  /** Fails a call that its handler has not ended. */
  abort(failure: Failure): void {
    if (this.isOver) return;
    this.#fail(failure);
    this.#notifyGone();
  }

  /** Fails the call after its handler threw; the connection continues. */
  abortAfterBug(): void {
    this.#owner.onAnswered();
    this.abort(INTERNAL);
  }

  /** Ends the call after its client cancelled it or the connection ended. */
  cancel(): void {
    if (this.isOver) return;
    this.#close();
    this.#notifyGone();
  }

  #fail(failure: Failure): void {
    this.#close();
    if (this.#hasHead) this.#stream.end(failureTrailers(failure));
    else this.#stream.headOnly(refusalHead(failure));
  }

  #notifyGone(): void {
    this.#isGone = true;
    const listener = this.#onGone;
    this.#onGone = undefined;
    try {
      listener?.();
    } catch {
      this.abortAfterBug();
    }
  }

  #close(): void {
    this.isOver = true;
    this.#owner.onOver();
  }
}
