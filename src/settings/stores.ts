import type { ClientTls } from '../engine/backends/tls.ts';
import type { RedisOptions } from '../engine/open/options.ts';
import { expectedAddress, parseAddress, parseCredentials, withoutCredentials } from './redis-address.ts';
import type { Values } from './table.ts';

/** The store of the counters, and its connection settings. */
export type StoreSettings =
  | { readonly kind: 'memory' }
  | { readonly kind: 'redis'; readonly main: RedisSettings; readonly perSecond: RedisSettings | undefined }
  | {
      readonly kind: 'memcache';
      readonly servers: readonly string[] | { readonly srv: string; readonly refreshMs: number };
      readonly tls: ClientTls | undefined;
    };

/** One Redis. */
export type RedisSettings = Required<RedisOptions>;

/** Selects the store, and the Redis of the candidate's counters. Conflicting settings are added to `problems`. */
export function chooseStores(
  values: Values,
  problems: string[],
): { readonly store: StoreSettings; readonly candidateRedis: RedisSettings | undefined } {
  const store = chooseStore(values, problems);
  return { store, candidateRedis: chooseCandidateRedis(values, store, problems) };
}

function chooseStore(values: Values, problems: string[]): StoreSettings {
  const { BACKEND_TYPE: type, REDIS_URL, MEMCACHE_HOST_PORT: hosts, MEMCACHE_SRV: srv } = values;
  const kind = type ?? (REDIS_URL === undefined ? 'memory' : 'redis');
  if (kind === 'memory') {
    if (values.COUNTER_KEYS === 'reference')
      problems.push('COUNTER_KEYS=reference requires Redis or memcached: counters in memory cannot be shared');
    if (values.WORKERS > 1)
      problems.push(
        `WORKERS: ${values.WORKERS} is not possible with counters in memory, since each process would count separately; set REDIS_URL, or BACKEND_TYPE=memcache and its servers`,
      );
    return { kind };
  }
  if (kind === 'memcache') {
    if (hosts.length > 0 === (srv !== '')) {
      const got = srv === '' ? 'neither' : 'both';
      problems.push(`one of MEMCACHE_HOST_PORT and MEMCACHE_SRV must be set if BACKEND_TYPE is memcache, got ${got}`);
    }
    if (values.WORKERS > 1 && values.HASH_KEYS && values.HASH_KEY === undefined)
      problems.push(
        'HASH_KEYS with WORKERS and memcached requires HASH_KEY: workers cannot share a generated key there',
      );
    const servers = srv === '' ? hosts : { srv, refreshMs: values.MEMCACHE_SRV_REFRESH };
    return { kind, servers, tls: values.MEMCACHE_TLS ? clientTls(values, 'MEMCACHE') : undefined };
  }
  const main = chooseRedis(values, 'REDIS', problems);
  const perSecond = values.REDIS_PERSECOND ? chooseRedis(values, 'REDIS_PERSECOND', problems) : undefined;
  return main ? { kind, main, perSecond } : { kind: 'memory' }; // unused, since there is a problem
}

function chooseRedis(
  values: Values,
  prefix: 'REDIS' | 'REDIS_PERSECOND',
  problems: string[],
): RedisSettings | undefined {
  const url = values[`${prefix}_URL`];
  const type = values[`${prefix}_TYPE`];
  if (url === undefined) {
    const condition = prefix === 'REDIS' ? 'BACKEND_TYPE is redis' : 'REDIS_PERSECOND is true';
    problems.push(`${prefix}_URL must be set if ${condition}, got nothing`);
    return undefined;
  }
  const address = parseAddress(url, type, {
    socket: values[`${prefix}_SOCKET_TYPE`],
    auth: values[`${prefix}_AUTH`],
  });
  if (!address) {
    problems.push(`${prefix}_URL must be ${expectedAddress[type]}, got '${withoutCredentials(url)}'`);
    return undefined;
  }
  if ('refusal' in address) {
    problems.push(`${prefix}_URL: ${address.refusal}`);
    return undefined;
  }
  const ofSentinels = 'sentinelCredentials' in address ? address.sentinelCredentials : {};
  const isTls = values[`${prefix}_TLS`] || ('tls' in address && address.tls);
  return {
    address,
    tls: isTls ? clientTls(values, 'REDIS') : undefined,
    sentinelCredentials: { ...ofSentinels, ...parseCredentials(values[`${prefix}_SENTINEL_AUTH`]) },
    connectTimeoutMs: values[`${prefix}_TIMEOUT`],
  };
}

/** Redis of the candidate's counters; undefined for that of the other counters. */
function chooseCandidateRedis(values: Values, { kind }: StoreSettings, problems: string[]): RedisSettings | undefined {
  const { CANDIDATE_REDIS_URL: url } = values;
  if (url === undefined || kind !== 'redis') return undefined;
  const address = parseAddress(url, 'SINGLE', { socket: undefined, auth: undefined });
  if (!address || 'refusal' in address) {
    const expected = address ? address.refusal : `${expectedAddress.SINGLE}, got '${withoutCredentials(url)}'`;
    problems.push(`CANDIDATE_REDIS_URL must be ${expected}`);
    return undefined;
  }
  const tls = 'tls' in address && address.tls ? clientTls(values, 'REDIS') : undefined;
  return { address, tls, sentinelCredentials: {}, connectTimeoutMs: values.REDIS_TIMEOUT };
}

/** TLS options shared by all Redis servers. */
const clientTls = (values: Values, prefix: 'REDIS' | 'MEMCACHE'): ClientTls => ({
  caFile: values[`${prefix}_TLS_CACERT`],
  certFile: values[`${prefix}_TLS_CLIENT_CERT`],
  keyFile: values[`${prefix}_TLS_CLIENT_KEY`],
  skipHostnameVerification: values[`${prefix}_TLS_SKIP_HOSTNAME_VERIFICATION`],
});
