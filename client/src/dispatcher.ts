import { WeirUnavailable } from './errors.ts';
import { Exchange, type ExchangeEvents } from './exchange.ts';
import type { PendingCall } from './pending-call.ts';
import { isFailure, isOverload, type Server } from './server.ts';
import type { Outcome } from './transport/transport.ts';
import { isRefund } from './wire/messages.ts';

/** Limits of one batch, within those of the service. */
const MAX_BATCH = 128;
const MAX_BATCH_DESCRIPTORS = 512;
const MAX_BATCH_CHARS = 50_000;

/** A call without an answer from its server is sent to one other server. */
const MAX_ATTEMPTS = 2;

/** Maximum calls with the same key to send in one turn if more than a batch is queued; a refusal settles the rest. */
const MAX_SAME_KEY = 32;

/** The first pause before a call is sent again to a server that has too many; doubled with each attempt. */
const OVERLOAD_PAUSE_MS = 4;
const MAX_OVERLOAD_PAUSE_MS = 256;

interface DispatcherStats {
  batches: number;
  batchedCalls: number;
  retries: number;
}

interface DispatcherOptions {
  readonly batches: boolean;
  readonly now: () => number;
  /** Settles a call that has waited, if an answer to another call decides it as well. @returns  whether it has */
  readonly answer: (call: PendingCall) => boolean;
}

/**
 * Sends the calls of one turn of the event loop together, each to a working server. Calls for which no server has room
 * are queued until their deadlines, those with the least time first.
 */
export class Dispatcher {
  readonly #servers: readonly Server[];
  readonly #options: DispatcherOptions;
  /** Calls to send, by their deadlines. */
  #queue: PendingCall[] = [];
  #isScheduled = false;
  readonly stats: DispatcherStats = { batches: 0, batchedCalls: 0, retries: 0 };

  constructor(servers: readonly Server[], options: DispatcherOptions) {
    this.#servers = servers;
    this.#options = options;
  }

  add(call: PendingCall): void {
    const queue = this.#queue;
    const last = queue.at(-1);
    if (last && last.deadlineMs > call.deadlineMs) {
      const next = queue.findIndex(({ deadlineMs }) => deadlineMs > call.deadlineMs);
      queue.splice(next, 0, call);
    } else queue.push(call);
    this.#schedule();
  }

