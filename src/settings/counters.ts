import { spends } from '../engine/algorithms/limit.ts';
import { choice, durationMs, flag, integer, list, Mismatch, type Parse, text } from './kinds.ts';
import { emptyText, off, optional, type Rows, secret, setting, withoutEffect } from './row.ts';

/** Any word except these. */
const anythingBut =
  (refused: readonly string[], what: string): Parse<string> =>
  (written) =>
    refused.includes(written.toUpperCase()) ? new Mismatch(what) : written;

/** Treats an empty text as unset. */
const optionally =
  <T>(parse: Parse<T>): Parse<T | undefined> =>
  (written) =>
    written === '' ? undefined : parse(written);

const anyCount = integer(0, Number.MAX_SAFE_INTEGER, 'a count');
const anyInteger = integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, 'a count');
const oneConnection = 'one connection carries all calls';

/** Variables of each Redis: with the prefix REDIS_, and REDIS_PERSECOND_ for a separate Redis for per-second limits. */
const poolRows = {
  URL: secret(
    text,
    'SINGLE: host:port, redis://[user:password@]host:port[/database], rediss://… for TLS, or the path of a socket; SENTINEL: master,host:port,…; CLUSTER: host:port,…, where each may be redis://[user:password@]host:port or rediss://…',
  ),
  TYPE: setting(choice('SINGLE', 'SENTINEL', 'CLUSTER'), 'SINGLE', 'type of Redis'),
  SOCKET_TYPE: optional(
    (written) => choice('unix', 'tcp')(/^tcp[46]$/i.test(written) ? 'tcp' : written),
    'type of socket of a SINGLE URL; unset: unix if it begins with /, else tcp',
  ),
  AUTH: secret(text, 'password, or user:password'),
  SENTINEL_AUTH: secret(text, 'password, or user:password, of the sentinels'),
  TLS: off('use TLS'),
  TIMEOUT: setting(durationMs, '10s', 'connect timeout'),
  POOL_SIZE: withoutEffect(anyCount, oneConnection),
  POOL_ON_EMPTY_BEHAVIOR: withoutEffect(
    anythingBut(['CREATE', 'ERROR'], 'WAIT (CREATE and ERROR are not supported)'),
    oneConnection,
  ),
  POOL_ON_EMPTY_WAIT_DURATION: withoutEffect(durationMs, oneConnection),
  PIPELINE_WINDOW: withoutEffect(durationMs, 'calls are sent immediately'),
  PIPELINE_LIMIT: withoutEffect(anyInteger, 'calls are sent immediately'),
  CLUSTER_PIPELINE_PARALLELISM: withoutEffect(anyCount, 'calls to several nodes always run in parallel'),
};

type Prefixed<P extends string, R> = { readonly [K in keyof R & string as `${P}_${K}`]: R[K] };
function prefixed<const P extends string, R extends Rows>(prefix: P, rows: R): Prefixed<P, R> {
  const entries = Object.entries(rows).map(([name, row]) => [`${prefix}_${name}`, row]);
  return Object.fromEntries(entries) as Prefixed<P, R>; // the same rows with prefixed names
}

