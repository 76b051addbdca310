import { checkCallOptions, checkClientOptions } from './check-options.ts';
import { bareDecision, type Decision, hasNoRule } from './decision.ts';
import { Dispatcher } from './dispatcher.ts';
import { WeirUnavailable } from './errors.ts';
import { checkLocalLimit, LocalLimits } from './local-limits.ts';
import {
  type CallOptions,
  type ClientOptions,
  checkHits,
  checkOnError,
  checkTimeout,
  type Descriptor,
  type OnError,
} from './options.ts';
import { PendingCall } from './pending-call.ts';
import { Refusals, requestKey } from './refusals.ts';
import { createRequest } from './request.ts';
import { openServers, type Servers } from './servers.ts';
import { type CallRecord, createTelemetry } from './telemetry.ts';
import { type DecisionEngine, sendToEngine } from './transport/engine.ts';
import type { HoldCallOptions, Outcome } from './transport/transport.ts';
import type { HoldAnswers, HoldMethod, HoldRequest, LimitRequest } from './wire/messages.ts';

const DEFAULT_TIMEOUT_MS = 20;

const now = (): number => performance.now();

/** Decides requests: from a remembered refusal, by a server, or by `onError`. */
export class Caller {
  readonly timeoutMs: number;
  readonly servers: Servers;
  readonly #onError: OnError;
  readonly #refusals: Refusals | undefined;
  readonly #local: LocalLimits;
  readonly #dispatcher: Dispatcher;
  readonly #engine: DecisionEngine | undefined;
  readonly #record: ((domain: string) => CallRecord) | undefined;
  readonly #pending = new Set<PendingCall>();
  readonly #counts = { calls: 0, allowed: 0, refused: 0, rememberedRefusals: 0, withoutRule: 0, failed: 0, aborted: 0 };
  #isClosed = false;
  /** Slots that are held. */
  #held = 0;

  constructor(options: ClientOptions) {
    checkClientOptions(options);
    const { engine, onError = 'local', timeoutMs = DEFAULT_TIMEOUT_MS, batch = true } = options;
    // An engine answers without a round trip, and its clock may be a test's.
    const { refusals = engine ? false : {} } = options;
    this.timeoutMs = checkTimeout(timeoutMs);
    this.#onError = checkOnError(onError);
    this.#local = new LocalLimits(checkLocalLimit(options.local), now);
    this.#refusals = refusals === false ? undefined : new Refusals(refusals, now);
    this.#record = options.opentelemetry && createTelemetry(options.opentelemetry, now);
    this.#engine = engine;
    this.servers = openServers(options, now);
    const answer = (call: PendingCall): boolean => this.#answerQueued(call);
    this.#dispatcher = new Dispatcher(this.servers.all, { batches: batch, now, answer });
  }

  limit(domain: string, descriptors: Descriptor | readonly Descriptor[], options: CallOptions = {}): Promise<Decision> {
    return new Promise((resolve, reject) => {
      checkCallOptions(options);
      const { hits = 1, timeoutMs = this.timeoutMs, onError = this.#onError, signal } = options;
      const request = createRequest(domain, descriptors, checkHits(hits));
      checkTimeout(timeoutMs);
      checkOnError(onError);
      if (signal?.aborted) return reject(signal.reason);
      this.#counts.calls++;
      const record = this.#record?.(domain);
      const key = requestKey(request);
      const remembered = this.#remembered(key, hits);
      const finish = (decision: Decision) => {
        this.#counts[decision.ok ? 'allowed' : 'refused']++;
        record?.end(decision);
        resolve(decision);
      };
      if (remembered) return finish(remembered);
      const abort = () => {
        this.#pending.delete(call);
        this.#counts.aborted++;
        call.abort();
        record?.end(undefined);
        reject(signal?.reason);
      };
      const isAlone = timeoutMs > this.timeoutMs || record !== undefined;
      const call = new PendingCall(
        { request, key },
        { nowMs: now(), timeoutMs, isAlone, headers: record?.headers },
        (outcome) => {
          this.#pending.delete(call);
          signal?.removeEventListener('abort', abort);
          finish(this.#decide(outcome, { key, request, onError }));
        },
      );
      signal?.addEventListener('abort', abort, { once: true });
      this.#pending.add(call);
      if (this.#isClosed) call.settle(closed());
      else if (this.#engine)
        call.sent = { leave: sendToEngine(this.#engine, request, timeoutMs, (outcome) => call.settle(outcome)) };
      else this.#dispatcher.add(call);
    });
  }

  ready(timeoutMs: number): Promise<boolean> {
    return this.servers.ready(checkTimeout(timeoutMs));
  }

  /** Calls a method of `weir.v1.Holds`. @throws WeirUnavailable, or the reason of the signal */
  async callHolds<M extends HoldMethod>(
    method: M,
    message: HoldRequest,
    options: HoldCallOptions,
  ): Promise<HoldAnswers[M]> {
    if (this.#isClosed && this.#held === 0) throw closed();
    if (this.#engine) throw new WeirUnavailable('unimplemented', 'slots and reservations need a server, not an engine');
    const transport = this.#dispatcher.pick()?.transport;
    if (!transport) throw new WeirUnavailable('breaker_open', 'every server has failed, and none is tried again yet');
    return transport.callHolds(method, message, options);
  }

  stats() {
    const servers = this.servers.all.map((server) => server.stats);
    return { ...this.#counts, ...this.#dispatcher.stats, servers };
  }

  /** Keeps connections open until a slot is released, even if the client is closed. @throws WeirUnavailable */
  hold(): () => void {
    if (this.#isClosed) throw closed();
    this.#held++;
    return () => {
      this.#held--;
      if (this.#isClosed && this.#held === 0) this.servers.close();
    };
  }

  close(): void {
    this.#isClosed = true;
    for (const call of [...this.#pending]) call.settle(closed());
    if (this.#held === 0) this.servers.close();
  }

  #decide(outcome: Outcome, { key, request, onError }: { key: string; request: LimitRequest; onError: OnError }) {
    if (outcome instanceof WeirUnavailable) {
      this.#counts.failed++;
      if (onError === 'local') return this.#local.decide(key, request, outcome);
      return bareDecision(onError === 'allow', `client_${onError}`, outcome);
    }
    if (outcome.source === 'client_refusal') return outcome;
    if (hasNoRule(outcome)) this.#counts.withoutRule++;
    if (!outcome.ok) this.#refusals?.record(key, request, outcome);
    else if (request.hits < 0) this.#refusals?.forget(key);
    if (onError === 'local') this.#local.record(key, request, outcome);
    return outcome;
  }

  #remembered(key: string, hits: number): Decision | undefined {
    const remembered = this.#refusals?.find(key, hits);
    if (remembered) this.#counts.rememberedRefusals++;
    return remembered;
  }

  /** Settles a queued call by a refusal of another one. */
  #answerQueued(call: PendingCall): boolean {
    const remembered = this.#remembered(call.key, call.request.hits);
    if (remembered) call.settle(remembered);
    return remembered !== undefined;
  }
}

const closed = (): WeirUnavailable => new WeirUnavailable('closed', 'the client is closed');
