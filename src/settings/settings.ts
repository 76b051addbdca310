import { createHash } from 'node:crypto';
import { getHeapStatistics } from 'node:v8';
import type { SiteSplit } from '../engine/holds/site-share.ts';
import { defaultMemoryBytes } from '../engine/open/options.ts';
import { loadPatterns } from '../operate/observe/mogrifier.ts';
import { limitHeaderNames } from './headers.ts';
import type { Environment } from './near-misses.ts';
import { type CheckedValues, readValues } from './values.ts';

/** Each part's own options. */
export type Settings = Awaited<ReturnType<typeof readSettings>>;

/**
 * Reads each part's own options from the environment.
 *
 * @param rules  the path of the rules, overriding the environment
 * @throws InvalidSettings listing every invalid variable
 */
export async function readSettings(env: Environment, rules?: string) {
  const values = readValues(env, env.USE_DOG_STATSD_MOGRIFIERS ? await loadPatterns() : undefined);
  const { WORKERS: workers } = values;
  return {
    /** Variables that are set but have no effect or are deprecated, one message each. */
    warnings: values.warnings,
    log: { level: values.LOG_LEVEL, format: values.LOG_FORMAT },
    /** Number of processes that answer requests. */
    workers,
    rules: rulesOf(values, rules),
    counters: countersOf(values),
    /** How requests are decided. */
    decisions: decisionsOf(values),
    answers: answersOf(values),
    decisionLog: {
      decisions: values.DECISION_LOG,
      maxPerSecond: Math.max(Math.floor(values.DECISION_LOG_MAX_PER_SECOND / workers), 1),
    },
    overload: {
      maxInFlight: values.MAX_IN_FLIGHT_CALLS,
      memoryBytes: values.CALLER_MEMORY_BYTES && Math.floor(values.CALLER_MEMORY_BYTES / workers),
    },
    /** Shares of limits for proxies that decide by themselves. */
    rlqs: quotasOf(values),
    /** Undefined: this is the only site. */
    sites: values.SITE === '' ? undefined : sitesOf(values),
    grpc: grpcOf(values),
    http: { address: { host: values.HOST, port: values.PORT }, maxConnections: values.HTTP_MAX_CONNECTIONS },
    /** How long calls are answered while health is NOT_SERVING, then how long those in flight may run. */
    drain: { delayMs: values.DRAIN_DELAY, timeoutMs: values.DRAIN_TIMEOUT },
    readiness: {
      requiresRules: !values.FORCE_START_WITHOUT_INITIAL_CONFIG,
      requiresDomain: values.HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED,
      requiresStore: values.REDIS_HEALTH_CHECK_ACTIVE_CONNECTION,
    },
    /** How much each process keeps for operators. */
    agent: { topKeysBytes: values.TOP_KEYS_BYTES, refusals: values.EXPLAIN_SAMPLE },
    /** The data for `weir advise --from`; 0: none is collected. */
    advice: { maxBytes: values.ADVISE_BYTES },
    admin: {
      tokens: values.ADMIN_TOKEN,
      hosts: values.ADMIN_HOSTS,
      auditLog: values.AUDIT_LOG,
      hashKeys: values.HASH_KEYS,
      hashKey: values.HASH_KEY,
    },
    debug: {
      address: { host: values.DEBUG_HOST, port: values.DEBUG_PORT },
      tls: values.DEBUG_TLS_CERT === '' ? undefined : { cert: values.DEBUG_TLS_CERT, key: values.DEBUG_TLS_KEY },
    },
    /** Undefined: requests are not recorded. */
    recording: values.RECORD_TO === '' ? undefined : recordingOf(values),
    /** Rules that are tried on live traffic. */
    candidate: candidateOf(values),
    statistics: { nearLimitRatio: values.NEAR_LIMIT_RATIO, maxNameBytes: values.STATISTICS_MAX_BYTES },
    sink: sinkOf(values),
    tracing: values.TRACING_ENABLED ? tracingOf(values) : undefined,
  };
}

function rulesOf(values: CheckedValues, path: string | undefined) {
  return {
    /** A path, a runtime directory of envoyproxy/ratelimit, or the address of a control plane. */
    origin: path === undefined ? values.rules : { path },
    overlayPath: given(values.RULES_OVERLAY),
    candidate: { path: given(values.CANDIDATE_RULES_PATH) },
    mergeDomains: values.MERGE_DOMAIN_CONFIG,
    controlPlane: {
      nodeId: values.CONFIG_GRPC_XDS_NODE_ID,
      nodeMetadata: values.CONFIG_GRPC_XDS_NODE_METADATA,
      additionalHeaders: values.CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS,
      tls: values.CONFIG_GRPC_XDS_SERVER_USE_TLS
        ? {
            caFile: given(values.CONFIG_GRPC_XDS_SERVER_TLS_CACERT),
            certFile: given(values.CONFIG_GRPC_XDS_CLIENT_TLS_CERT),
            keyFile: given(values.CONFIG_GRPC_XDS_CLIENT_TLS_KEY),
            serverName: given(values.CONFIG_GRPC_XDS_SERVER_TLS_SAN),
          }
        : undefined,
      backOff: {
        initialMs: values.XDS_CLIENT_BACKOFF_INITIAL_INTERVAL,
        maxMs: values.XDS_CLIENT_BACKOFF_MAX_INTERVAL,
        jitter: values.XDS_CLIENT_BACKOFF_JITTER,
      },
      maxMessageBytes: values.XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES,
    },
  };
}