/** The store of the counters, and their keys. */
export const counterRows = {
  BACKEND_TYPE: optional(
    optionally(choice('redis', 'memcache', 'memory')),
    'store of the counters; unset: redis if REDIS_URL is set, else memory',
  ),
  COUNTER_KEYS: setting(
    choice('own', 'reference'),
    'own',
    'own: keys that cannot collide; reference: fixed windows with the keys and values of envoyproxy/ratelimit, to share them during a migration',
  ),
  CACHE_KEY_PREFIX: emptyText('prefix of every counter key'),
  STORE_TIMEOUT: optional(
    durationMs,
    "longest wait of a request for its counters; unset: three quarters of the caller's deadline, at most 1s, and 250ms for callers without a deadline",
  ),
  MEMORY_MAX_COUNTERS: setting(
    integer(1, 16_000_000, 'a count'),
    '1000000',
    'maximum number of counters in memory; beyond it, cold ones are evicted',
  ),
  MEMORY_MAX_BYTES: optional(
    integer(2 ** 20, 2 ** 40, 'bytes'),
    "memory for counters in memory with their keys; beyond it, cold ones are evicted. With Redis or memcached it bounds what processes count while the store is down (on_store_failure: local); divided equally among WORKERS. Unset: a quarter of V8's heap limit in each process",
  ),
  LOCAL_CACHE_SIZE_IN_BYTES: setting(
    integer(0, 2 ** 40, 'bytes'),
    '0',
    'memory for the cache of refusals: requests known to be over their limit are refused without a call to Redis or memcached; 0: no cache',
  ),
  KEEP_REFUSALS: setting(
    flag,
    'true',
    'requests known to be over their limit stay refused while Redis or memcached does not answer, until their window ends, whatever on_store_failure says; false: on_store_failure decides',
  ),
  EXPIRATION_JITTER_MAX_SECONDS: setting(
    integer(0, 2 ** 31 - 1, 'seconds'),
    '300',
    'with COUNTER_KEYS=reference: maximum random extension of the time to live of a counter',
  ),
  SPEND: optional(
    choice(...spends),
    'what a request spends if one of its limits refuses it, unless its rules specify it; unset: each',
  ),
  CONSISTENCY: setting(
    choice('strict', 'leased'),
    'strict',
    'leased: with counters in Redis, limits by fixed_window and token_bucket are leased in blocks, unless their rules specify consistency',
  ),
  STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: off('the same as SPEND=spare_others, if SPEND is not set'),

  ...prefixed('REDIS', poolRows),
  REDIS_TLS_CACERT: emptyText(
    'file with the CA of Redis, read for each connection like the two below; empty: the system CAs',
  ),
  REDIS_TLS_CLIENT_CERT: emptyText('file with the client certificate for Redis'),
  REDIS_TLS_CLIENT_KEY: emptyText('file with the key of the client certificate'),
  REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: off('accept certificates of the CA with any name'),
  REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: off(
    'health is not serving while Redis is unreachable or refuses the script; false: only until the script has run for the first time',
  ),
  REDIS_STARTUP_INITIAL_INTERVAL: setting(durationMs, '1s', 'delay after the first failed connection'),
  REDIS_STARTUP_MAX_INTERVAL: setting(durationMs, '30s', 'maximum delay; each is twice the previous one'),
  REDIS_STARTUP_MAX_ELAPSED_TIME: setting(
    durationMs,
    '0',
    'the process ends if Redis or memcached is unreachable for this long after the start; 0: never',
  ),
  CLUSTER_HASH_TAG: setting(
    choice('none', 'domain'),
    'none',
    'domain: all counters of a domain are on one node of a Cluster, and the limits of a request are decided in one atomic step',
  ),
  REDIS_PERSECOND: off('use a separate Redis for per-second limits: REDIS_PERSECOND_*'),
  ...prefixed('REDIS_PERSECOND', poolRows),

  MEMCACHE_HOST_PORT: setting(list, '', 'comma-separated host:port of the memcached servers'),
  MEMCACHE_SRV: emptyText('DNS SRV record of the servers, instead of MEMCACHE_HOST_PORT: _service._proto.name'),
  MEMCACHE_SRV_REFRESH: setting(durationMs, '0', 'how often the SRV record is resolved again; 0: never'),
  MEMCACHE_TLS: off('use TLS'),
  MEMCACHE_TLS_CACERT: emptyText(
    'file with the CA of the servers, read for each connection like the two below; empty: the system CAs',
  ),
  MEMCACHE_TLS_CLIENT_CERT: emptyText('file with the client certificate for the servers'),
  MEMCACHE_TLS_CLIENT_KEY: emptyText('file with the key of the client certificate'),
  MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: off('accept certificates of the CA with any name'),
  MEMCACHE_MAX_IDLE_CONNS: withoutEffect(anyInteger, oneConnection),
} as const satisfies Rows;
