import { EventEmitter } from 'node:events';
import type {
  handleBidiStreamingCall,
  handleUnaryCall,
  MethodDefinition,
  ServerDuplexStream,
  ServerUnaryCall,
  UntypedHandleCall,
} from '@grpc/grpc-js';
import { type CallSource, type Cost, EXPIRY_UNITS, type PendingCall } from '../bounds/call-queue.ts';
import { ownCopy } from '../bounds/own-copy.ts';
import { sideTurns } from '../http2/side-turns.ts';
import type { Receiver, Stream } from '../http2/stream.ts';
import { type Failure, failureTrailers, HEAD, OK_TRAILERS, refusalHead } from './answers.ts';
import type { CallHead } from './call-head.ts';
import { GrpcError } from './grpc-error.ts';
import { status } from './grpc-status.ts';
import { MessageReader, PREFIX_BYTES } from './message-reader.ts';
import { type Admission, FAILURE_UNITS, failureOf, LONGEST_WAIT_MS, OCTETS_PER_UNIT } from './unary-call.ts';

/** Bounds of the messages of a method; see `sideLimits`. */
export interface HostedLimits {
  readonly maxMessageBytes: number;
  readonly maxUnreadBytes: number;
  readonly maxUnreadMessages: number;
  /** Handlers are given `HostedControls`. */
  readonly hasControls?: boolean;
  /** Handlers only keep the messages of a stream, and handle them in slices: any number may be in one frame. */
  readonly isSliced?: boolean;
  /** Of methods that decide: their calls take turns with all others that do. */
  readonly turns?: HostedTurns;
}

/** What methods that decide share with `UnaryMethod`. */
interface HostedTurns {
  readonly overload: Pick<Admission, 'queue' | 'refusal'>;
  /** Memory and work of a decoded message. @param octets  its size */
  readonly costOf: (message: unknown, octets: number) => Cost;
  /** Upper bound for a call's work, in units; undefined: by the octets of its message. */
  readonly estimate?: number;
}

/** What a handler can do with its call here, besides what grpc-js offers. */
export interface HostedControls {
  /** A header by its lower-case name, while the handler is called; repeated headers are joined with commas. */
  header(name: string): string | undefined;
  /** Charges memory to the connection until the call ends; negative: releases it. */
  charge(bytes: number): void;
  fail(code: status, details: string): void;
}

/** A method in grpc-js's terms, with its handler. Client-streaming methods are not supported. */
interface HostedMethod {
  readonly limits: HostedLimits;
  readonly definition: MethodDefinition<unknown, unknown>;
  readonly handler: UntypedHandleCall;
}

/**
 * Memory charged for an open call besides its stream. Measured over 1,000 calls with their streams, a call took 2.1 KB
 * of heap (Watch) or 3.4 KB (reflection with a deadline), and up to 9.3 KB in a process that has traced requests, where
 * Node keeps a context for each timer and promise.
 */
export const HOSTED_CALL_BYTES = 8_192;

/** Work for a call or a further message, in units of `sideTurns`; of methods that decide, the call queue bounds it. */
const MESSAGE_UNITS = 100;
/** Work to unpack a message, however short. */
const UNPACK_UNITS = 150;
/** Octets of a stream's message, unpacked, that take as long as a unit. */
const OCTETS_PER_SIDE_UNIT = 64;
/** Messages of a stream that may be in one frame beyond the share of its connection. */
const MAX_EARLY_MESSAGES = 16;

/** Made once, as `unreadError`. */
const TOO_EARLY = new GrpcError(status.RESOURCE_EXHAUSTED, 'too many messages at once: wait for answers');

/** The longest delay of Node's timers. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const INTERNAL: Failure = { code: status.INTERNAL, details: 'internal error' };
const DEADLINE: Failure = { code: status.DEADLINE_EXCEEDED, details: 'Deadline exceeded' };
const UNREAD = 'the client does not read its answers';

const unreadErrors = new WeakMap<HostedLimits, GrpcError>();

/** Made once, with its stack: a client that does not read may have thousands of calls refused in a turn. */
function unreadError(limits: HostedLimits): GrpcError {
  const known = unreadErrors.get(limits);
  if (known) return known;
  const details = `${UNREAD}: more than ${limits.maxUnreadBytes} bytes are unread`;
  const error = new GrpcError(status.RESOURCE_EXHAUSTED, details);
  unreadErrors.set(limits, error);
  return error;
}

/** The part of grpc-js's call objects that the handlers of health and reflection use. */
class CallSurface extends EventEmitter {
  cancelled = false;
  /** The request of a unary or server-streaming call, until the handler has returned. */
  request: unknown;
  readonly write: (message: unknown) => void;
  readonly end: () => void;
  readonly controls: HostedControls | undefined;