/** Minimum size of the cache of refusals, as in envoyproxy/ratelimit. */
const MIN_CACHE_BYTES = 512 * 1024;

/** Default share of V8's heap limit for shares of proxies, and its upper bound. */
const DEFAULT_HEAP_SHARE_OF_SHARES = 1 / 16;
const DEFAULT_MAX_SHARE_BYTES = 128 * 1024 * 1024;

const defaultShareBytes = (): number =>
  Math.min(Math.floor(getHeapStatistics().heap_size_limit * DEFAULT_HEAP_SHARE_OF_SHARES), DEFAULT_MAX_SHARE_BYTES);

function countersOf(values: CheckedValues) {
  const { MEMORY_MAX_BYTES: together, LOCAL_CACHE_SIZE_IN_BYTES: cacheBytes, WORKERS: processes } = values;
  const memoryBytes = together === undefined ? defaultMemoryBytes() : Math.floor(together / processes);
  return {
    store: values.store,
    storeTimeoutMs: values.STORE_TIMEOUT,
    keys: {
      kind: values.COUNTER_KEYS,
      prefix: values.CACHE_KEY_PREFIX,
      hashTag: values.CLUSTER_HASH_TAG,
      jitterMaxSeconds: values.EXPIRATION_JITTER_MAX_SECONDS,
    },
    /** Limits of one process for counters in memory. */
    memory: { maxCounters: values.MEMORY_MAX_COUNTERS, maxBytes: memoryBytes },
    /** 0: refusals are not remembered. */
    denyCacheBytes: values.store.kind === 'memory' || cacheBytes === 0 ? 0 : Math.max(cacheBytes, MIN_CACHE_BYTES),
    startup: {
      initialMs: values.REDIS_STARTUP_INITIAL_INTERVAL,
      maxMs: values.REDIS_STARTUP_MAX_INTERVAL,
      maxElapsedMs: values.REDIS_STARTUP_MAX_ELAPSED_TIME,
    },
    /** The division of limits that sites share; undefined: this is the only site. */
    split: splitOf(values),
    /** The hits that a refused request spends, unless its rules specify it. */
    spend: values.spend,
    isSpendSet: values.SPEND !== undefined,
  };
}

function quotasOf(values: CheckedValues) {
  return {
    isOn: values.RLQS,
    domains: values.RLQS_DOMAINS,
    ttlMs: values.RLQS_TTL,
    unknown: values.RLQS_UNKNOWN,
    maxBuckets: values.RLQS_MAX_BUCKETS,
    maxBytes: values.RLQS_MAX_BYTES ?? defaultShareBytes(),
  };
}

/** The names of all sites, in the same order at each site: a site is identified by its index. */
const siteNamesOf = ({ SITE, SITE_PEERS }: CheckedValues): readonly string[] =>
  [SITE, ...SITE_PEERS.map(({ site }) => site)].sort();

/** The length of the digest in the name of each counter. */
const GROUP_LENGTH = 8;

function splitOf(values: CheckedValues): SiteSplit | undefined {
  if (values.SITE === '') return undefined;
  const names = siteNamesOf(values);
  const group = createHash('sha256').update(names.join()).digest('base64url').slice(0, GROUP_LENGTH);
  const lost = names.flatMap((name, place) => (values.SITE_LOST.includes(name) ? [place] : []));
  return { sites: names.length, site: names.indexOf(values.SITE), group, ...(lost.length > 0 && { lost }) };
}

function sitesOf(values: CheckedValues) {
  return {
    /** The site of this instance, and all sites in order. */
    name: values.SITE,
    names: siteNamesOf(values),
    /** The other sites, each with the address of its instances. */
    peers: values.SITE_PEERS.filter(({ site }) => !values.SITE_LOST.includes(site)),
    /** Sites that are excluded from exchanges: the others divide their parts. */
    lost: values.SITE_LOST,
    address: { host: values.SITE_HOST, port: values.SITE_PORT },
    tls:
      values.SITE_TLS_CERT === ''
        ? undefined
        : { cert: values.SITE_TLS_CERT, key: values.SITE_TLS_KEY, ca: values.SITE_TLS_CACERT },
  };
}

