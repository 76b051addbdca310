import { createHash } from 'node:crypto';
import { getHeapStatistics } from 'node:v8';
import { unitMs } from '../engine/algorithms/limit.ts';
import type { SiteSplit } from '../engine/holds/claim.ts';
import { defaultMemoryBytes } from '../engine/open/options.ts';
import { loadPatterns } from '../operate/observe/mogrifier.ts';
import { limitHeaderNames } from './headers.ts';
import type { Environment } from './near-misses.ts';
import { type CheckedValues, countsUsage, readValues } from './values.ts';

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
    rules: readRules(values, rules),
    counters: readCounters(values),
    /** How requests are decided. */
    decisions: readDecisions(values),
    answers: readAnswers(values),
    decisionLog: {
      isOn: values.DECISION_LOG !== 'off' || ['debug', 'trace'].includes(values.LOG_LEVEL),
      decisions: values.DECISION_LOG,
      maxPerSecond: Math.max(Math.floor(values.DECISION_LOG_MAX_PER_SECOND / workers), 1),
    },
    overload: readOverload(values),
    /** Quotas for proxies that decide by themselves. */
    rlqs: readQuotas(values),
    /** Other sites; undefined if this is the only site. */
    sites: values.SITE === '' ? undefined : readSites(values),
    grpc: readGrpc(values),
    http: {
      address: { host: values.HOST, port: values.PORT },
      maxConnections: values.HTTP_MAX_CONNECTIONS,
      /** The mapping file of `/authz`; undefined without that endpoint. */
      authz: given(values.AUTHZ_MAPPING),
    },
    /** Time for which calls are answered while health is NOT_SERVING, and then for calls in flight. */
    drain: { delayMs: values.DRAIN_DELAY, timeoutMs: values.DRAIN_TIMEOUT },
    readiness: {
      requiresRules: values.HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED || !values.FORCE_START_WITHOUT_INITIAL_CONFIG,
      requiresDomain: values.HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED,
      requiresStore: values.REDIS_HEALTH_CHECK_ACTIVE_CONNECTION,
    },
    /** Amounts of data that each process keeps for operators. */
    agent: { topKeysBytes: values.TOP_KEYS_BYTES, refusals: values.EXPLAIN_SAMPLE },
    /** Memory for `weir advise --live`; 0 to disable it. */
    advice: { maxBytes: values.ADVISE_BYTES },
    admin: readAdmin(values),
    /** A Prometheus with the history of this service, if there is one. */
    prometheus:
      values.PROMETHEUS_URL === undefined
        ? undefined
        : { url: values.PROMETHEUS_URL, labels: [...values.PROMETHEUS_LABELS] },
    debug: {
      address: { host: values.DEBUG_HOST, port: values.DEBUG_PORT },
      tls: values.DEBUG_TLS_CERT === '' ? undefined : { cert: values.DEBUG_TLS_CERT, key: values.DEBUG_TLS_KEY },
    },
    /** Recording of requests, if enabled. */
    recording: values.RECORD_TO === '' ? undefined : readRecording(values),
    /** Where usage is kept; undefined: not by this instance. */
    usage: readUsage(values),
    notify: readNotify(values),
    /** Rules that are tried on live traffic. */
    candidate: readCandidate(values),
    statistics: { nearLimitRatio: values.NEAR_LIMIT_RATIO, maxNameBytes: values.STATISTICS_MAX_BYTES },
    sink: readSink(values, env),
    tracing: values.TRACING_ENABLED ? readTracing(values) : undefined,
  };
}

const readAdmin = (values: CheckedValues) => ({
  tokens: values.ADMIN_TOKEN,
  /** The header in which a proxy at these addresses names people; undefined: none does. */
  identity:
    values.ADMIN_IDENTITY_HEADER === ''
      ? undefined
      : { header: values.ADMIN_IDENTITY_HEADER, addresses: values.ADMIN_IDENTITY_ADDRESSES },
  auditLog: values.AUDIT_LOG,
  hashKeys: values.HASH_KEYS,
  hashKey: values.HASH_KEY,
});

