import type { OpenTelemetryApi } from './telemetry.ts';
import type { DecisionEngine } from './transport/engine.ts';

/** A descriptor: the entries that count a request, in the order of the rule's levels. `{ user: 'alice' }` */
export type Descriptor = Readonly<Record<string, string | number>>;

/**
 * The decision if the service does not answer. `allow` and `deny` apply to every request; `local`: the client counts in
 * its own memory, under the last limit that it has seen for the rule, or under its option `local` before that.
 */
export type OnError = 'allow' | 'deny' | 'local';

/** Certificates in PEM. Without `ca`, the certificates of well-known authorities are trusted. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  /** For mutual TLS, with `key`. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** The name in the server's certificate, if it differs from the target, or the target is an address. */
  readonly serverName?: string;
}

/** When calls to a server are stopped. */
export interface BreakerOptions {
  /** Consecutive failures of a server after which no calls are sent to it. Default: 10. */
  readonly failures?: number;
  /** The first time without calls; doubled with every further failure, up to `maxOpenMs`. Default: 100. */
  readonly minOpenMs?: number;
  /** Default: 1,000. */
  readonly maxOpenMs?: number;
}

/** The limit of each key for `onError: 'local'` before the service has sent one. Requests count, regardless of hits. */
export interface LocalLimitOptions {
  /** Default: 5. */
  readonly requests?: number;
  /** Default: 1,000. */
  readonly windowMs?: number;
}

/** The refusals that the client caches. */
export interface RefusalOptions {
  /** Maximum cached refusals; beyond it, the oldest is dropped. Default: 10,000. */
  readonly max?: number;
  /** Maximum time for which the client itself answers, in case an operator resets the limit. Default: 1,000. */
  readonly maxMs?: number;
}

/** Options of `createClient`. */
export interface ClientOptions {
  /**
   * One or more servers: `weir:8081` is gRPC (also `dns:///weir:8081` and `unix:/run/weir.sock`), `http://weir:8080` or
   * `https://weir:8080` is its HTTP port. Of two servers at random, calls go to the one with fewer calls in flight.
   * Required without `engine`.
   */
  readonly target?: string | readonly string[];
  /**
   * Decides in this process instead: `await createEngine({ rules: { files: ['rules.yaml'] } })` of `weir-rls/engine`.
   * The client closes it. Slots and reservations need a server.
   */
  readonly engine?: DecisionEngine;
  /** How long `limit` waits for an answer, unless the call has its own `timeoutMs`. Default: 20. */
  readonly timeoutMs?: number;
  /** Default: `local`. */
  readonly onError?: OnError;
  /** The limit of each key for `onError: 'local'` until the service has sent one. */
  readonly local?: LocalLimitOptions;
  /** gRPC with TLS. `https://` targets use TLS without this option. */
  readonly tls?: TlsOptions | true;
  /** The module `@grpc/grpc-js`, for bundles that contain it. Default: the package that is installed. */
  readonly grpc?: object;
  /** Send the calls of one turn of the event loop together, if the server supports it. Default: true. */
  readonly batch?: boolean;
  /** False: calls are sent to a server regardless of earlier failures. */
  readonly breaker?: BreakerOptions | false;
  /** False: every call is sent. Default with an engine: false. */
  readonly refusals?: RefusalOptions | false;
  /** The module `@opentelemetry/api`, for spans and metrics. */
  readonly opentelemetry?: OpenTelemetryApi;
}

/** Options of `limit`, `require` and of the middlewares. */
export interface CallOptions {
  /** Default: 1. 0 reads the counters, a negative number refunds hits. */
  readonly hits?: number;
  /** How long to wait for an answer. Calls with a longer wait than the client's default are not sent in batches. */
  readonly timeoutMs?: number;
  readonly onError?: OnError;
  /** When it aborts, the promise rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Maximum hits of a request. */
const MAX_HITS = 0xffff_ffff;
const MAX_TIMEOUT_MS = 0x7fff_ffff;

/** Throws a TypeError if an option is not a number in the range. */
export function checkNumber(name: string, value: number, [min, max]: readonly [number, number]): number {
  if (typeof value === 'number' && value >= min && value <= max) return value;
  throw new TypeError(`${name} must be a number from ${min} to ${max}, got ${String(value)}`);
}

export const checkTimeout = (timeoutMs: number): number => checkNumber('timeoutMs', timeoutMs, [1, MAX_TIMEOUT_MS]);

export function checkHits(hits: number): number {
  if (Number.isInteger(hits) && Math.abs(hits) <= MAX_HITS) return hits;
  throw new TypeError(`hits must be a whole number of at most ${MAX_HITS}, got ${String(hits)}`);
}

export function checkOnError(onError: OnError): OnError {
  if (['allow', 'deny', 'local'].includes(onError)) return onError;
  throw new TypeError(`onError must be 'allow', 'deny' or 'local', got ${String(onError)}`);
}
