import { action, any, having, type OptionKind, oneOf, required } from '../../../src/base/options.ts';
import { checkShape } from '../check-options.ts';
import type { Client } from '../client.ts';
import { checkOnError, checkTimeout, type Descriptor, type OnError } from '../options.ts';

/**
 * The proxies in front of this process that may name the client in `X-Forwarded-For`: their number, or their addresses
 * and networks (`10.0.0.0/8`, `loopback`, `linklocal`, `uniquelocal`).
 */
export type TrustProxy = number | readonly string[];

/** The header fields that describe the limits: `RateLimit` and `RateLimit-Policy`, `X-RateLimit-*`, both or none. */
export type HeaderStyle = 'ietf' | 'legacy' | 'both' | 'none';

/** Options of every middleware. `R` is the framework's request. */
export interface LimitOptions<R> {
  readonly client: Client;
  /** The domain of the rules. */
  readonly domain: string;
  /**
   * Returns the descriptors that count a request, or undefined if it is not limited. Default:
   * `{ remote_address: address }`.
   *
   * @param address  the address of the client
   */
  readonly key?: (request: R, address: string) => Key | Promise<Key>;
  /** True: the request is not limited. */
  readonly skip?: (request: R) => boolean | Promise<boolean>;
  /** The hits of a request. Default: 1. */
  readonly cost?: (request: R) => number | Promise<number>;
  /**
   * Default: the framework's own setting in Express, Fastify and NestJS, else none: the client is the connected peer.
   */
  readonly trustProxy?: TrustProxy;
  /** IPv6 addresses are counted by networks with this prefix length. Default: 64. */
  readonly ipv6Prefix?: number;
  /** Default: `both`. `Retry-After` and the headers of the service are always sent. */
  readonly headers?: HeaderStyle;
  /** As for `limit`. */
  readonly timeoutMs?: number;
  /** As for `limit`. A request that `deny` refuses has the status 503. */
  readonly onError?: OnError;
}

/** The descriptors that count a request. */
export type Key = Descriptor | readonly Descriptor[] | undefined;

/** Costs that are known after the response. `A` is the framework's response. */
export interface CostAfter<R, A> {
  /**
   * The final cost of a request: the difference from `cost` is counted, or refunded, when the response has been sent.
   * With `spend: all_or_nothing`, hits beyond the limit are not counted.
   */
  readonly costAfter?: (request: R, response: A) => number | undefined | Promise<number | undefined>;
}

/** The options of all middlewares, and those that Fastify itself reads of a plugin's. */
const shape: Readonly<Record<string, OptionKind>> = {
  client: required(having('limit')),
  domain: required({ expected: 'the name of a domain', fits: (value) => typeof value === 'string' && value !== '' }),
  key: action,
  skip: action,
  cost: action,
  costAfter: action,
  trustProxy: {
    expected: 'a number of proxies, or a list of their networks',
    fits: (value) => typeof value === 'number' || Array.isArray(value),
  },
  ipv6Prefix: any,
  headers: oneOf('ietf', 'legacy', 'both', 'none'),
  timeoutMs: any,
  onError: any,
  onRefused: action,
  peer: action,
  prefix: any,
  logLevel: any,
  logSerializers: any,
};

/** Throws a TypeError if an option cannot be used. @internal */
export function checkLimitOptions<R>(options: LimitOptions<R>): void {
  checkShape(options, shape);
  if (options.timeoutMs !== undefined) checkTimeout(options.timeoutMs);
  if (options.onError !== undefined) checkOnError(options.onError);
}
