import type { Decision } from '../decision.ts';
import { WeirUnavailable } from '../errors.ts';
import type { HoldAnswers, HoldMethod, HoldRequest, LimitRequest } from '../wire/messages.ts';

/** A decision, or the reason for its absence. */
export type Outcome = Decision | WeirUnavailable;

/** Stops waiting. The transport does not call back any more. */
export type Cancel = () => void;

export interface SendOptions {
  /** How long the caller waits, sent to the server. The caller cancels the call itself. */
  readonly timeoutMs: number;
  /** Trace headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** How long the caller of `weir.v1.Holds` waits, and what aborts its wait. */
export interface HoldCallOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** A connection to one server, which is reopened whenever it is lost. */
export interface Transport {
  /** Sends a request. Calls back once, asynchronously; never throws. */
  send(request: LimitRequest, options: SendOptions, done: (outcome: Outcome) => void): Cancel;
  /**
   * Sends several requests as one call. Calls back once, with their outcomes in the same order, or with an error for
   * all; after `unimplemented`, nothing was counted. Undefined if the transport does not support it.
   */
  readonly sendAll:
    | ((
        requests: readonly LimitRequest[],
        options: SendOptions,
        done: (outcomes: readonly Outcome[] | WeirUnavailable) => void,
      ) => Cancel)
    | undefined;
  /** Calls a method of `weir.v1.Holds`. Rejects with WeirUnavailable, or with the reason of the signal. */
  callHolds<M extends HoldMethod>(method: M, message: HoldRequest, options: HoldCallOptions): Promise<HoldAnswers[M]>;
  /** Whether the server accepts calls. Never rejects. */
  isReady(timeoutMs: number): Promise<boolean>;
  close(): void;
}

/** A call as a promise. When the signal aborts, it is cancelled and rejects with the reason. */
export const promiseCall = <T>(
  start: (done: (outcome: T | WeirUnavailable) => void) => Cancel,
  signal: AbortSignal | undefined,
): Promise<T> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const cancel = start((outcome) => {
      signal?.removeEventListener('abort', abort);
      if (outcome instanceof WeirUnavailable) reject(outcome);
      else resolve(outcome);
    });
    const abort = (): void => {
      cancel();
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