const decisionsOf = (values: CheckedValues) => ({
  shadowMode: values.SHADOW_MODE,
  quotaMode: values.QUOTA_MODE,
  spend: values.spend,
  reportsEveryLimit: values.LIMIT_IETF_HEADERS,
});

function answersOf(values: CheckedValues) {
  return {
    headers: {
      ...limitHeaderNames(values),
      ofEveryDescriptor: values.LIMIT_ALL_DESCRIPTORS_HEADERS_ENABLED,
      ietf: values.LIMIT_IETF_HEADERS && !values.SHADOW_MODE,
      soft: values.LIMIT_SOFT_HEADER,
      quotaMode: values.QUOTA_MODE,
    },
    metadata: {
      ofRequest: values.RESPONSE_DYNAMIC_METADATA,
      ofRule: values.RESPONSE_RULE_METADATA,
      ofPassed: values.RESPONSE_PASSED_DESCRIPTORS,
      quotaMode: values.QUOTA_MODE,
    },
  };
}

function grpcOf(values: CheckedValues) {
  const { GRPC_HOST: host, GRPC_PORT: port, GRPC_UDS: path } = values;
  return {
    address: path === '' ? { host, port } : { path },
    transport: values.GRPC_TRANSPORT,
    tls: values.GRPC_SERVER_USE_TLS
      ? {
          files: {
            cert: values.GRPC_SERVER_TLS_CERT,
            key: values.GRPC_SERVER_TLS_KEY,
            clientCa: given(values.GRPC_CLIENT_TLS_CACERT),
          },
          clientName: given(values.GRPC_CLIENT_TLS_SAN),
        }
      : undefined,
    connections: {
      maxCount: values.GRPC_MAX_CONNECTIONS,
      maxAgeMs: values.GRPC_MAX_CONNECTION_AGE,
      maxAgeGraceMs: values.GRPC_MAX_CONNECTION_AGE_GRACE,
      keepaliveTimeMs: values.GRPC_KEEPALIVE_TIME,
      keepaliveTimeoutMs: values.GRPC_KEEPALIVE_TIMEOUT,
    },
  };
}

function sinkOf(values: CheckedValues) {
  const { sink } = values;
  return {
    ...sink,
    extraTags: values.EXTRA_TAGS,
    statsd: {
      host: values.STATSD_HOST,
      port: values.STATSD_PORT,
      protocol: sink.kind === 'statsd' ? values.STATSD_PROTOCOL : ('udp' as const),
      flushIntervalMs: values.STATS_FLUSH_INTERVAL,
    },
    /** Whether the operator chose this sink, as opposed to the default. */
    isExplicit: values.USE_STATSD !== undefined || sink.kind === 'dogstatsd',
    prometheus: {
      address: values.PROMETHEUS_ADDR,
      path: values.PROMETHEUS_PATH,
      responseTimeAsMilliseconds: values.PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS,
    },
  };
}

/** The most compressed octets in one file of a recording. */
const MAX_RECORDING_FILE_BYTES = 64 * 1024 * 1024;
/** The least number of files of all processes together, since the oldest file is removed as a whole. */
const MIN_RECORDING_FILES = 16;

function recordingOf(values: CheckedValues) {
  const { RECORD_TO: directory, RECORD_SAMPLE: sample, RECORD_MAX_BYTES: maxBytes, WORKERS: processes } = values;
  return {
    directory,
    sample,
    maxBytes,
    fileBytes: Math.floor(Math.min(maxBytes / (MIN_RECORDING_FILES * processes), MAX_RECORDING_FILE_BYTES)),
    maxPerSecond: Math.max(Math.floor(values.RECORD_MAX_PER_SECOND / processes), 1),
    isFromStart: values.RECORD_FROM_START,
    hashKey: values.RECORD_HASH_KEY,
    /** Settings that affect decisions in addition to the rules, for the heads of files. */
    settings: {
      BACKEND_TYPE: values.store.kind,
      SPEND: values.spend,
      SHADOW_MODE: values.SHADOW_MODE,
      QUOTA_MODE: values.QUOTA_MODE,
    },
  };
}

const candidateOf = (values: CheckedValues) => ({
  sample: values.CANDIDATE_SAMPLE,
  maxInFlight: values.CANDIDATE_MAX_IN_FLIGHT,
  redis: values.candidateRedis,
});

function tracingOf(values: CheckedValues) {
  return {
    protocol: values.TRACING_EXPORTER_PROTOCOL,
    samplingRate: values.TRACING_SAMPLING_RATE,
    serviceName: values.TRACING_SERVICE_NAME,
    serviceNamespace: values.TRACING_SERVICE_NAMESPACE,
    serviceInstanceId: values.TRACING_SERVICE_INSTANCE_ID,
  };
}

const given = (text: string): string | undefined => (text === '' ? undefined : text);
