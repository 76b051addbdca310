import { EventEmitter } from 'node:events';
import type {
  handleBidiStreamingCall,
  handleUnaryCall,
  MethodDefinition,
  ServerDuplexStream,
  ServerUnaryCall,
  UntypedHandleCall,
} from '@grpc/grpc-js';
import { status } from '../../grpc-status.ts';
import type { Receiver, Stream } from '../h2/stream.ts';
import { sideLimits } from '../side-limits.ts';
import { type Failure, failureHead, failureTrailers, HEAD, OK_TRAILERS } from './answers.ts';
import type { CallHead } from './call-head.ts';
import { GrpcError } from './grpc-error.ts';
import { MessageReader, PREFIX_BYTES } from './message-reader.ts';
import { failureOf } from './unary-call.ts';

/** A method as grpc-js has it, and the handler that was written for it. Methods where only the client streams are not supported. */
export interface HostedMethod {
  readonly definition: MethodDefinition<unknown, unknown>;
  readonly handler: UntypedHandleCall;
}

/**
 * Bytes that an open call is charged for besides its stream. Of 1,000 calls each took 1.6 KB of heap (Watch) or 3.1 KB (reflection with a deadline), stream
 * included.
 */
export const HOSTED_CALL_BYTES = 4_096;

/** The longest time for which a timer of Node's runs. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const INTERNAL: Failure = { code: status.INTERNAL, details: 'internal error' };
const DEADLINE: Failure = { code: status.DEADLINE_EXCEEDED, details: 'Deadline exceeded' };
const UNREAD = 'the client does not read its answers';

/** What a handler sees of a call: of grpc-js's calls, the part that health and reflection use. */
class CallSurface extends EventEmitter {
  cancelled = false;
  /** The message of a method that takes one, until the handler has returned. */
  request: unknown;
  readonly write: (message: unknown) => void;
  readonly end: () => void;

  constructor(write: (message: unknown) => void, end: () => void) {
    super();
    this.write = write;
    this.end = end;
  }
}

/**
 * A call of a side service, whose handler was written for grpc-js. Slower than `UnaryCall`, and held to `sideLimits`. The handler's call emits
 * `cancelled` however it ends, unless the handler has ended it; what the handler writes after the end is dropped.
 */
export class HostedCall implements Receiver {
  readonly #method: HostedMethod;
  readonly #stream: Stream;
  /** Undefined when the call is over. */
  #reader: MessageReader | undefined;
  readonly #surface: CallSurface;
  #deadline: NodeJS.Timeout | undefined;
  /** The message of a method that takes one, until its handler is called. */
  #request: { readonly message: unknown; readonly bytes: number } | undefined;
  #chargedBytes = 0;
  #unreadMessages = 0;
  #hasHead = false;
  #isOver = false;

