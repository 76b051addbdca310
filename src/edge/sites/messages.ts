import { MAX_COUNT } from '../../engine/algorithms/limit.ts';
import type { SiteShareLimit } from '../../engine/algorithms/site-share.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import type { OwnLimits } from './own-limits.ts';

/** The messages of `proto/weir/v1/sites.proto`. */
export interface BorrowRequest {
  readonly site: string;
  readonly sites: readonly string[];
  readonly asks: readonly SiteAsk[];
}
export interface SiteAsk {
  readonly counter: string;
  readonly algorithm: string;
  readonly requests_per_unit: number;
  readonly window_ms: number;
  readonly burst: number;
  readonly epoch_ms: number;
  readonly taken: number;
  readonly hits: number;
}
export interface BorrowResponse {
  readonly loans: readonly SiteLoan[];
}
export interface SiteLoan {
  readonly is_lent: boolean;
  readonly given: number;
  readonly now_ms: number;
  readonly used: number;
}

/** The request of a site for hits of one of its counters. */
export function askOf(
  key: CounterKey,
  prefix: string,
  { of, requestsPerUnit, windowMs, burst }: SiteShareLimit,
  rest: Pick<SiteAsk, 'epoch_ms' | 'taken' | 'hits'>,
): SiteAsk {
  const limit = { algorithm: of, requests_per_unit: requestsPerUnit, window_ms: windowMs, burst };
  return { counter: key.slice(prefix.length), ...limit, ...rest };
}

/** The keys of counters that sites share, without a prefix: a hash tag, and the name of their limit. */
const SHARED_KEY = /^(?:\{[^{}]*\})?(site_share\|[^|]+\|[^|]+)\|/;
/** The most characters of a key: a tag, the name of a limit, and the name of one of its counters. */
const MAX_KEY_LENGTH = 1_024;

/**
 * Finds the same counter here, with the limit of this site's own rules; undefined if sites do not share it, or if the
 * two sites have different rules.
 */
export function counterOf(
  { counter, algorithm, requests_per_unit: requestsPerUnit, window_ms: windowMs, burst, ...rest }: SiteAsk,
  prefix: string,
  limits: OwnLimits,
): { readonly key: CounterKey; readonly limit: SiteShareLimit } | undefined {
  const name = counter.length <= MAX_KEY_LENGTH ? SHARED_KEY.exec(counter)?.[1] : undefined;
  const limit = name === undefined ? undefined : limits(name, requestsPerUnit, burst);
  if (limit?.of !== algorithm || limit.windowMs !== windowMs) return undefined;
  if (![rest.epoch_ms, rest.taken, rest.hits].every(isCount)) return undefined;
  return { key: `${prefix}${counter}` as CounterKey, limit }; // another site made it from the same rule
}

/** Messages may contain numbers up to 2^64. */
const isCount = (number: number): boolean => Number.isSafeInteger(number) && number >= 0 && number <= MAX_COUNT;
