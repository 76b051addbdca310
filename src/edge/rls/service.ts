import { monotonicMs } from '../../base/clock.ts';
import type { JsonObject } from '../../base/json.ts';
import { after, type Eventual } from '../../base/later.ts';
import { type RequestWork, TooCostly } from '../../base/request-work.ts';
import { StoreUnavailable } from '../../engine/backends/backend.ts';
import {
  type Answer,
  type Decider,
  decide,
  decideKnown,
  InvalidRequest,
  RulesNotLoaded,
} from '../../engine/decide/decide.ts';
import { createRefusal, type Refusal } from '../../engine/decide/refusal.ts';
import type { Failure } from '../../h2/grpc/answers.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { PeerAddress } from '../../h2/listen/listener.ts';
import type { WireStruct } from '../../protobuf/struct.ts';
import { decodeRequest, encodeAnswer } from '../wire/codec.ts';
import type { WireHeader, WireRequest, WireResponse } from '../wire/wire.ts';
import { createDetail } from './detail.ts';

/** The outcome of a call: a response, or a gRPC status with the reason for the failure. */
export type Outcome<R> = { readonly response: R } | { readonly error: GrpcStatus };
export type CallOutcome = Outcome<WireResponse>;

/** Details sent to callers for bugs in this service, whose cause is only logged. */
export const INTERNAL_ERROR = 'internal error';

export type GrpcStatus = Failure;

/** The caller of a request, as seen by the transport. */
export interface Caller {
  /** Time left until the caller's deadline; `Infinity` without one. */
  readonly timeoutMs: number;
  /** Time to which `timeoutMs` refers, on the clock of `performance.now()`; default: now. */
  readonly startedMs?: number;
  /** A request header by its lower-case name; repeated headers are joined with commas. */
  header(name: string): string | undefined;
  /** Work of the call, which all requests of a batch share. */
  readonly work: RequestWork;
  /** Whether the caller sent `x-weir-detail: 1`. */
  readonly needsDetail?: boolean;
  /** Identity of its connection, or of the call where the transport knows no connections. */
  readonly connection?: {
    /** The other end; undefined on unix sockets. */
    readonly address: PeerAddress | undefined;
  };
  /** Calls the listener once if the caller cancels, or at once if it has. Absent if the transport does not tell. */
  onGone?(listener: () => void): void;
}

/** The Rate Limit Service, independent of the transport. */
export interface RlsService {
  /**
   * Answers one request, after a delay if its rule shapes traffic. Never throws or rejects. Without a wait, the
   * request is answered before this returns.
   *
   * @param reply  called once with the outcome, before observers are notified
   */
  shouldRateLimit(request: WireRequest, caller: Caller, reply: (outcome: CallOutcome) => void): PromiseLike<void>;
}

/** Notified of each decision after the answer was sent, or immediately for a delayed one. */
export interface Observer {
  answered(request: WireRequest, answer: Answer, caller: Caller): void;
  /**
   * @param cause  what was thrown; a bug in this service if the status is INTERNAL
   * @param call   the call that failed; absent if it had been answered
   */
  failed(status: GrpcStatus, cause: unknown, call?: FailedCall): void;
}

interface FailedCall {
  readonly request: WireRequest;
  readonly caller: Caller;
}

/**
 * The reason why a call got no decision.
 *
 * late       it waited too long for a timely answer, or its answer was late
 * cancelled  its caller gave up first
 * in_flight  MAX_IN_FLIGHT_CALLS was reached
 */
export type MissedBy = 'late' | 'cancelled' | 'in_flight';

/** Computes the headers and metadata of answers. */
export interface Extras {
  /** Computes the response headers of an answer. */
  readonly headers: (answer: Answer) => readonly WireHeader[];
  /** Computes an answer's `dynamic_metadata` for the proxy, if any. */
  readonly metadata: (request: WireRequest, answer: Answer) => JsonObject | undefined;
  /** The most that a rule's response tells clients to wait. Default: unlimited. */
  readonly maxWaitMs?: number;
}

/** Number of answers that are delayed. */
interface Delayed {
  count: number;
}

/** A request, and the state needed to answer it. */
interface OpenCall extends FailedCall {
  readonly startedMs: number;
  readonly reply: (outcome: CallOutcome) => void;
}

