import { monotonicMs } from '../../base/clock.ts';
import { RequestWork } from '../../base/request-work.ts';
import { type CallQueue, type Cost, EXPIRY_UNITS, type PendingCall } from '../bounds/call-queue.ts';
import type { LateCalls } from '../bounds/late-calls.ts';
import { giveBack, takeBuffer } from '../bounds/spare-buffers.ts';
import { uint32, writeUint32 } from '../http2/octets.ts';
import type { Peer, Receiver, Stream } from '../http2/stream.ts';
import { type Failure, failureHead, HEAD, OK_TRAILERS, refusalHead, tooLate } from './answers.ts';
import type { CallHead } from './call-head.ts';
import { unpackedBound } from './compression.ts';
import { GrpcError, status } from './grpc-status.ts';
import { MAX_REQUEST_BYTES, MessageReader, messageLength, PREFIX_BYTES, unpacked } from './message-reader.ts';

/** Admits calls, and counts those that are not answered in time. */
export interface Admission {
  /** Queue of calls that exceed the work of this turn of the event loop. */
  readonly queue: CallQueue;
  /** Calls that were not handled in time, to be passed to `countLate`. */
  readonly lateCalls: LateCalls;
  /** Status to reject the next call with, or undefined to admit it. Call once per call, as early as possible. */
  refusal(): Failure | undefined;
  /** Records a call that ended without an answer. */
  missed(
    by: 'late' | 'cancelled',
    call: Pick<UnaryCall<never>, 'header'> & { readonly connection?: Pick<Peer, 'address'> },
  ): void;
}

/** A unary method with its own decoder and encoder. */
export interface UnaryMethod<Q> {
  readonly overload: Admission;
  /** @throws Error if the octets are not a message of the method's type */
  readonly decode: (bytes: Buffer, from: number, to: number) => Q;
  /** Memory and work of a decoded request; `octets` is the size of its message. */
  readonly measureCost: (request: Q, octets: number) => Cost;
  /** Handles the call; must call `call.answer` or `call.fail` once. */
  readonly handle: (request: Q, call: UnaryCall<Q>) => void;
  /** Answers a late call if no work is needed for it. @returns whether it did. Absent: none is. */
  readonly handleLate?: (request: Q, call: UnaryCall<Q>) => boolean;
  /** Counts this number of equal requests that were not handled in time. */
  readonly countLate: (request: Q, times: number) => void;
  /** Called after each call that reached `handle` has been answered. */
  readonly onAnswered: (code: status, elapsedMs: number) => void;
}

/** Minimum message octets per unit of work. */
export const OCTETS_PER_UNIT = 32;
/** Fraction of its time after which a queued call is not handled, since its answer would be late. */
const HANDLED_FRACTION = 1 / 2;
/** Maximum time until a call is due; calls with later deadlines run in order of arrival. */
export const MAX_DUE_DELAY_MS = 1_000;
/** Memory of a copied message, besides its octets. */
const COPY_BYTES = 256;

/** One call of a unary method: reassembles its message, queues for its turn, answers, and enforces its deadline. */
export class UnaryCall<Q> implements Receiver, PendingCall {
  readonly #method: UnaryMethod<Q>;
  readonly #stream: Stream;
  readonly #head: CallHead;
  /** Reassembles the message if it does not arrive whole with the end of the request. */
  #reader: MessageReader | undefined;
  /** The complete message with its prefix, in a buffer that may be longer, while its end or its turn is awaited. */
  #message: Buffer | undefined;
  /** Memory charged for both. */
  #heldBytes = 0;
  /** Upper bound for its work, once it was queued. */
  #estimate: number | undefined;
  #isGone = false;
  #onGone: (() => void) | undefined;
  /** Memory charged for the decoded request. */
  #requestBytes = 0;
  completeAtMs = 0;
  readonly work = new RequestWork();
  /** Time spent in the queue. */
  #waitedMs = 0;

  constructor(method: UnaryMethod<Q>, stream: Stream, head: CallHead) {
    this.#method = method;
    this.#stream = stream;
    this.#head = head;
  }

  /** Time left until the caller's deadline at the start of handling. */
  get timeoutMs(): number {
    return this.#head.timeoutMs - this.#waitedMs;
  }

  get connection(): Peer {
    return this.#stream.peer;
  }

  get expiresAtMs(): number {
    return this.completeAtMs + this.#head.timeoutMs * HANDLED_FRACTION;
  }

