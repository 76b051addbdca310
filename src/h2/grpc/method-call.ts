import { type CallSource, type Cost, EXPIRY_UNITS, type PendingCall } from '../bounds/call-queue.ts';
import { ownCopy } from '../bounds/own-copy.ts';
import { sideTurns } from '../http2/side-turns.ts';
import type { Receiver, Stream } from '../http2/stream.ts';
import { tooLate } from './answers.ts';
import type { CallHead } from './call-head.ts';
import { GrpcError, status } from './grpc-status.ts';
import { MessageReader, unpacked } from './message-reader.ts';
import { defaultMethodLimits, type Incoming, type Method, type MethodLimits } from './method.ts';
import { MethodAnswer, UNREAD } from './method-answer.ts';
import { decodeFailure, FAILURE_UNITS, MAX_DUE_DELAY_MS, OCTETS_PER_UNIT } from './unary-call.ts';

/**
 * Memory charged for an open call besides its stream. Together they take 1.2 KB of heap for a server stream, 2.3 KB for
 * a bidirectional one with a deadline, and several times as much in a process that traces requests, where Node keeps a
 * context for each timer and promise.
 */
const CALL_BYTES = 8_192;

/** Work per call or further message, in units of `sideTurns`; the call queue bounds that of methods with turns. */
const MESSAGE_UNITS = 100;
/** Work to unpack a message, however short. */
const UNPACK_UNITS = 150;
/** Unpacked octets of a stream's message per unit of work. */
const OCTETS_PER_SIDE_UNIT = 64;

/** Maximum delay of Node's timers. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * A call of a `Method`, slower than `UnaryCall` and bounded by the method's limits. The message of a unary or
 * server-streaming call is decoded only when it is the call's turn.
 */
export class MethodCall implements Receiver, PendingCall {
  readonly #method: Method;
  readonly #limits: MethodLimits;
  readonly #stream: Stream;
  readonly #answer: MethodAnswer;
  #reader: MessageReader | undefined;
  /** The handler of a bidirectional stream. */
  #incoming: Incoming<unknown> | undefined;
  #deadline: NodeJS.Timeout | undefined;
  /** The message of a unary or server-streaming call, until its handler is called. */
  #request: Buffer | undefined;
  completeAtMs = 0;
  /** Never, since a timer ends the call at its deadline. */
  readonly expiresAtMs = Number.POSITIVE_INFINITY;
  /** Whether the call waits for its turn or its handler; a cancelled call keeps its place in the queue until then. */
  #isBusy = false;
  /** Memory charged for the decoded request, until the handler has answered. */
  #requestBytes = 0;
  /** Memory charged for messages that are not decoded. */
  #chargedBytes = 0;
  /** Work for each message. */
  readonly #messageUnits: number;
  /** Messages received in this turn after the connection used up its share. */
  #earlyMessages = 0;
  #earlyTurn = 0;

