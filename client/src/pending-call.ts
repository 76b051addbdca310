import { WeirUnavailable } from './errors.ts';
import type { Server } from './server.ts';
import type { Outcome } from './transport/transport.ts';
import type { LimitRequest } from './wire/messages.ts';

/** Why a caller stops waiting. */
export type GiveUp = 'timeout' | 'abort';

/** The message sent for a call. */
export interface Sent {
  leave(why: GiveUp): void;
}

/** A request in flight. It is settled once: by its outcome, at its deadline, or when its caller aborts. */
export class PendingCall {
  readonly request: LimitRequest;
  /** The text that identifies domain and descriptors. */
  readonly key: string;
  readonly deadlineMs: number;
  /** The call must not wait for others, or has its own headers. */
  readonly isAlone: boolean;
  readonly headers: Readonly<Record<string, string>> | undefined;
  sent: Sent | undefined;
  attempts = 0;
  /** The server that failed to answer it. */
  failedOn: Server | undefined;
  /** It has waited for room, or for the answers to calls with the same key. */
  hasWaited = false;
  readonly #settle: (outcome: Outcome) => void;
  readonly #timer: NodeJS.Timeout;
  #isSettled = false;

  constructor(
    { request, key }: { readonly request: LimitRequest; readonly key: string },
    options: { nowMs: number; timeoutMs: number; isAlone: boolean; headers: PendingCall['headers'] },
    settle: (outcome: Outcome) => void,
  ) {
    this.request = request;
    this.key = key;
    this.deadlineMs = options.nowMs + options.timeoutMs;
    this.isAlone = options.isAlone;
    this.headers = options.headers;
    this.#settle = settle;
    // Answers that arrived while this process was busy are read after timers fire, and before this immediate.
    this.#timer = setTimeout(() => setImmediate(() => this.#expire(options.timeoutMs)), options.timeoutMs);
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  settle(outcome: Outcome): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.sent = undefined;
    this.#settle(outcome);
  }

  /** The caller stops waiting, and settles its promise itself. */
  abort(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.sent?.leave('abort');
  }

  #expire(timeoutMs: number): void {
    if (this.#isSettled) return;
    this.sent?.leave('timeout');
    this.settle(new WeirUnavailable('timeout', `no answer within ${timeoutMs} ms`));
  }
}
