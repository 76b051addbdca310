import { spends } from '../algorithms/limit.ts';
import { anythingBut, choice, durationMs, flag, integer, list, optionally, text } from './kinds.ts';
import { optional, type Rows, secret, setting, withoutEffect } from './row.ts';

const oneConnection = 'one connection carries all calls';

/** Variables that each Redis has: under REDIS_, and under REDIS_PERSECOND_ where limits by the second have their own. */
const poolRows = {
  URL: secret(
    text,
    'SINGLE: host:port, redis://[user:password@]host:port[/database], rediss://… for TLS, or the path of a socket; SENTINEL: master,host:port,…; CLUSTER: host:port,…, where each may be redis://[user:password@]host:port or rediss://…',
  ),
  TYPE: setting(choice('SINGLE', 'SENTINEL', 'CLUSTER'), 'SINGLE', 'what kind of Redis it is'),
  SOCKET_TYPE: optional(choice('unix', 'tcp'), 'what a SINGLE url names; unset: unix where it begins with /, else tcp'),
  AUTH: secret(text, 'password, or user:password'),
  SENTINEL_AUTH: secret(text, 'the same for the sentinels'),
  TLS: setting(flag, 'false', 'speak TLS'),
  TIMEOUT: setting(durationMs, '10s', 'the longest that connecting may take'),
  POOL_SIZE: withoutEffect(integer(0, 2 ** 31 - 1, 'a count'), oneConnection),
  POOL_ON_EMPTY_BEHAVIOR: withoutEffect(
    anythingBut(['CREATE', 'ERROR'], 'WAIT (CREATE and ERROR are not supported)'),
    oneConnection,
  ),
  POOL_ON_EMPTY_WAIT_DURATION: withoutEffect(durationMs, oneConnection),
  PIPELINE_WINDOW: withoutEffect(durationMs, 'calls leave as they come, and never wait for others'),
  PIPELINE_LIMIT: withoutEffect(integer(0, 2 ** 31 - 1, 'a count'), 'calls leave as they come'),
  CLUSTER_PIPELINE_PARALLELISM: withoutEffect(
    integer(0, 2 ** 31 - 1, 'a count'),
    'calls to several nodes always run side by side',
  ),
};

type Prefixed<P extends string, R> = { readonly [K in keyof R & string as `${P}_${K}`]: R[K] };
function prefixed<const P extends string, R extends Rows>(prefix: P, rows: R): Prefixed<P, R> {
  const entries = Object.entries(rows).map(([name, row]) => [`${prefix}_${name}`, row]);
  return Object.fromEntries(entries) as Prefixed<P, R>; // the same rows under longer names
}

/** Where counters live, and under which keys. */
export const counterRows = {
  BACKEND_TYPE: optional(
    optionally(choice('redis', 'memcache', 'memory')),
    'where counters live; unset: redis where REDIS_URL is set, else memory',
  ),
  COUNTER_KEYS: setting(
    choice('own', 'reference'),
    'own',
    'own: keys that cannot collide; reference: fixed windows under the keys and values of envoyproxy/ratelimit, to share them with it',
  ),
  CACHE_KEY_PREFIX: setting(text, '', 'put before every counter key'),
  STORE_TIMEOUT: setting(
    durationMs,
    '15ms',
    'the longest that a request waits for its counters: less than its caller waits, 20ms where that is Envoy',
  ),
  MEMORY_MAX_COUNTERS: setting(
    integer(1, 16_000_000, 'a count'),
    '1000000',
    'counters kept in memory; past it, cold ones are forgotten',
  ),
  MEMORY_MAX_BYTES: optional(
    integer(2 ** 20, 2 ** 40, 'bytes'),
    "what counters in memory may cost with their keys; past it, cold ones are forgotten. With Redis or memcached it bounds what processes count while the store is away (on_store_failure: local); WORKERS share it equally. Unset: a quarter of V8's heap limit in each process",
  ),
  LOCAL_CACHE_SIZE_IN_BYTES: setting(
    integer(0, 2 ** 40, 'bytes'),
    '0',
    'memory for counters that are known to be over their limit: they are refused without asking Redis or memcached; 0: none',
  ),
  EXPIRATION_JITTER_MAX_SECONDS: setting(
    integer(0, 2 ** 31 - 1, 'seconds'),
    '300',
    'with COUNTER_KEYS=reference: up to so much is added to the time that a counter is kept',
  ),
  SPEND: optional(
    choice(...spends),
    'what a request spends when a limit refuses it, where its rules do not say; unset: each',
  ),
  STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: setting(
    flag,
    'false',
    'the same as SPEND=spare_others, where SPEND is not set',
  ),

  ...prefixed('REDIS', poolRows),
  REDIS_TLS_CACERT: setting(
    text,
    '',
    'file with the authority that Redis must be of, read for each connection like the two below; empty: those of the system',
  ),
  REDIS_TLS_CLIENT_CERT: setting(text, '', 'file with the certificate to show to Redis'),
  REDIS_TLS_CLIENT_KEY: setting(text, '', 'file with its key'),
  REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: setting(
    flag,
    'false',
    'take a certificate of the authority whatever name it has',
  ),
  REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: setting(
    flag,
    'false',
    'health is not serving while Redis cannot be reached or refuses the script; otherwise only until it has run for the first time',
  ),
  REDIS_STARTUP_INITIAL_INTERVAL: setting(durationMs, '1s', 'the wait after a first connection that failed'),
  REDIS_STARTUP_MAX_INTERVAL: setting(durationMs, '30s', 'the longest wait; each is twice the one before'),
  REDIS_STARTUP_MAX_ELAPSED_TIME: setting(
    durationMs,
    '0',
    'the process ends where Redis or memcached could not be reached for so long after the start; 0: never',
  ),
  CLUSTER_HASH_TAG: setting(
    choice('none', 'domain'),
    'none',
    'domain: all counters of a domain live on one node of a Cluster, and the limits of a request are one atomic step',
  ),
  REDIS_PERSECOND: setting(flag, 'false', 'limits by the second have their own Redis: REDIS_PERSECOND_*'),
  ...prefixed('REDIS_PERSECOND', poolRows),

  MEMCACHE_HOST_PORT: setting(list, '', 'host:port of the memcached servers, with commas between them'),
  MEMCACHE_SRV: setting(text, '', 'DNS SRV record that names them instead: _service._proto.name'),
  MEMCACHE_SRV_REFRESH: setting(durationMs, '0', 'how often it is looked up again; 0: never'),
  MEMCACHE_TLS: setting(flag, 'false', 'speak TLS'),
  MEMCACHE_TLS_CACERT: setting(
    text,
    '',
    'file with the authority that the servers must be of, read for each connection like the two below; empty: those of the system',
  ),
  MEMCACHE_TLS_CLIENT_CERT: setting(text, '', 'file with the certificate to show to the servers'),
  MEMCACHE_TLS_CLIENT_KEY: setting(text, '', 'file with its key'),
  MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: setting(
    flag,
    'false',
    'take a certificate of the authority whatever name it has',
  ),
  MEMCACHE_MAX_IDLE_CONNS: withoutEffect(integer(0, 2 ** 31 - 1, 'a count'), oneConnection),
} as const satisfies Rows;
