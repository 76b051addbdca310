import { isPromise, StoreUnavailable } from '../backends/backend.ts';
import { type Answer, type Decider, decide, InvalidRequest, RulesNotLoaded } from '../decide.ts';
import { status } from '../grpc-status.ts';
import { decodeRequest, encodeAnswer } from './codec.ts';
import type { ResponseHeaders } from './headers.ts';
import type { DynamicMetadata } from './metadata.ts';
import type { WireRequest, WireResponse } from './wire.ts';

/** What a call comes to: a response, or a gRPC status that says why there is none. */
export type Outcome = { readonly response: WireResponse } | { readonly error: GrpcStatus };

/** The details of every failure that is a bug of ours: its cause is for the log, not for the caller. */
export const INTERNAL_ERROR = 'internal error';

export interface GrpcStatus {
  readonly code: status;
  readonly details: string;
}

/** Who asks, as far as the way of carrying it tells. */
export interface Caller {
  /** What is left of the caller's deadline; `Infinity` without one. */
  readonly timeoutMs: number;
  /** A header that came with the call, by its name in lower case: several of that name as one, with commas between. */
  header(name: string): string | undefined;
  /**
   * Calls the listener once when the caller has gone before it was answered; at once where it has gone already. Absent: the transport does not tell.
   */
  onGone?(listener: () => void): void;
}

/** The Rate Limit Service, whatever carries it. */
export interface RlsService {
  /**
   * Answers one request, after holding it where it has to wait for its turn; never throws and never rejects. What needs no waiting is
   * answered before it returns.
   *
   * @param reply  called once with the outcome, before anyone is told about it
   */
  shouldRateLimit(request: WireRequest, caller: Caller, reply: (outcome: Outcome) => void): Promise<void>;
}

/** Is told what was decided, after the answer has left; of a request that is held, at once. */
export interface Observer {
  answered(request: WireRequest, answer: Answer): void;
  /** `cause` is what was thrown; a bug of ours when the status is INTERNAL. */
  failed(status: GrpcStatus, cause: unknown): void;
}

/** What goes with the answers. */
export interface Extras {
  readonly headers: ResponseHeaders;
  readonly metadata: DynamicMetadata;
}

/** Calls that are held now. */
export interface Holds {
  count: number;
}

export function createRlsService(
  decider: Decider,
  { headers, metadata }: Extras,
  observer: Observer,
  holds: Holds = { count: 0 },
): RlsService {
  return {
    shouldRateLimit(request, caller, reply) {
      const { timeoutMs } = caller;
      const startedMs = performance.now();
      const fail = (cause: unknown): void => {
        const error = toStatus(cause);
        reply({ error });
        tell(observer, () => observer.failed(error, cause));
      };
      const finish = (answer: Answer): void => {
        let response: WireResponse;
        try {
          response = encodeAnswer(answer, headers(answer), metadata(request, answer));
        } catch (cause) {
          return fail(cause);
        }
        const leftMs = timeoutMs - (answer.delayMs > 0 ? performance.now() - startedMs : 0); // the store's part of the deadline is gone
        const holdMs = Math.min(answer.delayMs, leftMs);
        if (holdMs > 0) hold(response, holdMs, caller, reply, holds);
        else reply({ response });
        tell(observer, () => observer.answered(request, answer));
      };
      let answer: Answer | Promise<Answer>;
      try {
        answer = decide(decodeRequest(request), decider, timeoutMs);
      } catch (cause) {
        fail(cause);
        return answered;
      }
      if (isPromise(answer)) return answer.then(finish, fail);
      finish(answer);
      return answered;
    },
  };
}

const answered = Promise.resolve();
const callerGone: GrpcStatus = { code: status.CANCELLED, details: 'the caller has gone' };

/**
 * Replies after `holdMs`, or that the caller has gone as soon as it has. In a function of its own, since closures share all variables of the function
 * around them: a call that is held refers to its response, and no longer to its request.
 */
function hold(
  response: WireResponse,
  holdMs: number,
  caller: Caller,
  reply: (outcome: Outcome) => void,
  holds: Holds,
): void {
  let isHeld = true;
  holds.count++;
  const end = (outcome: Outcome): void => {
    if (!isHeld) return;
    isHeld = false;
    holds.count--;
    clearTimeout(timer);
    reply(outcome);
  };
  const timer = setTimeout(() => end({ response }), holdMs).unref(); // the connection that waits for it keeps the process alive
  caller.onGone?.(() => end({ error: callerGone }));
}

/** A bug in what observes must not end the service: it is told to the observer itself, and given up where even that fails. */
function tell(observer: Observer, what: () => void): void {
  try {
    what();
  } catch (bug) {
    try {
      observer.failed({ code: status.INTERNAL, details: INTERNAL_ERROR }, bug);
    } catch {
      // there is nobody left to tell
    }
  }
}

/** A gRPC error, never a response with code UNKNOWN: Envoy lets UNKNOWN pass whatever `failure_mode_deny` says. */
export function toStatus(cause: unknown): GrpcStatus {
  if (cause instanceof InvalidRequest) return { code: status.INVALID_ARGUMENT, details: cause.message };
  if (cause instanceof RulesNotLoaded) return { code: status.UNAVAILABLE, details: cause.message };
  if (cause instanceof StoreUnavailable)
    return { code: status.UNAVAILABLE, details: `rate limit store unavailable: ${cause.message}` };
  return { code: status.INTERNAL, details: INTERNAL_ERROR };
}
