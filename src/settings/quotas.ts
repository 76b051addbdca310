import { choice, commaSeparated, durationMs, flag, integer, Mismatch, type Parse } from './kinds.ts';
import { optional, type Rows, setting } from './row.ts';

/** Three report intervals of Envoy. */
const MIN_TTL_MS = 15_000;
const MAX_TTL_MS = 3_600_000;

const ttlMs: Parse<number> = (written) => {
  const ms = durationMs(written);
  return typeof ms === 'number' && ms >= MIN_TTL_MS && ms <= MAX_TTL_MS
    ? ms
    : new Mismatch('a duration from 15s to 1h');
};

/** Envoy's rate limit quota service. */
export const quotaRows = {
  RLQS: setting(
    flag,
    'false',
    "serve Envoy's rate limit quota service on the gRPC port: proxies enforce their shares of the limits themselves (experimental, like Envoy's filter)",
  ),
  RLQS_DOMAINS: setting(
    commaSeparated,
    '',
    'comma-separated domains whose rules are assigned to proxies as quotas; empty: all',
  ),
  RLQS_TTL: setting(
    ttlMs,
    '60s',
    'how long a share is valid without renewal, 15s to 1h; after this time the share of a dead proxy goes to the others',
  ),
  RLQS_UNKNOWN: setting(
    choice('allow', 'deny'),
    'allow',
    'what proxies do with requests of buckets without an applicable rule',
  ),
  RLQS_MAX_BUCKETS: setting(
    integer(1, 10_000, 'a count'),
    '10000',
    'maximum number of buckets of one proxy; RLQS_UNKNOWN applies to further ones',
  ),
  RLQS_MAX_BYTES: optional(
    integer(2 ** 16, 2 ** 40, 'bytes'),
    "memory for the shares of all buckets, with counters in memory: buckets and proxies beyond it get no assignment. Unset: a sixteenth of V8's heap limit, 128 MiB at most",
  ),
} as const satisfies Rows;
