import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { packageRoot } from '../base/package-root.ts';
import type { Spend } from '../engine/algorithms/limit.ts';
import type { RuntimeLayout } from '../engine/rules/reload/files.ts';
import { type CompilePattern, type Mogrifier, parseMogrifiers } from '../operate/observe/mogrifier.ts';
import { checkHeaders, headerWarnings } from './headers.ts';
import { Mismatch } from './kinds.ts';
import { type Environment, nearMisses } from './near-misses.ts';
import type { Rows } from './row.ts';
import { chooseStores, type RedisSettings, type StoreSettings } from './stores.ts';
import { table, type Values } from './table.ts';

/** The values by variable name, and options derived from several variables. */
export type CheckedValues = Values & {
  /** Source of the rules, a path, a runtime directory of envoyproxy/ratelimit, or a control plane. */
  readonly rules: { readonly path: string } | { readonly runtime: RuntimeLayout } | { readonly controlPlane: string };
  readonly store: StoreSettings;
  /** Redis of the candidate's counters; undefined for that of the other counters. */
  readonly candidateRedis: RedisSettings | undefined;
  readonly sink: SinkSettings;
  /** Hits that a refused request spends, unless its rules specify it. */
  readonly spend: Spend;
  /** Variables that are set but have no effect or are deprecated, one message each. */
  readonly warnings: readonly string[];
};

const unloaded: CompilePattern = () => {
  throw new Error('regular expressions are not loaded');
};

