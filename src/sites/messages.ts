import type { SiteShareLimit } from '../algorithms/site-share.ts';
import type { CounterKey } from '../backends/key.ts';

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

/** What a site says of one of its counters when it asks another one for hits. */
export function askOf(
  key: CounterKey,
  prefix: string,
  { of, requestsPerUnit, windowMs, burst }: SiteShareLimit,
  rest: Pick<SiteAsk, 'epoch_ms' | 'taken' | 'hits'>,
): SiteAsk {
  const limit = { algorithm: of, requests_per_unit: requestsPerUnit, window_ms: windowMs, burst };
  return { counter: key.slice(prefix.length), ...limit, ...rest };
}

/** The keys of counters that sites share, without a prefix. */
const SHARED_KEY = /^(\{[^{}]*\})?site_share\|/;

/**
 * The same counter here; undefined where it is none that sites share.
 *
 * @param own  the place of this site, and how many there are
 */
export function counterOf(
  { counter, algorithm, requests_per_unit: requestsPerUnit, window_ms: windowMs, burst }: SiteAsk,
  prefix: string,
  own: Pick<SiteShareLimit, 'sites' | 'site'>,
): { readonly key: CounterKey; readonly limit: SiteShareLimit } | undefined {
  const of = algorithm === 'token_bucket' || algorithm === 'fixed_window' ? algorithm : undefined;
  if (!of || !SHARED_KEY.test(counter) || requestsPerUnit < 1 || windowMs < 1) return undefined;
  const numbers = { requestsPerUnit, soft: 0, windowMs, burst, maxErrorPercent: 0, counter: '' };
  const key = `${prefix}${counter}` as CounterKey; // another site made it from the same rule
  return { key, limit: { algorithm: 'site_share', of, ...numbers, ...own } };
}
