import { status } from '@grpc/grpc-js';
import type { Caller } from '../../rls/service.ts';
import type { Receiver, Stream } from '../h2/stream.ts';
import { type Failure, failureHead, HEAD, OK_TRAILERS } from './answers.ts';
import type { CallHead } from './call-head.ts';
import { GrpcError } from './grpc-error.ts';
import { MessageReader, PREFIX_BYTES } from './message-reader.ts';

/** A method that takes one message and gives one, both in their own form. */
export interface UnaryMethod<Q> {
  /** Why the next call is not even read, always the same object for the same reason; undefined: it is. */
  readonly refusal: () => Failure | undefined;
  /** @throws Error  no message of the method's type */
  readonly decode: (bytes: Buffer, from: number, to: number) => Q;
  /** Decides; answers by `call.answer` or `call.fail`, once. */
  readonly handle: (request: Q, call: UnaryCall<Q>) => void;
  /** Is told of each call that got as far as `handle`, when it has been answered. */
  readonly onAnswered: (code: status, elapsedMs: number) => void;
  readonly maxRequestBytes: number;
}

/** One call of a unary method: what an answer is made of and when it comes too late. */
export class UnaryCall<Q> implements Receiver, Caller {
  readonly #method: UnaryMethod<Q>;
  readonly #stream: Stream;
  readonly #head: CallHead;
  #reader: MessageReader | undefined;
  #request: Q | undefined;
  #messages = 0;
  #startedMs = 0;

  constructor(method: UnaryMethod<Q>, stream: Stream, head: CallHead) {
    this.#method = method;
    this.#stream = stream;
    this.#head = head;
  }

  get timeoutMs(): number {
    return this.#head.timeoutMs;
  }

  header(name: string): string | undefined {
    return this.#head.header(name);
  }

  data(bytes: Buffer, from: number, to: number): void {
    try {
      if (!this.#reader && isWholeMessage(bytes, from, to)) this.#take(bytes, from + PREFIX_BYTES, to);
      else this.#pieces().push(bytes, from, to);
    } catch (error) {
      this.fail(failureOf(error));
    }
  }

  end(): void {
    if (this.#reader && this.#reader.pending > 0)
      return this.fail({ code: status.INTERNAL, details: 'the request ends in the middle of a message' });
    if (this.#request === undefined)
      return this.fail({ code: status.UNIMPLEMENTED, details: 'the method takes one message, got none' });
    this.#stream.isBusy = true;
    this.#startedMs = performance.now();
    this.#method.handle(this.#request, this);
  }

  cancelled(): void {
    this.#request = undefined; // what is under way ends by itself, and its answer is dropped
  }

  /** @param bytes  the message, after `PREFIX_BYTES` octets that are free, up to `length`; only used during the call */
  answer(bytes: Buffer, length: number): void {
    const elapsedMs = performance.now() - this.#startedMs;
    if (elapsedMs > this.#head.timeoutMs) return this.#end(deadlineExceeded, elapsedMs);
    bytes[0] = 0;
    bytes.writeUInt32BE(length - PREFIX_BYTES, 1);
    this.#stream.answer(HEAD, bytes, length, OK_TRAILERS);
    this.#method.onAnswered(status.OK, elapsedMs);
  }

  fail(failure: Failure): void {
    if (!this.#stream.isBusy) return this.#stream.headOnly(failureHead(failure)); // its request was never handed on
    const elapsedMs = performance.now() - this.#startedMs;
    this.#end(elapsedMs > this.#head.timeoutMs ? deadlineExceeded : failure, elapsedMs);
  }

  #end(failure: Failure, elapsedMs: number): void {
    this.#stream.headOnly(failureHead(failure));
    this.#method.onAnswered(failure.code, elapsedMs);
  }

  #pieces(): MessageReader {
    this.#reader ??= new MessageReader(this.#head.encoding, this.#method.maxRequestBytes, (bytes, from, to) =>
      this.#take(bytes, from, to),
    );
    return this.#reader;
  }

  #take(bytes: Buffer, from: number, to: number): void {
    if (++this.#messages > 1) throw new GrpcError(status.UNIMPLEMENTED, 'the method takes one message, got more');
    this.#request = this.#method.decode(bytes, from, to);
  }
}

const deadlineExceeded: Failure = { code: status.DEADLINE_EXCEEDED, details: 'Deadline exceeded' };

const isWholeMessage = (bytes: Buffer, from: number, to: number): boolean =>
  to - from >= PREFIX_BYTES && bytes[from] === 0 && bytes.readUInt32BE(from + 1) === to - from - PREFIX_BYTES;

/** What cannot be decoded is the caller's doing, and is told. */
export function failureOf(error: unknown): Failure {
  if (error instanceof GrpcError) return { code: error.code, details: error.message };
  const reason = error instanceof Error ? error.message : String(error);
  return { code: status.INTERNAL, details: `the request is no message of the method's type: ${reason}` };
}