export function createRlsService(
  decider: Decider,
  extras: Extras,
  observer: Observer,
  delayed: Delayed = { count: 0 },
): RlsService {
  const fail = (cause: unknown, call: OpenCall): void => {
    const error = toStatus(cause);
    try {
      call.reply({ error });
      observer.failed(error, cause, call);
    } catch (bug) {
      reportBug(observer, bug);
    }
  };
  const finish = (answer: Answer, call: OpenCall): void => {
    const { request, caller, reply } = call;
    let response: WireResponse;
    try {
      response = createResponse(request, answer, extras, detailFor(caller, answer));
    } catch (cause) {
      return fail(cause, call);
    }
    const { timeoutMs } = caller;
    const delayMs = answer.delayMs > 0 ? Math.min(answer.delayMs, timeoutMs - elapsedMs(call)) : 0;
    try {
      if (delayMs > 0) replyLater(response, delayMs, caller, reply, delayed);
      else reply({ response });
      observer.answered(request, answer, caller);
    } catch (bug) {
      reportBug(observer, bug);
    }
  };
  return {
    shouldRateLimit(request, caller, reply) {
      const { startedMs = monotonicMs() } = caller;
      const call: OpenCall = { request, caller, startedMs, reply };
      let answer: Eventual<Answer>;
      try {
        answer = decide(decodeRequest(request), decider, caller.timeoutMs, caller.work);
      } catch (cause) {
        fail(cause, call);
        return answered;
      }
      if ('verdicts' in answer) {
        finish(answer, call);
        return answered;
      }
      return after(answer, finish, call, fail);
    },
  };
}

/** Answers a late call that is known to be refused; undefined if it is not. Never throws. */
export type AnswerKnown = (request: WireRequest, caller: Caller) => WireResponse | undefined;

export const createAnswerKnown =
  (decider: Decider, extras: Extras, observer: Pick<Observer, 'answered'>): AnswerKnown =>
  (request, caller) => {
    try {
      const answer = decideKnown(decodeRequest(request), decider, caller.work);
      if (!answer) return undefined;
      const response = createResponse(request, answer, extras, detailFor(caller, answer));
      observer.answered(request, answer, caller);
      return response;
    } catch {
      return undefined; // the request is invalid or too costly, and is answered as any late call
    }
  };

const detailFor = ({ needsDetail }: Caller, answer: Answer): WireStruct | undefined =>
  needsDetail ? createDetail(answer) : undefined;

/** The response to a request, with its headers and metadata, and the body that the refusing rule has for clients. */
export function createResponse(
  request: WireRequest,
  answer: Answer,
  { headers, metadata, maxWaitMs }: Extras,
  detail?: WireStruct,
): WireResponse {
  const response = encodeAnswer(answer, headers(answer), metadata(request, answer), detail);
  if (answer.overallCode === 'OK') return response;
  const refusal = createRefusal(answer, maxWaitMs);
  return refusal ? withRefusal(response, refusal) : response;
}

/** The rule's headers replace others of the same name. */
function withRefusal(response: WireResponse, { contentType, body, headers }: Refusal): WireResponse {
  const own = [{ key: 'content-type', value: contentType }, ...headers];
  const names = new Set(own.map(({ key }) => key.toLowerCase()));
  const others = response.response_headers_to_add.filter(({ key }) => !names.has(key.toLowerCase()));
  return { ...response, response_headers_to_add: [...others, ...own], raw_body: Buffer.from(body) };
}

/** Time that the store took. */
const elapsedMs = ({ startedMs }: OpenCall): number => monotonicMs() - startedMs;

const answered = Promise.resolve();
const callerGone: GrpcStatus = { code: status.CANCELLED, details: 'the caller cancelled' };

/**
 * Replies after `delayMs`, or as soon as the caller cancels. A separate function, since closures share the variables of
 * the enclosing function and a delayed call must keep its response alive, but not its request.
 */
function replyLater(
  response: WireResponse,
  delayMs: number,
  caller: Caller,
  reply: (outcome: CallOutcome) => void,
  delayed: Delayed,
): void {
  let isWaiting = true;
  delayed.count++;
  const end = (outcome: CallOutcome): void => {
    if (!isWaiting) return;
    isWaiting = false;
    delayed.count--;
    clearTimeout(timer);
    reply(outcome);
  };
  const timer = setTimeout(() => end({ response }), delayMs).unref(); // the open connection keeps the process alive
  caller.onGone?.(() => end({ error: callerGone }));
}

/** Reports a bug in a transport or an observer, which must not end the service; if that fails, the report is lost. */
function reportBug(observer: Observer, bug: unknown): void {
  try {
    observer.failed({ code: status.INTERNAL, details: INTERNAL_ERROR }, bug);
  } catch {
    // nothing is left to report to
  }
}

/** A gRPC error rather than a response with code UNKNOWN, which Envoy lets pass regardless of `failure_mode_deny`. */
export function toStatus(cause: unknown): GrpcStatus {
  if (cause instanceof InvalidRequest) return { code: status.INVALID_ARGUMENT, details: cause.message };
  if (cause instanceof TooCostly) return { code: status.RESOURCE_EXHAUSTED, details: cause.message };
  if (cause instanceof RulesNotLoaded) return { code: status.UNAVAILABLE, details: cause.message };
  if (cause instanceof StoreUnavailable)
    return { code: status.UNAVAILABLE, details: `rate limit store unavailable: ${cause.message}` };
  return { code: status.INTERNAL, details: INTERNAL_ERROR };
}
