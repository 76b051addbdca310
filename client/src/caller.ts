import { bareDecision, type Decision, decisionOf } from './decision.ts';
import { Dispatcher } from './dispatcher.ts';
import { WeirUnavailable } from './errors.ts';
import { LocalLimits } from './local-limits.ts';
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
import { requestOf } from './request.ts';
import { openServers, type Servers } from './servers.ts';
import { type CallRecord, createTelemetry } from './telemetry.ts';
import type { Outcome, Transport } from './transport/transport.ts';
import type { LimitRequest } from './wire/messages.ts';

const DEFAULT_TIMEOUT_MS = 20;

const now = (): number => performance.now();

export const createCaller = (options: ClientOptions): Caller => new Caller(options);

/** Decides requests: from a remembered refusal, by a server, or by `onError`. */
export class Caller {
  readonly timeoutMs: number;
  readonly servers: Servers;
  readonly #onError: OnError;
  readonly #refusals: Refusals | undefined;
  readonly #local = new LocalLimits(now);
  readonly #dispatcher: Dispatcher;
  readonly #record: ((domain: string) => CallRecord) | undefined;
  readonly #pending = new Set<PendingCall>();
  readonly #counts = { calls: 0, allowed: 0, refused: 0, rememberedRefusals: 0, failed: 0, aborted: 0 };
  #isClosed = false;

  constructor(options: ClientOptions) {
    const { onError = 'allow', timeoutMs = DEFAULT_TIMEOUT_MS, refusals = {}, batch = true } = options;
    this.timeoutMs = checkTimeout(timeoutMs);
    this.#onError = checkOnError(onError);
    this.#refusals = refusals === false ? undefined : new Refusals(refusals, now);
    this.#record = options.opentelemetry && createTelemetry(options.opentelemetry, now);
    this.servers = openServers(options, now);
    this.#dispatcher = new Dispatcher(this.servers.all, this.servers.loading, { batches: batch, now });
  }

  limit(domain: string, descriptors: Descriptor | readonly Descriptor[], options: CallOptions = {}): Promise<Decision> {
    return new Promise((resolve, reject) => {
      const { hits = 1, timeoutMs = this.timeoutMs, onError = this.#onError, signal } = options;
      const request = requestOf(domain, descriptors, checkHits(hits));
      checkTimeout(timeoutMs);
      checkOnError(onError);
      if (signal?.aborted) return reject(signal.reason);
      this.#counts.calls++;
      const record = this.#record?.(domain);
      const key = requestKey(request);
      const remembered = this.#refusals?.find(key, hits);
      if (remembered) this.#counts.rememberedRefusals++;
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
        request,
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
      else this.#dispatcher.add(call);
    });
  }

  ready(timeoutMs: number): Promise<boolean> {
    return this.servers.ready(checkTimeout(timeoutMs));
  }

  /** Calls one of Weir's own methods, on a server that supports them. */
  async call(...[method, ...rest]: Parameters<NonNullable<Transport['call']>>): Promise<Buffer> {
    if (this.#isClosed) throw closed();
    await this.servers.loading;
    const able = this.servers.all.filter(({ transport }) => transport?.call);
    if (able.length === 0) {
      const advice = 'install @grpc/grpc-js, and name the gRPC port';
      throw new WeirUnavailable('unimplemented', `${method} needs gRPC: ${advice}`);
    }
    const call = this.#dispatcher.pick(undefined, able)?.transport?.call;
    if (!call) throw new WeirUnavailable('breaker_open', 'every server has failed, and none is tried again yet');
    return call(method, ...rest);
  }

  stats() {
    const servers = this.servers.all.map((server) => server.stats);
    return { ...this.#counts, ...this.#dispatcher.stats, servers };
  }

  close(): void {
    this.#isClosed = true;
    for (const call of [...this.#pending]) call.settle(closed());
    this.servers.close();
  }

  #decide(outcome: Outcome, { key, request, onError }: { key: string; request: LimitRequest; onError: OnError }) {
    if (outcome instanceof WeirUnavailable) {
      this.#counts.failed++;
      if (onError === 'local') return this.#local.decide(key, request, outcome);
      return bareDecision(onError === 'allow', `client_${onError}`, outcome);
    }
    const decision = decisionOf(outcome);
    if (!decision.ok) this.#refusals?.record(key, request, decision);
    else if (request.hits < 0) this.#refusals?.forget(key);
    if (onError === 'local') this.#local.record(key, request, decision);
    return decision;
  }
}

const closed = (): WeirUnavailable => new WeirUnavailable('closed', 'the client is closed');