/** Invalid environment variables, one message each with the variable, the expected and the received value. */
export class InvalidSettings extends Error {
  override readonly name = 'InvalidSettings';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Reads the variables from the environment. A variable with an empty value counts as set.
 *
 * @param compile  compiles the patterns of mogrifiers
 * @throws InvalidSettings listing every invalid variable
 */
export function readValues(env: Environment, compile: CompilePattern = unloaded): CheckedValues {
  const problems: string[] = [];
  const rows = Object.entries<Rows[string]>(table);
  const read = rows.map(([name, { parse, fallback, formerName, secret }]) => {
    const source =
      env[name] === undefined && formerName !== undefined && env[formerName] !== undefined ? formerName : name;
    const written = env[source] ?? fallback;
    const value = written === undefined ? undefined : parse(written);
    if (value instanceof Mismatch)
      problems.push(`${source} must be ${value.expected}, got '${secret ? '***' : written}'`);
    return [name, value];
  });
  if (problems.length > 0) throw new InvalidSettings(problems);
  const values = Object.fromEntries(read) as Values; // each parsed by its own row
  const { store, candidateRedis } = chooseStores(values, problems);
  const sink = chooseSink(values, { env, compile }, problems);
  checkTls(values, problems);
  checkHeaders(values, problems);
  checkQuotas(values, store, problems);
  checkUsage(values, store, problems);
  checkSites(values, problems);
  if (problems.length > 0) throw new InvalidSettings(problems);
  const spend = values.SPEND ?? (values.STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT ? 'spare_others' : 'each');
  const unused = findUnused(env, values, [store, candidateRedis]);
  const warnings = [...findWarnings(env, store), ...unused, ...headerWarnings(values)];
  return { ...values, rules: chooseRules(values, env), store, candidateRedis, sink, spend, warnings };
}

/** The default path, or the package's file at that path if the working directory has none. */
const defaultRules = (path: string): string => (existsSync(path) ? path : fileURLToPath(new URL(path, packageRoot)));

function chooseRules(values: Values, env: Environment): CheckedValues['rules'] {
  if (values.CONFIG_TYPE === 'GRPC_XDS_SOTW') return { controlPlane: values.CONFIG_GRPC_XDS_SERVER_URL };
  if (values.RUNTIME_ROOT === undefined && values.RUNTIME_SUBDIRECTORY === undefined)
    return { path: env.RULES_PATH ?? defaultRules(values.RULES_PATH) };
  return {
    runtime: {
      root: values.RUNTIME_ROOT ?? '/srv/runtime_data/current',
      subdirectory: values.RUNTIME_SUBDIRECTORY ?? '',
      appDirectory: values.RUNTIME_APPDIRECTORY,
      ignoreDotFiles: values.RUNTIME_IGNOREDOTFILES,
      watchRoot: values.RUNTIME_WATCH_ROOT,
    },
  };
}

function checkQuotas({ RLQS, GRPC_TRANSPORT }: Values, { kind }: StoreSettings, problems: string[]): void {
  if (!RLQS) return;
  if (GRPC_TRANSPORT !== 'h2') problems.push(`GRPC_TRANSPORT must be h2 if RLQS is true, got '${GRPC_TRANSPORT}'`);
  if (kind === 'memcache') problems.push('BACKEND_TYPE must be redis or memory if RLQS is true, got memcache');
}

function checkUsage(values: Values, { kind }: StoreSettings, problems: string[]): void {
  if (!countsUsage(values)) return;
  if (values.USAGE_DIR !== '' && values.USAGE_URL !== undefined)
    problems.push('USAGE_DIR and USAGE_URL are mutually exclusive: remove one of them');
  if (kind === 'memcache') problems.push('USAGE requires counters in Redis or memory, got BACKEND_TYPE=memcache');
  if (kind === 'redis' && values.COUNTER_KEYS !== 'own')
    problems.push(`USAGE requires COUNTER_KEYS=own, got '${values.COUNTER_KEYS}'`);
  const isCluster = kind === 'redis' && [values.REDIS_TYPE, values.REDIS_PERSECOND_TYPE].includes('CLUSTER');
  if (isCluster && values.CLUSTER_HASH_TAG !== 'domain')
    problems.push(`USAGE requires CLUSTER_HASH_TAG=domain on a Redis Cluster, got '${values.CLUSTER_HASH_TAG}'`);
}

/** Whether admitted hits are counted by the hour. */
export const countsUsage = ({ USAGE, USAGE_DIR, USAGE_URL }: Values): boolean =>
  USAGE || USAGE_DIR !== '' || USAGE_URL !== undefined;

function checkSites(values: Values, problems: string[]): void {
  const { SITE, SITE_PEERS, SITE_LOST, SITE_TLS_CERT, SITE_TLS_KEY, SITE_TLS_CACERT } = values;
  if ((SITE === '') !== (SITE_PEERS.length === 0)) problems.push('SITE and SITE_PEERS must be set together');
  if (SITE_PEERS.some(({ site }) => site === SITE)) problems.push(`SITE_PEERS must name other sites, got '${SITE}'`);
  for (const lost of SITE_LOST)
    if (!SITE_PEERS.some(({ site }) => site === lost))
      problems.push(`SITE_LOST must name sites of SITE_PEERS, got '${lost}'`);
  const files = [SITE_TLS_CERT, SITE_TLS_KEY, SITE_TLS_CACERT].filter((file) => file !== '');
  if (files.length % 3 !== 0)
    problems.push(
      'SITE_TLS_CERT, SITE_TLS_KEY and SITE_TLS_CACERT must be set together: sites authenticate each other',
    );
}

function checkTls(values: Values, problems: string[]): void {
  if (values.GRPC_CLIENT_TLS_SAN !== '' && values.GRPC_CLIENT_TLS_CACERT === '')
    problems.push(
      'GRPC_CLIENT_TLS_CACERT must be set if GRPC_CLIENT_TLS_SAN is: otherwise callers send no certificate',
    );
  if ((values.DEBUG_TLS_CERT === '') !== (values.DEBUG_TLS_KEY === ''))
    problems.push('DEBUG_TLS_CERT and DEBUG_TLS_KEY must be set together');
  if (!values.GRPC_SERVER_USE_TLS) return;
  for (const name of ['GRPC_SERVER_TLS_CERT', 'GRPC_SERVER_TLS_KEY'] as const) {
    if (values[name] === '') problems.push(`${name} must be set if GRPC_SERVER_USE_TLS is true, got nothing`);
  }
}

/** Variables that are set but have no effect, in general or with this store, and deprecated names. */
function findWarnings(env: Environment, { kind }: StoreSettings): readonly string[] {
  const isSet = ([name]: readonly [string, ...unknown[]]): boolean => env[name] !== undefined;
  const rows: Rows = table;
  const without = Object.entries(rows)
    .filter(isSet)
    .flatMap(([name, { noEffect }]) =>
      noEffect === undefined ? [] : [`${name} is set but has no effect: ${noEffect}`],
    );
  const ofOthers = Object.entries(storeOnly)
    .filter(([name]) => isSet([name]) && env[name] !== rows[name]?.fallback)
    .filter(([, kinds]) => !kinds.includes(kind))
    .map(([name]) => `${name} is set but has no effect: counters are in ${kind}`);
  const formerNames = Object.entries(rows).flatMap(([name, { formerName }]) =>
    formerName !== undefined && env[formerName] !== undefined ? [`${formerName} is deprecated: use ${name}`] : [],
  );
  const names = Object.entries(rows).flatMap(([name, { formerName }]) => (formerName ? [name, formerName] : [name]));
  return [...without, ...ofOthers, ...formerNames, ...nearMisses(env, names)];
}

/** Variables that only have an effect beside another one, which is neither set nor turned off on purpose. */
function findUnused(
  env: Environment,
  values: Values,
  [store, candidate]: readonly [StoreSettings, RedisSettings | undefined],
): readonly string[] {
  const { CONFIG_TYPE, RUNTIME_ROOT, RUNTIME_SUBDIRECTORY } = values;
  const { REDIS_TYPE, REDIS_PERSECOND_TYPE, REDIS_PERSECOND, MEMCACHE_SRV } = values;
  const rows: Rows = table;
  const isSecure =
    store.kind === 'redis'
      ? [store.main, store.perSecond, candidate].some((one) => one?.tls)
      : store.kind === 'memory' || store.tls !== undefined;
  const prefix = store.kind === 'redis' ? 'REDIS' : 'MEMCACHE';
  const [ca, cert, key] = [`${prefix}_TLS_CACERT`, `${prefix}_TLS_CLIENT_CERT`, `${prefix}_TLS_CLIENT_KEY`];
  const needs: readonly (readonly [string, boolean, readonly string[]])[] = [
    [`${prefix}_TLS`, isSecure, [ca, cert, key]],
    [key, !isSecure || Boolean(env[key]), [cert]],
    [cert, !isSecure || Boolean(env[cert]), [key]],
    ['REDIS_TYPE=SENTINEL', REDIS_TYPE === 'SENTINEL', ['REDIS_SENTINEL_AUTH']],
    ['REDIS_PERSECOND_TYPE=SENTINEL', REDIS_PERSECOND_TYPE === 'SENTINEL', ['REDIS_PERSECOND_SENTINEL_AUTH']],
    ['REDIS_PERSECOND', REDIS_PERSECOND, ['REDIS_PERSECOND_URL']],
    ['MEMCACHE_SRV', MEMCACHE_SRV !== '', ['MEMCACHE_SRV_REFRESH']],
    ['RUNTIME_ROOT', CONFIG_TYPE !== 'FILE' || (RUNTIME_ROOT ?? RUNTIME_SUBDIRECTORY) !== undefined, otherRuntime],
  ];
  return needs
    .filter(([needed, isMet]) => !isMet && !env[needed])
    .flatMap(([needed, , names]) => names.map((name) => ({ name, needed })))
    .filter(({ name }) => env[name] && env[name] !== rows[name]?.fallback)
    .map(({ name, needed }) => `${name} is set but has no effect: ${needed} is not set`);
}

/** Variables that only have an effect with a runtime directory. */
const otherRuntime = ['RUNTIME_APPDIRECTORY', 'RUNTIME_IGNOREDOTFILES', 'RUNTIME_WATCH_ROOT'];

/** Variables that only have an effect with these stores. */
const storeOnly: Readonly<Record<string, readonly StoreSettings['kind'][]>> = {
  REDIS_URL: ['redis'],
  CANDIDATE_REDIS_URL: ['redis'],
  REDIS_PERSECOND: ['redis'],
  MEMCACHE_HOST_PORT: ['memcache'],
  MEMCACHE_SRV: ['memcache'],
  LOCAL_CACHE_SIZE_IN_BYTES: ['redis', 'memcache'],
  STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: ['redis', 'memory'],
};

type SinkSettings =
  | { readonly kind: 'none' }
  | { readonly kind: 'statsd' }
  | { readonly kind: 'dogstatsd'; readonly mogrifiers: readonly Mogrifier[] }
  | { readonly kind: 'prometheus' };

/** Chooses at most one sink, by default StatsD, as in envoyproxy/ratelimit. Conflicts are added to `problems`. */
function chooseSink(
  values: Values,
  { env, compile }: { readonly env: Environment; readonly compile: CompilePattern },
  problems: string[],
): SinkSettings {
  const { DISABLE_STATS, USE_STATSD, USE_DOG_STATSD, USE_PROMETHEUS } = values;
  if (DISABLE_STATS) return { kind: 'none' };
  const enabled = Object.entries({ USE_STATSD, USE_DOG_STATSD, USE_PROMETHEUS }).filter(([, isOn]) => isOn);
  if (enabled.length > 1) {
    problems.push(`one of USE_STATSD, USE_DOG_STATSD and USE_PROMETHEUS may be true, got ${enabled.length} of them`);
    return { kind: 'none' };
  }
  if (USE_PROMETHEUS) return { kind: 'prometheus' };
  if (USE_DOG_STATSD) {
    const parsed = parseMogrifiers(values.USE_DOG_STATSD_MOGRIFIERS, env, compile);
    if (!parsed.ok) problems.push(...parsed.problems);
    return { kind: 'dogstatsd', mogrifiers: parsed.ok ? parsed.mogrifiers : [] };
  }
  return { kind: (USE_STATSD ?? true) ? 'statsd' : 'none' };
}