  constructor(write: (message: unknown) => void, end: () => void, controls: HostedControls | undefined) {
    super();
    this.write = write;
    this.end = end;
    this.controls = controls;
  }
}

/**
 * A call of a side service, whose handler was written for grpc-js. Slower than `UnaryCall`, and bound by `sideLimits`.
 * The call emits `cancelled` unless the handler ended it; writes after the end are dropped.
 * The message of a unary or server-streaming call is decoded when it is the call's turn, not before.
 */
export class HostedCall implements Receiver, PendingCall {
  readonly #method: HostedMethod;
  readonly #stream: Stream;
  /** Undefined once the call is over. */
  #reader: MessageReader | undefined;
  readonly #surface: CallSurface;
  #deadline: NodeJS.Timeout | undefined;
  /** While a handler with controls is called. */
  #head: CallHead | undefined;
  /** The request of a unary or server-streaming call, until its handler is called. */
  #request: Buffer | undefined;
  completeAtMs = 0;
  /** The timer of its deadline ends it. */
  readonly expiresAtMs = Number.POSITIVE_INFINITY;

  get dueAtMs(): number {
    return this.completeAtMs + LONGEST_WAIT_MS;
  }

  /** The call waits for its turn or its handler. If it is cancelled, it keeps its place in the queue until then. */
  #isBusy = false;
  /** Memory charged for the decoded request, until the handler has answered. */
  #requestBytes = 0;
  #chargedBytes = 0;
  #unreadMessages = 0;
  #hasHead = false;
  #isOver = false;
  /** Work for each message. */
  readonly #messageUnits: number;
  /** Messages that have come in this turn since the connection should wait. */
  #earlyMessages = 0;
  #earlyTurn = 0;

