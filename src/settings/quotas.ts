import { choice, commaSeparated, durationMs, flag, integer, Mismatch, type Parse } from './kinds.ts';
import { optional, type Rows, setting } from './row.ts';

/** Three reports of Envoy. */
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
    "serve Envoy's rate limit quota service on the gRPC port: proxies decide by themselves with shares of the limits (experimental, as Envoy's filter is)",
  ),
  RLQS_DOMAINS: setting(
    commaSeparated,
    '',
    'domains whose rules are given to proxies as quotas, separated by commas; empty: all',
  ),
  RLQS_TTL: setting(
    ttlMs,
    '60s',
    'how long a share is valid unless it is renewed, 15s to 1h: the share of a proxy that dies is given to others after this time',
  ),
  RLQS_UNKNOWN: setting(
    choice('allow', 'deny'),
    'allow',
    'what proxies do with requests of buckets that no rule can be applied to',
  ),
  RLQS_MAX_BUCKETS: setting(
    integer(1, 10_000, 'a count'),
    '10000',
    'maximum number of buckets of one proxy; further ones are handled as RLQS_UNKNOWN says',
  ),
  RLQS_MAX_BYTES: optional(
    integer(2 ** 16, 2 ** 40, 'bytes'),
    "memory for the shares of all buckets, with counters in memory: buckets and proxies beyond it get no assignment. Unset: a sixteenth of V8's heap limit, 128 MiB at most",
  ),
} as const satisfies Rows;