  get dueAtMs(): number {
    return Math.min(this.expiresAtMs, this.completeAtMs + MAX_DUE_DELAY_MS);
  }

  get startedMs(): number {
    return this.completeAtMs + this.#waitedMs;
  }

  header(name: string): string | undefined {
    return this.#head.header(name);
  }

  get needsDetail(): boolean {
    return this.#head.needsDetail;
  }

  onGone(listener: () => void): void {
    if (this.#isGone) listener();
    else this.#onGone = listener;
  }

  data(bytes: Buffer, from: number, to: number): void {
    try {
      this.#reader ??= new MessageReader(MAX_REQUEST_BYTES, (...message) => this.#keep(...message));
      this.#reader.push(bytes, from, to);
      if (this.#message && this.#reader.pending > 0) throw secondMessage();
      this.#chargeHeld(this.#reader.heldBytes + (this.#message?.length ?? 0));
    } catch (error) {
      this.#refuse(decodeFailure(error));
    }
  }

  end(bytes: Buffer, from: number, to: number): void {
    try {
      if (!this.#reader && isWholeMessage(bytes, from, to)) return this.#complete(bytes, from, to);
      this.data(bytes, from, to);
      if (this.#stream.isOver) return; // `data` refused it
      this.#completeParts();
    } catch (error) {
      this.#refuse(decodeFailure(error));
    }
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    if (this.#message) throw secondMessage();
    this.#message = takeBuffer(to - from);
    bytes.copy(this.#message, 0, from, to);
  }

  #chargeHeld(bytes: number): void {
    if (bytes !== this.#heldBytes) this.#stream.charge(bytes - this.#heldBytes);
    this.#heldBytes = bytes;
  }

  /** @throws GrpcError if there is no message, or only a part of it */
  #completeParts(): void {
    const message = this.#message;
    if (this.#reader && this.#reader.pending > 0)
      throw new GrpcError(status.INTERNAL, 'the request ends in the middle of a message');
    if (!message) throw new GrpcError(status.UNIMPLEMENTED, 'the method takes one message, got none');
    this.#reader = undefined;
    this.#complete(message, 0, wholeLength(message));
    if (this.#estimate === undefined) this.#dropHeld(); // not queued
  }

  #complete(bytes: Buffer, from: number, to: number): void {
    messageLength(bytes, from, MAX_REQUEST_BYTES);
    this.#stream.isBusy = true;
    this.completeAtMs = this.#stream.peer.readAtMs;
    const { queue } = this.#method.overload;
    const octets = bytes[from] === 0 ? to - from : unpackedBound(this.#head.encoding, bytes, from + PREFIX_BYTES, to);
    const estimate = octets / OCTETS_PER_UNIT;
    if (queue.mayRun(estimate)) return queue.spend(this.#handle(bytes, from, to, estimate));
    if (!queue.canWait(this)) return this.#expire(bytes.subarray(from, to));
    if (!this.#message) this.#keep(bytes, from, to);
    this.#chargeHeld((this.#message?.length ?? 0) + COPY_BYTES);
    this.#estimate = estimate;
    queue.add(this, estimate);
  }

  run(nowMs: number, isLate = false): number {
    const message = this.#message;
    let units = EXPIRY_UNITS;
    if (message && !isLate) {
      this.#waitedMs = nowMs - this.completeAtMs;
      units = this.#handle(message, 0, wholeLength(message), this.#estimate ?? 0);
    } else this.#expire(message?.subarray(0, wholeLength(message)));
    this.#dropHeld();
    return units;
  }

  #expire(message: Buffer | undefined): void {
    if (message && this.#handleLate(message)) return;
    this.#method.overload.missed(this.#isGone ? 'cancelled' : 'late', this);
    if (message) this.#addLate(message);
    this.#stream.headOnly(refusalHead(this.#isGone ? cancelled : tooLate)); // sends nothing to a caller that is gone
  }

  #addLate(message: Buffer): void {
    this.#method.overload.lateCalls.add(message, (bytes, times) => this.#countLate(bytes, times));
  }

  /** @returns whether the call was answered */
  #handleLate(bytes: Buffer): boolean {
    const { handleLate, overload } = this.#method;
    const isOver = this.#isGone || monotonicMs() - this.completeAtMs >= this.#head.timeoutMs;
    if (!handleLate || isOver || !overload.lateCalls.mayAnswer(bytes.length)) return false;
    const request = this.#decodeLate(bytes);
    return request !== undefined && handleLate(request, this);
  }

  #countLate(bytes: Buffer, times: number): void {
    const request = this.#decodeLate(bytes);
    if (request !== undefined) this.#method.countLate(request, times);
  }

  /** Undefined if there is nothing to count. */
  #decodeLate(bytes: Buffer): Q | undefined {
    try {
      return this.#method.decode(...this.#unpacked(bytes, 0, bytes.length));
    } catch {
      return undefined;
    }
  }

  /** @returns units of work */
  #handle(bytes: Buffer, from: number, to: number, estimate: number): number {
    const { decode, measureCost, handle } = this.#method;
    let request: Q;
    let cost: Cost;
    try {
      const [message, start, end] = this.#unpacked(bytes, from, to);
      request = decode(message, start, end);
      cost = measureCost(request, end - start);
    } catch (error) {
      this.#refuse(decodeFailure(error));
      return Math.max(estimate, FAILURE_UNITS);
    }
    this.#requestBytes = cost.bytes;
    this.#stream.charge(cost.bytes);
    handle(request, this);
    return cost.units + this.work.units;
  }

  #unpacked(bytes: Buffer, from: number, to: number): ReturnType<typeof unpacked> {
    if (bytes[from] === 0) return [bytes, from + PREFIX_BYTES, to]; // on the hot path
    return unpacked([bytes, from, to], this.#head.encoding, MAX_REQUEST_BYTES);
  }

  cancelled(): void {
    this.#isGone = true;
    const message = this.#message;
    if (message && this.#estimate !== undefined) this.#addLate(message.subarray(0, wholeLength(message))); // it was queued
    this.#dropHeld();
    this.#onGone?.();
  }

  /** @param bytes  `PREFIX_BYTES` free octets, then the message, up to `length`; only used during the call */
  answer(bytes: Buffer, length: number): void {
    const elapsedMs = monotonicMs() - this.completeAtMs;
    if (elapsedMs > this.#head.timeoutMs || this.#isGone) return this.#miss(elapsedMs);
    bytes[0] = 0;
    writeUint32(bytes, 1, length - PREFIX_BYTES);
    this.#stream.charge(-this.#requestBytes);
    this.#stream.answer(HEAD, bytes, length, OK_TRAILERS);
    this.#method.onAnswered(status.OK, elapsedMs);
  }

  fail(failure: Failure): void {
    const elapsedMs = monotonicMs() - this.completeAtMs;
    this.#end(elapsedMs > this.#head.timeoutMs ? tooLate : failure, elapsedMs);
  }

  #miss(elapsedMs: number): void {
    this.#method.overload.missed(this.#isGone ? 'cancelled' : 'late', this);
    this.#end(this.#isGone ? cancelled : tooLate, elapsedMs);
  }

  #end(failure: Failure, elapsedMs: number): void {
    this.#refuse(failure);
    this.#method.onAnswered(failure.code, elapsedMs);
  }

  #dropHeld(): void {
    this.#reader?.release();
    this.#reader = undefined;
    if (this.#message) giveBack(this.#message);
    this.#message = undefined;
    this.#chargeHeld(0);
  }

  /** Answers with a failure, without notifying the method. */
  #refuse(failure: Failure): void {
    this.#dropHeld();
    this.#stream.headOnly(failureHead(failure));
  }
}

/** Minimum work of a message that cannot be decoded, which creating the error takes. */
export const FAILURE_UNITS = 2;

const cancelled: Failure = { code: status.CANCELLED, details: 'the caller cancelled' };

const secondMessage = (): GrpcError => new GrpcError(status.UNIMPLEMENTED, 'the method takes one message, got more');

/** Length of a message with its prefix, which is at the beginning of the buffer. */
const wholeLength = (message: Buffer): number => PREFIX_BYTES + uint32(message, 1);

const isWholeMessage = (bytes: Buffer, from: number, to: number): boolean =>
  to - from >= PREFIX_BYTES && uint32(bytes, from + 1) === to - from - PREFIX_BYTES;

/** The failure of a request that cannot be decoded. The caller is sent the reason, since the mistake is its own. */
export function decodeFailure(error: unknown): Failure {
  if (error instanceof GrpcError) return { code: error.code, details: error.message };
  const reason = error instanceof Error ? error.message : String(error);
  return { code: status.INTERNAL, details: `the request cannot be decoded: ${reason}` };
}
