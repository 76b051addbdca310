import type { Cost } from '../bounds/call-queue.ts';
import type { status } from './grpc-status.ts';
import type { Admission } from './unary-call.ts';

/** The transport-independent interface of methods and their handlers. */

/** A method whose messages have the types Q and R. Client-streaming methods are not supported. */
export type Method<Q = unknown, R = unknown> = SingleRequestMethod<Q, R> | BidiMethod<Q, R>;

interface MethodBase<Q, R> {
  /** `/package.Service/Method` */
  readonly path: string;
  /**
   * Reads a message.
   *
   * @param bytes  owned by the message, which may keep parts of it
   * @throws Error if the octets are not a message of this type
   */
  decode(bytes: Buffer): Q;
  encode(message: R): Buffer;
  /** Default: `defaultMethodLimits`. */
  readonly limits?: MethodLimits;
}

/** A method whose request is one message. */
interface SingleRequestMethod<Q, R> extends MethodBase<Q, R> {
  readonly kind: 'unary' | 'server stream';
  /** Queueing of calls; absent to handle each as soon as its request is complete. */
  readonly turns?: MethodTurns<Q>;
  /** Handles a call. A unary method must send one message and end the call, or fail it, even after `onGone`. */
  handle(request: Q, call: OpenCall<R>): void;
}

/** A method whose client and server send any number of messages. */
interface BidiMethod<Q, R> extends MethodBase<Q, R> {
  readonly kind: 'bidi stream';
  handle(call: OpenCall<R>): Incoming<Q>;
}

/** Receives the messages of a client until the call is over. */
export interface Incoming<Q> {
  message(message: Q): void;
  /** Called after the client's last message; the handler still has to end the call. */
  end(): void;
}

/** A call, as its handler sees it. Once it is over, all methods but `onGone` do nothing. */
export interface OpenCall<R = unknown> {
  send(message: R): void;
  /** Ends the call with OK. */
  end(): void;
  fail(code: status, details: string): void;
  /** Time left until the caller's deadline; Infinity without one. */
  timeLeftMs(): number;
  /** A header by its lower-case name, while `handle` runs; repeated headers are joined with commas. */
  header(name: string): string | undefined;
  /** Charges memory to the connection until the call is over; negative: releases it. */
  charge(bytes: number): void;
  /**
   * Calls the listener once when the call ends before its handler ended it, because it was cancelled, late or beyond a
   * limit, or lost its connection; immediately if that has happened. A second listener replaces the first.
   */
  onGone(listener: () => void): void;
}

/** Limits on the messages of a method; a call that exceeds one fails with RESOURCE_EXHAUSTED. */
export interface MethodLimits {
  /** Message size, before and after decompression. */
  readonly maxMessageBytes: number;
  /** Unread output of a connection, checked when a message of a bidirectional stream arrives. */
  readonly maxUnreadBytes: number;
  /** Messages of a call that wait for the client's flow-control windows. */
  readonly maxUnreadMessages: number;
  /**
   * Messages of a bidirectional stream in one turn of the event loop beyond the share of its connection. Infinity suits
   * handlers that only store messages and handle them in slices.
   */
  readonly maxEarlyMessages: number;
}

export const defaultMethodLimits: MethodLimits = {
  maxMessageBytes: 4_096,
  maxUnreadBytes: 65_536,
  maxUnreadMessages: 16,
  maxEarlyMessages: 16,
};

/** Queueing of costly methods, whose calls wait undecoded in the queue that they share with `UnaryMethod`. */
export interface MethodTurns<Q = unknown> {
  readonly overload: Pick<Admission, 'queue' | 'refusal'>;
  /** Memory and work of a decoded message. @param octets  its size */
  measureCost(message: Q, octets: number): Cost;
  /** Upper bound for a call's work, in units of the queue; default: derived from the size of its message. */
  readonly estimate?: number;
}
