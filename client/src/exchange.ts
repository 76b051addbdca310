import { WeirUnavailable } from './errors.ts';
import type { GiveUp, PendingCall, Sent } from './pending-call.ts';
import { isFailure, type Server } from './server.ts';
import type { Cancel, Outcome, Transport } from './transport/transport.ts';

/** Handles the outcome of a call; a call without an answer may be sent to another server. */
export type OnOutcome = (call: PendingCall, outcome: Outcome, server: Server) => void;

/** A message to one server, with requests of one or more callers. Ends when all are answered or have given up. */
export class Exchange implements Sent {
  readonly #server: Server;
  readonly #calls: readonly PendingCall[];
  #waiting: number;
  #cancel: Cancel | undefined;

  constructor(server: Server, calls: readonly PendingCall[]) {
    this.#server = server;
    this.#calls = calls;
    this.#waiting = calls.length;
    server.begin();
    for (const call of calls) call.sent = this;
  }

  /** Sends a single request. */
  send(transport: Transport, timeoutMs: number, onOutcome: OnOutcome): void {
    const [call] = this.#calls;
    if (!call) return;
    this.#cancel = transport.send(call.request, { timeoutMs, headers: call.headers }, (outcome) => {
      this.#server.end(isFailure(outcome));
      this.#deliver(call, outcome, onOutcome);
    });
  }

  /** Sends the requests as a batch; if the server decides none of them, `refused` gets the calls that still wait. */
  sendAll(
    sendAll: NonNullable<Transport['sendAll']>,
    timeoutMs: number,
    on: { readonly outcome: OnOutcome; readonly refused: (calls: readonly PendingCall[]) => void },
  ): void {
    const requests = this.#calls.map(({ request }) => request);
    this.#cancel = sendAll(requests, { timeoutMs }, (outcomes) => {
      const server = this.#server;
      if (outcomes instanceof WeirUnavailable) {
        server.end(isFailure(outcomes));
        if (outcomes.kind === 'unimplemented') server.takesBatches = false;
        if (['unimplemented', 'invalid', 'rejected'].includes(outcomes.kind))
          return on.refused(this.#calls.filter(({ isSettled }) => !isSettled));
        for (const call of this.#calls) this.#deliver(call, outcomes, on.outcome);
        return;
      }
      server.end(outcomes.every(isFailure));
      server.takesBatches = true;
      for (const [at, call] of this.#calls.entries()) this.#deliver(call, outcomes[at] as Outcome, on.outcome); // one for each call
    });
  }

  leave(why: GiveUp): void {
    if (--this.#waiting > 0) return;
    this.#cancel?.();
    if (why === 'timeout') this.#server.end(true);
    else this.#server.abandon();
  }

  #deliver(call: PendingCall, outcome: Outcome, onOutcome: OnOutcome): void {
    if (call.isSettled) return;
    call.sent = undefined;
    onOutcome(call, outcome, this.#server);
  }
}