  constructor(method: HostedMethod, stream: Stream, head: CallHead) {
    const { encoding, timeoutMs } = head;
    this.#method = method;
    this.#stream = stream;
    this.#surface = new CallSurface(
      (message) => this.#write(message),
      () => this.#succeed(),
      method.limits.hasControls ? this.#controls() : undefined,
    );
    if (method.limits.hasControls) this.#head = head;
    this.#reader = new MessageReader(encoding, method.limits.maxMessageBytes, (bytes, from, to) =>
      this.#take(bytes, from, to),
    );
    this.#messageUnits = (method.limits.turns ? 0 : MESSAGE_UNITS) + (encoding === 'identity' ? 0 : UNPACK_UNITS);
    stream.peer.sideStreams++;
    this.#spend(); // before the message: it may turn out not to be valid
    stream.charge(HOSTED_CALL_BYTES);
    if (stream.isOver)
      this.#close(); // the charge reset the connection
    else this.#open(timeoutMs);
    this.#head = undefined;
  }

  #controls(): HostedControls {
    return {
      header: (name) => this.#head?.header(name),
      charge: (bytes) => {
        if (!this.#isOver) this.#stream.charge(bytes);
      },
      fail: (code, details) => this.#fail({ code, details }),
    };
  }

  #open(timeoutMs: number): void {
    if (timeoutMs <= LONGEST_TIMER_MS) this.#deadline = setTimeout(() => this.#abort(DEADLINE), timeoutMs).unref();
    this.#stream.isOpenEnded = this.#method.definition.requestStream;
    if (this.#stream.isOpenEnded) this.#guard(() => this.#callHandler());
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
    if (this.#request) return this.#complete(this.#request.length);
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
    const { maxUnreadBytes } = this.#method.limits;
    if (requestStream && this.#stream.peer.unreadBytes() > maxUnreadBytes) throw unreadError(this.#method.limits); // ends the reading of further messages
    const copy = ownCopy(bytes, from, to);
    if (requestStream) {
      if (this.#isTooEarly(to - from)) throw TOO_EARLY;
      return this.#emit('data', requestDeserialize(copy));
    }
    this.#request = copy;
  }

  /** @param octets  of a message, unpacked */
  #isTooEarly(octets: number): boolean {
    const shouldWait = this.#spend(octets);
    if (!shouldWait || this.#earlyTurn !== sideTurns.number) this.#earlyMessages = 0;
    this.#earlyTurn = sideTurns.number;
    return shouldWait && !this.#method.limits.isSliced && ++this.#earlyMessages > MAX_EARLY_MESSAGES;
  }

  /**
   * @param octets  of a message, unpacked
   * @returns whether what else the client has sent should wait
   */
  #spend(octets = 0): boolean {
    const units = this.#messageUnits + octets / OCTETS_PER_SIDE_UNIT;
    return units > 0 && this.#stream.peer.spendSide(units);
  }

  /** Charges the memory of buffered messages. Even a short part of one may keep one of Node's pools alive. */
  #chargeMessages(): void {
    if (!this.#reader) return; // the stream, and its charge, may be gone
    const { pending } = this.#reader;
    // the buffer of a message that arrives in pieces is up to twice as large as what has arrived
    const bytes = (pending > 0 ? Math.max(Buffer.poolSize, 2 * pending) : 0) + (this.#request?.length ?? 0);
    if (bytes !== this.#chargedBytes) this.#stream.charge(bytes - this.#chargedBytes);
    this.#chargedBytes = bytes;
  }

  /** The request has ended, and with it its only message. */
  #complete(octets: number): void {
    const { turns } = this.#method.limits;
    if (!turns) return void this.run();
    const { queue } = turns.overload;
    const estimate = turns.estimate ?? octets / OCTETS_PER_UNIT;
    this.completeAtMs = this.#stream.peer.readAtMs;
    this.#isBusy = true;
    this.#stream.isBusy = true;
    if (queue.mayRun(estimate)) queue.spend(this.run());
    else queue.add(this, estimate);
  }

  run(): number {
    const bytes = this.#request;
    if (!bytes) {
      this.#release(); // the caller cancelled, or its deadline has passed
      return EXPIRY_UNITS;
    }
    this.#request = undefined;
    this.#chargeMessages();
    let units = 0;
    try {
      this.#surface.request = this.#method.definition.requestDeserialize(bytes);
      units = this.#chargeRequest(bytes.length);
    } catch (error) {
      this.#release();
      this.#abort(failureOf(error));
      return FAILURE_UNITS;
    }
    if (this.#isOver)
      this.#release(); // the charge reset the connection
    else this.#guard(() => this.#callHandler());
    this.#surface.request = undefined;
    return units;
  }

  /** @returns the units of work */
  #chargeRequest(octets: number): number {
    const cost = this.#method.limits.turns?.costOf(this.#surface.request, octets);
    if (!cost) return 0;
    this.#requestBytes = cost.bytes;
    this.#stream.charge(cost.bytes);
    return cost.units;
  }

  expire(): number {
    return this.run();
  }

  get connection(): CallSource {
    return this.#stream.peer.source;
  }

  /** Its handler has answered, or is not called: a cancelled call gives up its place among the connection's. */
  #release(): void {
    if (!this.#isBusy) return;
    this.#isBusy = false;
    if (!this.#isOver) {
      this.#stream.charge(-this.#requestBytes);
      this.#stream.isBusy = false;
    } else {
      this.#stream.peer.sideStreams--;
      if (this.#stream.isBusy) this.#stream.reset(); // not sent
    }
  }

  #callHandler(): void {
    const { definition, handler } = this.#method;
    const surface = this.#surface as unknown as ServerDuplexStream<unknown, unknown> &
      ServerUnaryCall<unknown, unknown>; // the handlers here use no more of it
    if (definition.requestStream || definition.responseStream)
      return (handler as handleBidiStreamingCall<unknown, unknown>)(surface); // streaming handlers take only the call
    const unary = handler as handleUnaryCall<unknown, unknown>; // by its definition
    unary(surface, (error, message) => {
      this.#release();
      if (error) return this.#fail({ code: error.code ?? status.UNKNOWN, details: error.details ?? '' });
      this.#write(message);
      this.#succeed();
    });
  }

  #emit(event: string, ...values: readonly unknown[]): void {
    this.#guard(() => void this.#surface.emit(event, ...values));
  }

  /** A bug in a handler ends its call, not the connection. */
  #guard(action: () => void): void {
    try {
      action();
    } catch {
      this.#release();
      this.#abort(INTERNAL);
    }
  }

  #write(message: unknown): void {
    if (this.#isOver) return;
    this.#unreadMessages = this.#stream.buffered.length > 0 ? this.#unreadMessages + 1 : 0;
    const { maxUnreadMessages } = this.#method.limits;
    if (this.#unreadMessages >= maxUnreadMessages)
      return this.#abort({
        code: status.RESOURCE_EXHAUSTED,
        details: `${UNREAD}: ${maxUnreadMessages} messages are unread`,
      });
    this.#guard(() => {
      const bytes = this.#method.definition.responseSerialize(message);
      // a pooled buffer would keep its whole pool alive
      const framed = Buffer.allocUnsafeSlow(PREFIX_BYTES + bytes.length);
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
    else this.#stream.headOnly(refusalHead(failure));
  }

  /** Fails a call that its handler has not ended. */
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
    this.#reader?.release();
    this.#reader = undefined;
    this.#request = undefined;
    if (!this.#isBusy) this.#stream.peer.sideStreams--;
  }
}
