import { rateFor } from '../../algorithms/index.ts';
import { algorithmFor, isRateLimit, type Limit } from '../../holds/limits.ts';
import type { Rule, RuleLimit } from './tree.ts';

/** A rate and a burst that are divided among holders. */
export interface Pool {
  /** Tokens per fill, 1 to 2^32 - 1. */
  readonly units: number;
  /** Length of a fill, in milliseconds. */
  readonly fillMs: number;
  /** Tokens that all holders together may keep, at least 1. */
  readonly burst: number;
}

type BucketStrategy =
  | { readonly kind: 'allow' }
  | { readonly kind: 'deny' }
  /** A token bucket, a share of which is assigned to each proxy. */
  | { readonly kind: 'shared'; readonly pool: Pool }
  /** A proxy cannot apply the rule on its own. */
  | { readonly kind: 'unsupported'; readonly reason: string };

/** Minimum number of tokens per fill, since shares are multiples of one token per fill. */
const MIN_UNITS = 1_024;
/** Maximum length of a fill in seconds, about 31 years; a longer window is a single fill. */
const MAX_FILL_SECONDS = 1_000_000_000;

/** Converts a rule to a rate and a burst, with which a proxy can decide on its own. */
export function bucketStrategy(
  rule: Pick<Rule, 'schedule' | 'unlimited' | 'limits' | 'countWhen'>,
  limits: readonly RuleLimit[] = rule.limits,
): BucketStrategy {
  const [first] = limits;
  if (rule.schedule) return unsupported('its limits depend on the time (active, schedule), and a bucket has one');
  if (rule.unlimited || !first) return { kind: 'allow' };
  if (limits.length > 1) return unsupported('a bucket has one limit, and the rule has several');
  const { limit, policy } = first;
  if (policy.shadow) return { kind: 'allow' };
  if (policy.quota) return unsupported('quota_mode refuses a request together with its other quotas');
  if (rule.countWhen) return unsupported('count_when counts responses, and a proxy counts requests');
  if (policy.charge) return unsupported('charge: always counts requests that were refused');
  if (limit.soft > 0) return unsupported('soft lets requests pass with a flag, which a proxy cannot set');
  if (limit.currency !== undefined) return unsupported('budget counts money, and a proxy counts requests');
  if (limit.requestsPerUnit === 0) return { kind: 'deny' };
  const burst = isRateLimit(limit) ? rateFor(limit).bucketBurst(limit) : `${algorithmFor(limit).notARate}`;
  return typeof burst === 'number' ? createPool(limit, burst) : unsupported(burst);
}

const unsupported = (reason: string) => ({ kind: 'unsupported', reason }) as const;

/**
 * The length of a fill depends only on the limit, and is a whole number of seconds: proxies vary only the tokens per
 * fill. It is long enough that a share of a low rate is a whole number of tokens; buckets still refill evenly.
 */
function createPool({ requestsPerUnit, windowMs }: Limit, burst: number): BucketStrategy {
  const windowSeconds = windowMs / 1_000;
  if (!Number.isInteger(windowSeconds)) return unsupported('the window is no whole number of seconds');
  const most = Math.max(Math.floor(MAX_FILL_SECONDS / windowSeconds), 1);
  const windows = Math.min(Math.ceil(MIN_UNITS / requestsPerUnit), most);
  return { kind: 'shared', pool: { units: requestsPerUnit * windows, fillMs: windowMs * windows, burst } };
}