  constructor(method: Method, stream: Stream, head: CallHead) {
    const { encoding, timeoutMs } = head;
    const hasTurns = method.kind !== 'bidi stream' && method.turns !== undefined;
    this.#method = method;
    this.#limits = method.limits ?? defaultMethodLimits;
    this.#stream = stream;
    this.#answer = new MethodAnswer(method, stream, head, this);
    const { maxMessageBytes } = this.#limits;
    this.#reader = new MessageReader(maxMessageBytes, (...message) =>
      this.#take(...unpacked(message, encoding, maxMessageBytes)),
    );
    this.#messageUnits = (hasTurns ? 0 : MESSAGE_UNITS) + (encoding === 'identity' ? 0 : UNPACK_UNITS);
    stream.peer.sideStreams++;
    this.#spend(); // before the message, which may be invalid
    stream.charge(CALL_BYTES);
    if (stream.isOver)
      this.#answer.cancel(); // the charge reset the connection
    else this.#open(timeoutMs);
  }

  #open(timeoutMs: number): void {
    const method = this.#method;
    if (timeoutMs <= MAX_TIMER_MS) this.#deadline = setTimeout(() => this.#answer.abort(tooLate), timeoutMs).unref();
    if (method.kind !== 'bidi stream') return;
    this.#stream.isOpenEnded = true;
    this.#guard(() => {
      this.#incoming = method.handle(this.#answer);
    });
    this.#answer.head = undefined;
  }

  get connection(): CallSource {
    return this.#stream.peer;
  }

  get dueAtMs(): number {
    return this.completeAtMs + MAX_DUE_DELAY_MS;
  }

  data(bytes: Buffer, from: number, to: number): void {
    if (!this.#reader) return;
    try {
      this.#reader.push(bytes, from, to);
    } catch (error) {
      this.#answer.abort(decodeFailure(error));
    }
    this.#chargeMessages();
  }

  end(bytes: Buffer, from: number, to: number): void {
    this.data(bytes, from, to);
    if (!this.#reader) return; // `data` has ended the call
    if (this.#reader.pending > 0)
      return this.#answer.abort({ code: status.INTERNAL, details: 'the request ends in the middle of a message' });
    if (this.#method.kind === 'bidi stream') return this.#guard(() => this.#incoming?.end());
    if (this.#request) return this.#complete(this.#request.length);
    this.#answer.abort({ code: status.UNIMPLEMENTED, details: 'the method takes one message, got none' });
  }

  cancelled(): void {
    this.#answer.cancel();
  }

  #take(bytes: Buffer, from: number, to: number): void {
    if (this.#answer.isOver) return;
    if (this.#request) throw new GrpcError(status.UNIMPLEMENTED, 'the method takes one message, got more');
    if (this.#method.kind !== 'bidi stream') {
      this.#request = ownCopy(bytes, from, to);
      return;
    }
    // an error also stops reading further messages
    const { maxUnreadBytes } = this.#limits;
    if (this.#stream.peer.unreadBytes() > maxUnreadBytes)
      throw tooMuch(`${UNREAD}: more than ${maxUnreadBytes} bytes are unread`);
    if (this.#isTooEarly(to - from)) throw tooMuch('too many messages at once: wait for answers');
    const message = this.#method.decode(ownCopy(bytes, from, to));
    this.#guard(() => this.#incoming?.message(message));
  }

  /** @param octets  of a message, unpacked */
  #isTooEarly(octets: number): boolean {
    const shouldWait = this.#spend(octets);
    if (!shouldWait || this.#earlyTurn !== sideTurns.number) this.#earlyMessages = 0;
    this.#earlyTurn = sideTurns.number;
    return shouldWait && ++this.#earlyMessages > this.#limits.maxEarlyMessages;
  }

  /**
   * @param octets  of a message, unpacked
   * @returns whether further input from the client has to wait
   */
  #spend(octets = 0): boolean {
    const units = this.#messageUnits + octets / OCTETS_PER_SIDE_UNIT;
    return units > 0 && this.#stream.peer.spendSide(units);
  }

  /** Charges the memory of messages that are not handled. */
  #chargeMessages(): void {
    if (!this.#reader) return; // the stream, and its charge, may be gone
    const bytes = this.#reader.heldBytes + (this.#request?.length ?? 0);
    if (bytes !== this.#chargedBytes) this.#stream.charge(bytes - this.#chargedBytes);
    this.#chargedBytes = bytes;
  }

  /** Handles or queues the call once its message is complete. */
  #complete(octets: number): void {
    const method = this.#method;
    if (method.kind === 'bidi stream' || !method.turns) return void this.run();
    const { overload, estimate = octets / OCTETS_PER_UNIT } = method.turns;
    const { queue } = overload;
    this.completeAtMs = this.#stream.peer.readAtMs;
    this.#isBusy = true;
    this.#stream.isBusy = true;
    if (queue.mayRun(estimate)) queue.spend(this.run());
    else queue.add(this, estimate);
  }

  run(): number {
    const method = this.#method;
    const bytes = this.#request;
    if (!bytes || method.kind === 'bidi stream') {
      this.onAnswered(); // the caller cancelled, or its deadline has passed
      return EXPIRY_UNITS;
    }
    this.#request = undefined;
    this.#chargeMessages();
    let request: unknown;
    let units = 0;
    try {
      request = method.decode(bytes);
      units = this.#chargeRequest(method.turns?.measureCost(request, bytes.length));
    } catch (error) {
      this.onAnswered();
      this.#answer.abort(decodeFailure(error));
      return FAILURE_UNITS;
    }
    const answer = this.#answer;
    const isReset = answer.isOver; // by the charge
    if (!isReset) this.#guard(() => method.handle(request, answer));
    if (isReset || method.kind === 'server stream') this.onAnswered();
    answer.head = undefined;
    return units;
  }

  /** @returns the units of work */
  #chargeRequest(cost: Cost | undefined): number {
    if (!cost) return 0;
    this.#requestBytes = cost.bytes;
    this.#stream.charge(cost.bytes);
    return cost.units;
  }

  /** Releases the call's place on the connection, since its handler has answered or will not be called. */
  onAnswered(): void {
    if (!this.#isBusy) return;
    this.#isBusy = false;
    if (!this.#answer.isOver) {
      this.#stream.charge(-this.#requestBytes);
      this.#stream.isBusy = false;
    } else {
      this.#stream.peer.sideStreams--;
      if (this.#stream.isBusy) this.#stream.reset(); // not sent
    }
  }

  onOver(): void {
    clearTimeout(this.#deadline);
    this.#reader?.release();
    this.#reader = undefined;
    this.#request = undefined;
    if (!this.#isBusy) this.#stream.peer.sideStreams--;
  }

  #guard(action: () => void): void {
    try {
      action();
    } catch {
      this.#answer.abortAfterBug();
    }
  }
}

const tooMuch = (details: string): GrpcError => new GrpcError(status.RESOURCE_EXHAUSTED, details);
