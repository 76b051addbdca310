import { WeirUnavailable } from './errors.ts';
import { Exchange } from './exchange.ts';
import type { PendingCall } from './pending-call.ts';
import { isFailure, type Server } from './server.ts';
import type { Outcome } from './transport/transport.ts';
import { isRefund } from './wire/messages.ts';

/** Limits of one batch, within those of the service. */
const MAX_BATCH = 128;
const MAX_BATCH_DESCRIPTORS = 512;
const MAX_BATCH_CHARS = 50_000;

/** A call without an answer from its server is sent to one other server. */
const MAX_ATTEMPTS = 2;

export interface DispatcherStats {
  batches: number;
  batchedCalls: number;
  retries: number;
}

/** Sends the calls of one turn of the event loop together, each to a working server. */
export class Dispatcher {
  readonly #servers: readonly Server[];
  readonly #loading: Promise<unknown>;
  readonly #batches: boolean;
  readonly #now: () => number;
  #queue: PendingCall[] = [];
  readonly stats: DispatcherStats = { batches: 0, batchedCalls: 0, retries: 0 };

  /** @param loading  resolves when every server has its transport */
  constructor(servers: readonly Server[], loading: Promise<unknown>, options: { batches: boolean; now: () => number }) {
    this.#servers = servers;
    this.#loading = loading;
    this.#batches = options.batches;
    this.#now = options.now;
  }

  add(call: PendingCall): void {
    if (!this.#batches) return this.#dispatch([call]);
    this.#queue.push(call);
    if (this.#queue.length === 1) setImmediate(() => this.#dispatch(this.#queue.splice(0)));
  }

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

  #dispatch(calls: readonly PendingCall[], except?: Server): void {
    const waiting = calls.filter(({ isSettled }) => !isSettled);
    if (waiting.length === 0) return;
    if (this.#servers.some(({ transport }) => !transport)) {
      this.#loading.then(() => this.#dispatch(waiting));
      return;
    }
    const together: PendingCall[] = [];
    for (const call of waiting) {
      if (call.isAlone || !this.#batches) this.#sendOne(call, except);
      else together.push(call);
    }
    for (const batch of batchesOf(together)) this.#sendBatch(batch, except);
  }

  #sendBatch(calls: readonly PendingCall[], except?: Server): void {
    const server = calls.length > 1 ? this.pick(except) : undefined;
    if (!server?.transport?.sendAll || server.takesBatches === false) {
      for (const call of calls) this.#sendOne(call, except);
      return;
    }
    this.stats.batches++;
    this.stats.batchedCalls += calls.length;
    const timeoutMs = Math.max(...calls.map((call) => this.#timeLeft(call)));
    new Exchange(server, calls).sendAll(server.transport.sendAll, timeoutMs, {
      outcome: this.#onOutcome,
      refused: (left) => {
        for (const call of left) this.#sendOne(call, except);
      },
    });
  }

  #sendOne(call: PendingCall, except?: Server): void {
    const server = this.pick(except);
    if (server?.transport) new Exchange(server, [call]).send(server.transport, this.#timeLeft(call), this.#onOutcome);
    else call.settle(new WeirUnavailable('breaker_open', 'every server has failed, and none is tried again yet'));
  }

  readonly #onOutcome = (call: PendingCall, outcome: Outcome, server: Server): void => {
    call.attempts++;
    const isInTime = call.attempts < MAX_ATTEMPTS && call.deadlineMs > this.#now();
    const mayRetry = isFailure(outcome) && isInTime && !isRefund(call.request); // a server may count before it fails
    if (mayRetry && this.#servers.some((other) => other !== server && other.admits)) {
      this.stats.retries++;
      return this.#dispatch([call], server);
    }
    call.settle(outcome);
  };

  #timeLeft(call: PendingCall): number {
    return Math.max(1, Math.ceil(call.deadlineMs - this.#now()));
  }
}

function batchesOf(calls: readonly PendingCall[]): readonly (readonly PendingCall[])[] {
  const batches: PendingCall[][] = [];
  let batch: PendingCall[] | undefined;
  let descriptors = 0;
  let chars = 0;
  for (const call of calls) {
    const { request } = call;
    const size = sizeOf(request);
    descriptors += request.descriptors.length;
    chars += size;
    if (!batch || batch.length === MAX_BATCH || descriptors > MAX_BATCH_DESCRIPTORS || chars > MAX_BATCH_CHARS) {
      batch = [];
      batches.push(batch);
      descriptors = request.descriptors.length;
      chars = size;
    }
    batch.push(call);
  }
  return batches;
}

function sizeOf({ domain, descriptors }: PendingCall['request']): number {
  let size = domain.length;
  for (const entries of descriptors) for (const [key, value] of entries) size += key.length + value.length + 8;
  return size;
}
