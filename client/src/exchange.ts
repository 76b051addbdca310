import { WeirUnavailable } from './errors.ts';
import type { GiveUp, PendingCall, Sent } from './pending-call.ts';
import { isFailure, isOverload, type Server } from './server.ts';
import type { Cancel, Outcome, Transport } from './transport/transport.ts';

/** Receives what becomes of the calls of a message. */
export interface ExchangeEvents {
  /** The outcome of one call, which may be sent again. */
  outcome(call: PendingCall, outcome: Outcome, server: Server): void;
  /** The server takes no batches, or not this one: these calls have to be sent one by one. */
  refused(calls: readonly PendingCall[]): void;
  /** The server has room for other calls. Outcomes are delivered in the same turn of the event loop. */
  ended(): void;
}

/** A message to one server, with requests of one or more callers. Ends when all are answered or have given up. */
export class Exchange implements Sent {
  readonly #server: Server;
  readonly #calls: readonly PendingCall[];
  readonly #events: ExchangeEvents;
  readonly #isAlone: boolean;
  #waiting: number;
  #cancel: Cancel | undefined;

  constructor(server: Server, calls: readonly PendingCall[], events: ExchangeEvents) {
    this.#server = server;
    this.#calls = calls;
    this.#events = events;
    this.#isAlone = calls[0]?.isAlone === true;
    this.#waiting = calls.length;
    server.begin(calls.length, this.#isAlone);
    for (const call of calls) call.sent = this;
  }

  /** Sends a single request. */
  send(transport: Transport, timeoutMs: number): void {
    const [call] = this.#calls;
    if (!call) return;
    this.#cancel = transport.send(call.request, { timeoutMs, headers: call.headers }, (outcome) => {
      this.#end(outcome);
      this.#deliver(call, outcome);
    });
  }

  /** Sends the requests as a batch. */
  sendAll(sendAll: NonNullable<Transport['sendAll']>, timeoutMs: number): void {
    const requests = this.#calls.map(({ request }) => request);
    this.#cancel = sendAll(requests, { timeoutMs }, (outcomes) => {
      if (outcomes instanceof WeirUnavailable) {
        this.#end(outcomes);
        if (outcomes.kind === 'unimplemented') this.#server.takesBatches = false;
        if (['unimplemented', 'invalid', 'rejected'].includes(outcomes.kind))
          return this.#events.refused(this.#calls.filter(({ isSettled }) => !isSettled));
        for (const call of this.#calls) this.#deliver(call, outcomes);
        return;
      }
      const [first] = outcomes;
      this.#end(outcomes.every(isFailure) ? first : undefined);
      this.#server.takesBatches = true;
      for (const [at, call] of this.#calls.entries()) this.#deliver(call, outcomes[at] as Outcome); // one for each call
    });
  }

  leave(why: GiveUp): void {
    if (--this.#waiting > 0) return;
    this.#cancel?.();
    this.#free();
    if (why === 'timeout') this.#server.end(true);
    else this.#server.abandon();
  }

  #end(outcome: Outcome | undefined): void {
    this.#free();
    if (outcome && isOverload(outcome)) this.#server.abandon();
    else this.#server.end(outcome !== undefined && isFailure(outcome));
  }

  #free(): void {
    this.#server.free(this.#calls.length, this.#isAlone);
    this.#events.ended();
  }

  #deliver(call: PendingCall, outcome: Outcome): void {
    if (call.isSettled) return;
    call.sent = undefined;
    this.#events.outcome(call, outcome, this.#server);
  }
}