const readOverload = ({ MAX_IN_FLIGHT_CALLS, CALLER_MEMORY_BYTES: memoryBytes, WORKERS }: CheckedValues) => ({
  maxInFlight: MAX_IN_FLIGHT_CALLS,
  memoryBytes: memoryBytes && Math.floor(memoryBytes / WORKERS),
});

function readRules(values: CheckedValues, path: string | undefined) {
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

/** Default fraction of V8's heap limit for quotas of proxies, and its upper bound. */
const RLQS_HEAP_FRACTION = 1 / 16;
const DEFAULT_MAX_QUOTA_BYTES = 128 * 1024 * 1024;

const defaultQuotaBytes = (): number =>
  Math.min(Math.floor(getHeapStatistics().heap_size_limit * RLQS_HEAP_FRACTION), DEFAULT_MAX_QUOTA_BYTES);

function readCounters(values: CheckedValues) {
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
    /** Size of the cache of refusals; 0 to disable it. */
    refusalCacheBytes: values.store.kind === 'memory' || cacheBytes === 0 ? 0 : Math.max(cacheBytes, MIN_CACHE_BYTES),
    keepRefusals: values.KEEP_REFUSALS,
    startup: {
      initialMs: values.REDIS_STARTUP_INITIAL_INTERVAL,
      maxMs: values.REDIS_STARTUP_MAX_INTERVAL,
      maxElapsedMs: values.REDIS_STARTUP_MAX_ELAPSED_TIME,
    },
    /** Division of limits that sites share; undefined if this is the only site. */
    split: splitSites(values),
    /** Hits that a refused request spends, unless its rules specify it. */
    spend: values.spend,
    isSpendSet: values.SPEND !== undefined,
    /** Whether limits are leased, unless their rules specify it. */
    consistency: values.CONSISTENCY,
    /** Whether admitted hits are counted by the hour. */
    usage: countsUsage(values),
  };
}

/** Maximum number of buckets of one proxy; RLQS_UNKNOWN applies to further ones. */
const MAX_BUCKETS = 10_000;

function readQuotas(values: CheckedValues) {
  return {
    isOn: values.RLQS,
    domains: values.RLQS_DOMAINS,
    ttlMs: values.RLQS_TTL,
    unknown: values.RLQS_UNKNOWN,
    maxBuckets: MAX_BUCKETS,
    maxBytes: values.RLQS_MAX_BYTES ?? defaultQuotaBytes(),
  };
}

/** Names of all sites in the same order at each site, by whose index a site is identified. */
const orderSites = ({ SITE, SITE_PEERS }: CheckedValues): readonly string[] =>
  [SITE, ...SITE_PEERS.map(({ site }) => site)].sort();

/** Length of the digest in the name of each counter. */
const GROUP_LENGTH = 8;

function splitSites(values: CheckedValues): SiteSplit | undefined {
  if (values.SITE === '') return undefined;
  const names = orderSites(values);
  const group = createHash('sha256').update(names.join()).digest('base64url').slice(0, GROUP_LENGTH);
  const lost = names.flatMap((name, place) => (values.SITE_LOST.includes(name) ? [place] : []));
  return { sites: names.length, site: names.indexOf(values.SITE), group, ...(lost.length > 0 && { lost }) };
}

function readSites(values: CheckedValues) {
  return {
    /** Site of this instance, and all sites in order. */
    name: values.SITE,
    names: orderSites(values),
    /** Other sites, each with the address of its instances. */
    peers: values.SITE_PEERS.filter(({ site }) => !values.SITE_LOST.includes(site)),
    /** Sites that are excluded from exchanges, and whose parts the others divide. */
    lost: values.SITE_LOST,
    address: { host: values.SITE_HOST, port: values.SITE_PORT },
    tls:
      values.SITE_TLS_CERT === ''
        ? undefined
        : { cert: values.SITE_TLS_CERT, key: values.SITE_TLS_KEY, ca: values.SITE_TLS_CACERT },
  };
}