  readonly #schedule = (): void => {
    if (this.#isScheduled || this.#queue.length === 0) return;
    this.#isScheduled = true;
    setImmediate(this.#flush);
  };

  /**
   * The server for the next call: of two at random, the one with fewer calls in flight. A server that is due for a
   * trial gets a health check instead of a call, as long as there are others.
   */
  pick(except?: Server, among = this.#servers): Server | undefined {
    const [only] = among;
    if (among.length === 1) return only !== except && only?.admits ? only : undefined;
    const admitting = among.filter((server) => server !== except && server.admits);
    const proven = admitting.filter(({ isProven }) => isProven);
    if (proven.length > 0 && proven.length < admitting.length)
      for (const server of admitting) if (!server.isProven) void server.check();
    const usable = proven.length > 0 ? proven : admitting;
    const [one, other] = [0, 1].map(() => usable[Math.floor(Math.random() * usable.length)]);
    return one && other && other.inFlight < one.inFlight ? other : one;
  }

  readonly #flush = (): void => {
    this.#isScheduled = false;
    const queued = this.#queue;
    this.#queue = [];
    const sameKey = queued.length > MAX_BATCH ? new Map<string, number>() : undefined;
    let batch: Batch | undefined;
    for (const call of queued) {
      if (call.isSettled || (call.hasWaited && this.#options.answer(call))) continue;
      const ahead = sameKey?.get(call.key) ?? 0;
      if (ahead >= MAX_SAME_KEY) {
        this.#keep(call);
        continue;
      }
      sameKey?.set(call.key, ahead + 1);
      if (call.isAlone || call.failedOn || !this.#options.batches) {
        this.#sendOne(call);
        continue;
      }
      if (!batch?.fits(call)) {
        if (batch) this.#sendBatch(batch.calls);
        batch = new Batch();
      }
      batch.add(call);
    }
    if (batch) this.#sendBatch(batch.calls);
    if (this.#queue.length > 0 && !this.#servers.some(({ inFlight }) => inFlight > 0)) this.#schedule(); // nothing ends
  };

  #keep(call: PendingCall): void {
    call.hasWaited = true;
    this.#queue.push(call);
  }

  #sendBatch(calls: readonly PendingCall[]): void {
    const server = calls.length > 1 ? this.#pickWithRoom(calls) : undefined;
    if (server === 'full') {
      for (const call of calls) this.#keep(call);
      return;
    }
    if (!server?.transport.sendAll || server.takesBatches === false) {
      for (const call of calls) this.#sendOne(call);
      return;
    }
    this.stats.batches++;
    this.stats.batchedCalls += calls.length;
    const timeoutMs = Math.max(...calls.map((call) => this.#timeLeft(call)));
    new Exchange(server, calls, this.#events).sendAll(server.transport.sendAll, timeoutMs);
  }

  #sendOne(call: PendingCall): void {
    const server = this.#pickWithRoom([call]);
    if (server === 'full') this.#keep(call);
    else if (server) new Exchange(server, [call], this.#events).send(server.transport, this.#timeLeft(call));
    else call.settle(new WeirUnavailable('breaker_open', 'every server has failed, and none is tried again yet'));
  }

  /** @returns  `full` if no server that admits calls can take another one, undefined if none admits calls */
  #pickWithRoom([call]: readonly PendingCall[]): Server | 'full' | undefined {
    const server = this.pick(call?.failedOn);
    if (!server || server.hasRoom(call?.isAlone === true)) return server;
    const others = this.#servers.filter((other) => other.hasRoom(call?.isAlone === true));
    return this.pick(call?.failedOn, others) ?? 'full';
  }

  readonly #events: ExchangeEvents = {
    outcome: (call, outcome, server) => this.#onOutcome(call, outcome, server),
    refused: (calls) => {
      for (const call of calls) this.#sendOne(call);
    },
    ended: this.#schedule,
  };

  #onOutcome(call: PendingCall, outcome: Outcome, server: Server): void {
    call.attempts++;
    const isOverloaded = isOverload(outcome);
    if ((!isOverloaded && !isFailure(outcome)) || isRefund(call.request)) return call.settle(outcome); // may be counted
    const hasOther = this.#servers.some((other) => other !== server && other.admits);
    if (hasOther && call.attempts < MAX_ATTEMPTS && call.deadlineMs > this.#options.now()) {
      this.stats.retries++;
      call.failedOn = server;
      return this.add(call);
    }
    const pauseMs = Math.min(OVERLOAD_PAUSE_MS * 2 ** (call.attempts - 1), MAX_OVERLOAD_PAUSE_MS) * (1 + Math.random());
    if (!isOverloaded || this.#options.now() + pauseMs >= call.deadlineMs) return call.settle(outcome);
    this.stats.retries++;
    call.failedOn = undefined;
    call.hasWaited = true;
    setTimeout(() => this.add(call), pauseMs).unref();
  }

  #timeLeft(call: PendingCall): number {
    return Math.max(1, Math.ceil(call.deadlineMs - this.#options.now()));
  }
}

class Batch {
  readonly calls: PendingCall[] = [];
  #descriptors = 0;
  #chars = 0;

  fits({ request, key }: PendingCall): boolean {
    return (
      this.calls.length < MAX_BATCH &&
      this.#descriptors + request.descriptors.length <= MAX_BATCH_DESCRIPTORS &&
      this.#chars + key.length <= MAX_BATCH_CHARS
    );
  }

  add(call: PendingCall): void {
    this.calls.push(call);
    this.#descriptors += call.request.descriptors.length;
    this.#chars += call.key.length;
  }
}
