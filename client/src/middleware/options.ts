import type { Client } from '../client.ts';
import type { Descriptor, OnError } from '../options.ts';

/**
 * Which proxies in front of this process may name the client in `X-Forwarded-For`: how many there are, or their
 * addresses and networks (`10.0.0.0/8`, `loopback`, `linklocal`, `uniquelocal`).
 */
export type TrustProxy = number | readonly string[];

/** Which header fields describe the limits: `RateLimit` and `RateLimit-Policy`, `X-RateLimit-*`, both or none. */
export type HeaderStyle = 'ietf' | 'legacy' | 'both' | 'none';

/** Options of every middleware. `R` is the framework's request. */
export interface LimitOptions<R> {
  readonly client: Client;
  /** The domain of the rules. */
  readonly domain: string;
  /**
   * What a request is counted by; undefined: it is not limited. Default: `{ remote_address: address }`.
   *
   * @param address  the address of the client
   */
  readonly key?: (request: R, address: string) => Key | Promise<Key>;
  /** True: the request is not limited. */
  readonly skip?: (request: R) => boolean | Promise<boolean>;
  /** The hits of a request. Default: 1. */
  readonly cost?: (request: R) => number | Promise<number>;
  /**
   * Default: the framework's own setting in Express, Fastify and NestJS, else none: the client is what has connected.
   */
  readonly trustProxy?: TrustProxy;
  /** IPv6 addresses are counted by their network of so many bits. Default: 64. */
  readonly ipv6Prefix?: number;
  /** Default: `both`. `Retry-After` and the headers that the service sends are always there. */
  readonly headers?: HeaderStyle;
  /** As for `limit`. */
  readonly timeoutMs?: number;
  /** As for `limit`. What `deny` refuses has the status 503. */
  readonly onError?: OnError;
}

/** What a request is counted by. */
export type Key = Descriptor | readonly Descriptor[] | undefined;

/** Costs that are known after the response. `A` is the framework's response. */
export interface CostAfter<R, A> {
  /**
   * What a request has cost after all: the difference to `cost` is counted, or given back, when the response is sent.
   * With `spend: all_or_nothing`, what exceeds the limit is not counted.
   */
  readonly costAfter?: (request: R, response: A) => number | undefined | Promise<number | undefined>;
}
