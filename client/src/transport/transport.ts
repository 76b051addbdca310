import type { Decision } from '../decision.ts';
import type { WeirUnavailable } from '../errors.ts';
import type { LimitRequest } from '../wire/messages.ts';

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

/** Methods whose messages the caller encodes. */
export type SideMethod = `/weir.v1.${string}`;

/** A connection to one server, which is reopened whenever it is lost. */
export interface Transport {
  /** Sends a request. Calls back once, asynchronously; never throws. */
  send(request: LimitRequest, options: SendOptions, done: (outcome: Outcome) => void): Cancel;
  /**
   * Sends several requests as one call. Calls back once, with their outcomes in the same order, or with an error for
   * all: `unimplemented` means that nothing was counted. Undefined: the transport does not support it.
   */
  readonly sendAll:
    | ((
        requests: readonly LimitRequest[],
        options: SendOptions,
        done: (outcomes: readonly Outcome[] | WeirUnavailable) => void,
      ) => Cancel)
    | undefined;
  /**
   * Calls one of Weir's own methods. Rejects with WeirUnavailable, or with the reason of the signal. Undefined: the
   * transport does not support them.
   */
  readonly call:
    | ((method: SideMethod, message: Buffer, timeoutMs: number, signal?: AbortSignal) => Promise<Buffer>)
    | undefined;
  /** Whether the server accepts calls. Never rejects. */
  isReady(timeoutMs: number): Promise<boolean>;
  close(): void;
}
