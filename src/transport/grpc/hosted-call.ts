import { EventEmitter } from 'node:events';
import {
  type handleBidiStreamingCall,
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  type ServerDuplexStream,
  status,
  type UntypedHandleCall,
} from '@grpc/grpc-js';
import type { Receiver, Stream } from '../h2/stream.ts';
import { type Failure, failureHead, failureTrailers, HEAD, OK_TRAILERS } from './answers.ts';
import type { CallHead } from './call-head.ts';
import { MessageReader, PREFIX_BYTES } from './message-reader.ts';
import { failureOf } from './unary-call.ts';

/** A method as grpc-js has it, and the handler that was written for it. Not one where the client alone streams: nobody needs it here. */
export interface HostedMethod {
  readonly definition: MethodDefinition<unknown, unknown>;
  readonly handler: UntypedHandleCall;
  readonly maxRequestBytes: number;
}

/** What a handler sees of a call: of grpc-js's calls, the part that services such as health and reflection use. */
class CallSurface extends EventEmitter {
  readonly metadata = new Metadata();
  cancelled = false;
  request: unknown;
  readonly write: (message: unknown) => void;
  readonly end: () => void;

  constructor(write: (message: unknown) => void, end: () => void) {
    super();
    this.write = write;
    this.end = end;
  }
}

/** The longest time for which a timer of Node's runs. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A call of any kind of method, for handlers that were written for grpc-js. Slower than `UnaryCall`, which is for what is asked all the time. */
export class HostedCall implements Receiver {
  readonly #method: HostedMethod;
  readonly #stream: Stream;
  readonly #reader: MessageReader;
  readonly #surface: CallSurface;
  readonly #deadline: NodeJS.Timeout | undefined;
  #messages = 0;
  #hasHead = false;

  constructor(method: HostedMethod, stream: Stream, { encoding, timeoutMs }: CallHead) {
    this.#method = method;
    this.#stream = stream;
    this.#surface = new CallSurface(
      (message) => this.#write(message),
      () => this.#succeed(),
    );
    this.#reader = new MessageReader(encoding, method.maxRequestBytes, (bytes, from, to) =>
      this.#take(bytes, from, to),
    );
    if (timeoutMs <= LONGEST_TIMER_MS) this.#deadline = setTimeout(() => this.#expire(), timeoutMs).unref();
    stream.isOpenEnded = method.definition.requestStream;
    if (stream.isOpenEnded) this.#invoke();
  }

  data(bytes: Buffer, from: number, to: number): void {
    try {
      this.#reader.push(bytes, from, to);
    } catch (error) {
      this.#fail(failureOf(error));
    }
  }

  end(): void {
    if (this.#reader.pending > 0)
      return this.#fail({ code: status.INTERNAL, details: 'the request ends in the middle of a message' });
    if (this.#method.definition.requestStream) this.#surface.emit('end');
    else if (this.#messages === 1) this.#tryToInvoke();
    else this.#fail({ code: status.UNIMPLEMENTED, details: `the method takes one message, got ${this.#messages}` });
  }

  cancelled(): void {
    clearTimeout(this.#deadline);
    this.#surface.cancelled = true;
    this.#surface.emit('cancelled');
  }

  #take(bytes: Buffer, from: number, to: number): void {
    const { requestDeserialize, requestStream } = this.#method.definition;
    this.#messages++;
    if (requestStream) this.#stream.used();
    this.#surface.request = requestDeserialize(Buffer.from(bytes.subarray(from, to)));
    if (requestStream) this.#surface.emit('data', this.#surface.request);
  }

  /** A bug of a handler's ends its call, not the connection. */
  #tryToInvoke(): void {
    try {
      this.#invoke();
    } catch {
      this.#fail({ code: status.INTERNAL, details: 'internal error' });
    }
  }

  #invoke(): void {
    const { definition, handler } = this.#method;
    const surface = this.#surface as unknown as ServerDuplexStream<unknown, unknown>; // as far as handlers here go
    if (definition.requestStream || definition.responseStream)
      return (handler as handleBidiStreamingCall<unknown, unknown>)(surface); // one that streams takes the call alone
    const unary = handler as handleUnaryCall<unknown, unknown>; // by its definition
    unary(Object.assign(surface, { request: this.#surface.request }), (error, message) => {
      if (error) return this.#fail({ code: error.code ?? status.UNKNOWN, details: error.details ?? '' });
      this.#write(message);
      this.#succeed();
    });
  }

  #write(message: unknown): void {
    if (!this.#hasHead) this.#stream.head(HEAD);
    this.#hasHead = true;
    const bytes = this.#method.definition.responseSerialize(message);
    const framed = Buffer.allocUnsafe(PREFIX_BYTES + bytes.length);
    framed[0] = 0;
    framed.writeUInt32BE(bytes.length, 1);
    framed.set(bytes, PREFIX_BYTES);
    this.#stream.data(framed);
  }

  #succeed(): void {
    clearTimeout(this.#deadline);
    if (!this.#hasHead) this.#stream.head(HEAD);
    this.#stream.end(OK_TRAILERS);
  }

  #fail(failure: Failure): void {
    clearTimeout(this.#deadline);
    if (this.#hasHead) this.#stream.end(failureTrailers(failure));
    else this.#stream.headOnly(failureHead(failure));
  }

  #expire(): void {
    this.#fail({ code: status.DEADLINE_EXCEEDED, details: 'Deadline exceeded' });
    this.cancelled();
  }
}
