import type { WeirUnavailable } from '../errors.ts';
import type { LimitRequest, Reply } from '../wire/messages.ts';

/** An answer, or why there is none. */
export type Outcome = Reply | WeirUnavailable;

/** Stops waiting. The transport calls back no more. */
export type Cancel = () => void;

export interface SendOptions {
  /** How long the caller waits. It cancels; this is what the server is sent. */
  readonly timeoutMs: number;
  /** Headers of the trace. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** The methods that are called with encoded messages. */
export type SideMethod = `/weir.v1.${string}`;

/** A connection to one server, which it opens again whenever it is lost. */
export interface Transport {
  /** Sends a request. Calls back once, later; never throws. */
  send(request: LimitRequest, options: SendOptions, done: (outcome: Outcome) => void): Cancel;
  /**
   * Sends several requests as one call. Calls back once, with their outcomes in the same order, or with why there are
   * none: `unimplemented` means that nothing was counted. Undefined: the transport has no such call.
   */
  readonly sendAll:
    | ((
        requests: readonly LimitRequest[],
        options: SendOptions,
        done: (outcomes: readonly Outcome[] | WeirUnavailable) => void,
      ) => Cancel)
    | undefined;
  /**
   * Calls a method of Weir's own. Rejects with WeirUnavailable, or with the reason of the signal. Undefined: the
   * transport has no such methods.
   */
  readonly call:
    | ((method: SideMethod, message: Buffer, timeoutMs: number, signal?: AbortSignal) => Promise<Buffer>)
    | undefined;
  /** Whether the server takes calls. Never rejects. */
  isReady(timeoutMs: number): Promise<boolean>;
  close(): void;
}
