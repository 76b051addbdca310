import type { OpenTelemetryApi } from './telemetry.ts';

/** A descriptor: what a request is counted by, in the order of the rule's levels. `{ user: 'alice' }` */
export type Descriptor = Readonly<Record<string, string | number>>;

/**
 * What decides where the service has not answered. `allow` and `deny` every request; `local`: the client counts by the
 * last limit that it has seen for the rule, in its own memory, and allows what it has seen no limit for.
 */
export type OnError = 'allow' | 'deny' | 'local';

/** Certificates in PEM. Without `ca`, the certificates of well-known authorities are trusted. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  /** For mutual TLS, with `key`. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** The name in the server's certificate, where it is not that of the target, or the target is an address. */
  readonly serverName?: string;
}

/** When a server gets no calls. */
export interface BreakerOptions {
  /** Consecutive failures of a server after which it gets no calls. Default: 10. */
  readonly failures?: number;
  /** How long, the first time; doubled up to `maxOpenMs` with every further failure. Default: 100. */
  readonly minOpenMs?: number;
  /** Default: 1,000. */
  readonly maxOpenMs?: number;
}

/** Which refusals the client remembers. */
export interface RefusalOptions {
  /** Refusals remembered at once; the oldest is dropped. Default: 10,000. */
  readonly max?: number;
  /** The longest time for which the client answers by itself, in case an operator resets the limit. Default: 1,000. */
  readonly maxMs?: number;
}

/** Options of `createClient`. */
export interface ClientOptions {
  /**
   * One server or several: `weir:8081` is gRPC (also `dns:///weir:8081` and `unix:/run/weir.sock`), `http://weir:8080`
   * or `https://weir:8080` is its HTTP port. Calls go to the server with the fewest calls in flight of two at random.
   */
  readonly target: string | readonly string[];
  /** How long `limit` waits for an answer, unless its own `timeoutMs` says otherwise. Default: 20. */
  readonly timeoutMs?: number;
  /** Default: `allow`. */
  readonly onError?: OnError;
  /** gRPC with TLS. `https://` targets have it without this option. */
  readonly tls?: TlsOptions | true;
  /** Send the calls of one turn of the event loop together, where the server can. Default: true. */
  readonly batch?: boolean;
  /** False: a server gets calls whatever has become of the earlier ones. */
  readonly breaker?: BreakerOptions | false;
  /** False: every call is sent. */
  readonly refusals?: RefusalOptions | false;
  /** The module `@opentelemetry/api`, for spans and metrics. */
  readonly opentelemetry?: OpenTelemetryApi;
}

/** Options of `limit`, `require` and of the middlewares. */
export interface CallOptions {
  /** Default: 1. 0 reads the counters, a negative number gives hits back. */
  readonly hits?: number;
  /** How long to wait for an answer. Calls that wait longer than the client's default are not sent in batches. */
  readonly timeoutMs?: number;
  readonly onError?: OnError;
  /** When it aborts, the promise rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** The largest number of hits of a request. */
const MAX_HITS = 0xffff_ffff;
const MAX_TIMEOUT_MS = 0x7fff_ffff;

/** Throws a TypeError where an option has not the value it needs. */
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