  constructor(method: HostedMethod, stream: Stream, { encoding, timeoutMs }: CallHead) {
    this.#method = method;
    this.#stream = stream;
    this.#surface = new CallSurface(
      (message) => this.#write(message),
      () => this.#succeed(),
    );
    this.#reader = new MessageReader(encoding, sideLimits.maxMessageBytes, (bytes, from, to) =>
      this.#take(bytes, from, to),
    );
    stream.peer.sideStreams++;
    stream.charge(HOSTED_CALL_BYTES);
    if (stream.isOver)
      this.#close(); // there was no room for it
    else this.#open(timeoutMs);
  }

  #open(timeoutMs: number): void {
    if (timeoutMs <= LONGEST_TIMER_MS) this.#deadline = setTimeout(() => this.#abort(DEADLINE), timeoutMs).unref();
    this.#stream.isOpenEnded = this.#method.definition.requestStream;
    if (this.#stream.isOpenEnded) this.#invoke();
  }

  data(bytes: Buffer, from: number, to: number): void {
    if (!this.#reader) return;
    try {
      this.#reader.push(bytes, from, to);
    } catch (error) {
      this.#abort(failureOf(error));
    }
    this.#chargeMessages();
  }

  end(bytes: Buffer, from: number, to: number): void {
    this.data(bytes, from, to);
    if (!this.#reader) return; // `data` has ended the call
    if (this.#reader.pending > 0)
      return this.#abort({ code: status.INTERNAL, details: 'the request ends in the middle of a message' });
    if (this.#method.definition.requestStream) return this.#emit('end');
    if (this.#request) return this.#invoke(this.#request.message);
    this.#abort({ code: status.UNIMPLEMENTED, details: 'the method takes one message, got none' });
  }

  cancelled(): void {
    if (this.#isOver) return;
    this.#close();
    this.#notifyCancelled();
  }

  #take(bytes: Buffer, from: number, to: number): void {
    if (this.#isOver) return;
    const { requestDeserialize, requestStream } = this.#method.definition;
    if (this.#request) throw new GrpcError(status.UNIMPLEMENTED, 'the method takes one message, got more');
    if (requestStream && this.#stream.peer.unreadBytes() > sideLimits.maxUnreadBytes)
      throw new GrpcError(
        status.RESOURCE_EXHAUSTED,
        `${UNREAD}: more than ${sideLimits.maxUnreadBytes} bytes of them wait`,
      );
    const message = requestDeserialize(Buffer.from(bytes.subarray(from, to)));
    if (!requestStream) {
      this.#request = { message, bytes: to - from };
      return;
    }
    this.#emit('data', message);
  }

  /** Charges what is kept of messages. The reader's buffer, however short, may keep a whole pool of Node's alive. */
  #chargeMessages(): void {
    if (!this.#reader) return; // the stream may be gone, and with it all that was charged
    const bytes = (this.#reader.pending > 0 ? Buffer.poolSize : 0) + (this.#request?.bytes ?? 0);
    if (bytes !== this.#chargedBytes) this.#stream.charge(bytes - this.#chargedBytes);
    this.#chargedBytes = bytes;
  }

  /** @param request  of a method that takes one message; not kept */
  #invoke(request?: unknown): void {
    this.#request = undefined;
    this.#chargeMessages();
    this.#surface.request = request;
    this.#guard(() => this.#callHandler());
    this.#surface.request = undefined;
  }

  #callHandler(): void {
    const { definition, handler } = this.#method;
    const surface = this.#surface as unknown as ServerDuplexStream<unknown, unknown> &
      ServerUnaryCall<unknown, unknown>; // as far as handlers here go
    if (definition.requestStream || definition.responseStream)
      return (handler as handleBidiStreamingCall<unknown, unknown>)(surface); // one that streams takes the call alone
    const unary = handler as handleUnaryCall<unknown, unknown>; // by its definition
    unary(surface, (error, message) => {
      if (error) return this.#fail({ code: error.code ?? status.UNKNOWN, details: error.details ?? '' });
      this.#write(message);
      this.#succeed();
    });
  }

  #emit(event: string, ...values: readonly unknown[]): void {
    this.#guard(() => void this.#surface.emit(event, ...values));
  }

  /** A bug of a handler's ends its call, not the connection. */
  #guard(action: () => void): void {
    try {
      action();
    } catch {
      this.#abort(INTERNAL);
    }
  }

  #write(message: unknown): void {
    if (this.#isOver) return;
    this.#unreadMessages = this.#stream.buffered.length > 0 ? this.#unreadMessages + 1 : 0;
    if (this.#unreadMessages >= sideLimits.maxUnreadMessages)
      return this.#abort({
        code: status.RESOURCE_EXHAUSTED,
        details: `${UNREAD}: ${sideLimits.maxUnreadMessages} of them wait`,
      });
    this.#guard(() => {
      const bytes = this.#method.definition.responseSerialize(message);
      const framed = Buffer.allocUnsafeSlow(PREFIX_BYTES + bytes.length); // the pool would outlive the rest of its slab
      framed[0] = 0;
      framed.writeUInt32BE(bytes.length, 1);
      framed.set(bytes, PREFIX_BYTES);
      if (!this.#hasHead) this.#stream.head(HEAD);
      this.#hasHead = true;
      this.#stream.data(framed);
    });
  }

  #succeed(): void {
    if (this.#isOver) return;
    this.#close();
    if (!this.#hasHead) this.#stream.head(HEAD);
    this.#stream.end(OK_TRAILERS);
  }

  #fail(failure: Failure): void {
    if (this.#isOver) return;
    this.#close();
    if (this.#hasHead) this.#stream.end(failureTrailers(failure));
    else this.#stream.headOnly(failureHead(failure));
  }

  /** Ends a call that its handler has not ended. */
  #abort(failure: Failure): void {
    if (this.#isOver) return;
    this.#fail(failure);
    this.#notifyCancelled();
  }

  #notifyCancelled(): void {
    this.#surface.cancelled = true;
    this.#emit('cancelled');
  }

  #close(): void {
    this.#isOver = true;
    clearTimeout(this.#deadline);
    this.#reader = undefined;
    this.#request = undefined;
    this.#stream.peer.sideStreams--;
  }
}