const readDecisions = (values: CheckedValues) => ({
  shadowMode: values.SHADOW_MODE,
  quotaMode: values.QUOTA_MODE,
  spend: values.spend,
  reportsEveryLimit: values.LIMIT_IETF_HEADERS,
});

function readAnswers(values: CheckedValues) {
  return {
    headers: {
      ...limitHeaderNames(values),
      ofEveryDescriptor: values.LIMIT_ALL_DESCRIPTORS_HEADERS_ENABLED,
      ietf: values.LIMIT_IETF_HEADERS && !values.SHADOW_MODE,
      soft: values.LIMIT_SOFT_HEADER,
      wouldRefuse: values.LIMIT_WOULD_REFUSE_HEADER,
      maxWaitMs: values.LIMIT_MAX_WAIT,
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

function readGrpc(values: CheckedValues) {
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

function readSink(values: CheckedValues, env: Environment) {
  const { sink } = values;
  return {
    ...sink,
    /** As in envoyproxy/ratelimit, a tag without a name or a value is left out. */
    extraTags: new Map([...values.EXTRA_TAGS].filter(([tag, value]) => tag !== '' && value !== '')),
    statsd: {
      host: values.STATSD_HOST,
      port: values.STATSD_PORT,
      protocol: sink.kind === 'statsd' ? values.STATSD_PROTOCOL : ('udp' as const),
      flushIntervalMs: values.STATS_FLUSH_INTERVAL,
    },
    /** Whether the operator chose this sink, as opposed to the default. */
    isExplicit: sink.kind === 'dogstatsd' || Boolean(env.USE_STATSD ?? env.STATSD_HOST ?? env.STATSD_PORT),
    prometheus: {
      address: values.PROMETHEUS_ADDR,
      path: values.PROMETHEUS_PATH,
      responseTimeAsMilliseconds: values.PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS,
    },
  };
}

/** Maximum compressed octets in one file of a recording. */
const MAX_RECORDING_FILE_BYTES = 64 * 1024 * 1024;
/** Minimum number of files of all processes together, since the oldest file is removed as a whole. */
const MIN_RECORDING_FILES = 16;

function readRecording(values: CheckedValues) {
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

function readUsage({
  USAGE_DIR: directory,
  USAGE_URL: url,
  USAGE_KEEP_DAYS: days,
  USAGE_INTERVAL: intervalMs,
  store,
}: CheckedValues) {
  if (directory === '' && url === undefined) return undefined;
  return {
    at: { directory, url },
    keepMs: days * unitMs.DAY,
    intervalMs,
    /** A store that fails over may bring back what was taken shortly before. */
    settleMs: store.kind === 'redis' ? intervalMs : 0,
  };
}

/** Who is told when counters pass a share of their limit; undefined: nobody. */
function readNotify({ NOTIFY: isOn, NOTIFY_WEBHOOK_URL: url, NOTIFY_WEBHOOK_SECRET: secret }: CheckedValues) {
  if (!isOn && url === undefined) return undefined;
  return { webhook: url === undefined ? undefined : { url, secret } };
}

/** Maximum number of requests of a process that are being tried or queued for it; further ones are dropped. */
const MAX_TRIED = 4_096;

const readCandidate = (values: CheckedValues) => ({
  sample: values.CANDIDATE_SAMPLE,
  maxInFlight: MAX_TRIED,
  redis: values.candidateRedis,
});

function readTracing(values: CheckedValues) {
  return {
    protocol: values.TRACING_EXPORTER_PROTOCOL,
    samplingRate: values.TRACING_SAMPLING_RATE,
    serviceName: values.TRACING_SERVICE_NAME,
    serviceNamespace: values.TRACING_SERVICE_NAMESPACE,
    serviceInstanceId: values.TRACING_SERVICE_INSTANCE_ID,
  };
}

const given = (text: string): string | undefined => (text === '' ? undefined : text);
