import {
  addressBlocks,
  cappedRatio,
  choice,
  flag,
  headerName,
  httpUrl,
  integer,
  labels,
  type Parse,
  partOfAll,
  postgresUrl,
  someDurationMs,
  text,
  textNotEmpty,
} from './kinds.ts';
import { emptyText, off, type Rows, secret, setting } from './row.ts';

const tracingProtocol: Parse<'http' | 'grpc'> = (written) => choice('http', 'grpc')(written === '' ? 'http' : written);

/** The admin API on the debug port. */
const adminRows = {
  ADMIN_TOKEN: secret(
    text,
    "tokens for `Authorization: Bearer …`, required for changes, callers' values and profiles on the debug port: one secret, or comma-separated name:role:secret with role read or operate, for some domains alone role@domain+domain; unset: changes and profiles are disabled, and values are for clients on this machine that know the token in the address of the console that is printed at the start",
  ),
  ADMIN_IDENTITY_HEADER: setting(
    headerName,
    '',
    'header in which an authenticating proxy before the debug port names the person behind a request, such as x-auth-request-email: that name is then in the audit log. The proxy also sends a token of ADMIN_TOKEN, which says what the person may do; empty: names are those of tokens',
  ),
  ADMIN_IDENTITY_ADDRESSES: setting(
    addressBlocks,
    '127.0.0.0/8,::1',
    'comma-separated addresses and blocks of that proxy; the header of other clients is ignored',
  ),
  AUDIT_LOG: setting(
    text,
    'stderr',
    'destination of the audit log, a line of JSON before each change: stderr, or the path of a file; a change whose line cannot be written is refused',
  ),
  TOP_KEYS_BYTES: setting(
    integer(0, 2 ** 40, 'bytes'),
    '16777216',
    'memory of each process for the most frequent descriptors of each rule (/api/v1/top); 0: disabled',
  ),
  EXPLAIN_SAMPLE: setting(
    integer(0, 10_000, 'refusals'),
    '0',
    'number of the last refusals that each process keeps with their explanation, and of requests that would have been refused (/api/v1/refusals); 0: none',
  ),
  ADVISE_BYTES: setting(
    integer(0, 2 ** 40, 'bytes'),
    '0',
    'memory for the use of each limit by its keys, which `weir advise --live` evaluates (/api/v1/advice): about 1,000 bytes per key; 0: disabled',
  ),
  HASH_KEYS: off("show, record and log callers' values as hashes: on the debug port, in statistics, and in logs"),
  HASH_KEY: secret(textNotEmpty, 'key of these hashes; unset: generated, and shared by all instances on one Redis'),
} as const satisfies Rows;

/** The console's history beyond the memory of the service. */
const historyRows = {
  PROMETHEUS_URL: secret(
    httpUrl,
    'base URL of a Prometheus that scrapes this service, with user and password if it needs them; plots of the console go back as far as it does. Unset: they begin with the process',
  ),
  PROMETHEUS_LABELS: setting(
    labels,
    '',
    'comma-separated labels that select this service in PROMETHEUS_URL, such as job=weir,namespace=shop; empty: its metrics are those of no other service',
  ),
} as const satisfies Rows;

/** Recording of requests for `weir replay`. */
const recordRows = {
  RECORD_TO: emptyText(
    'directory for recordings of requests and their answers, for `weir replay`: compressed files of JSON lines; empty: nothing is recorded',
  ),
  RECORD_FROM_START: setting(flag, 'true', 'start recording at start-up; false: when `weir record` is called'),
  RECORD_SAMPLE: setting(
    partOfAll,
    '1',
    'fraction of the counters whose requests are recorded; every process samples the same counters',
  ),
  RECORD_MAX_PER_SECOND: setting(
    integer(1, 2 ** 31 - 1, 'a count'),
    '20000',
    'maximum number of recorded requests per second, divided equally among WORKERS. Others are counted in weir_requests_not_recorded_total',
  ),
  RECORD_MAX_BYTES: setting(
    integer(2 ** 20, 2 ** 50, 'bytes'),
    '1073741824',
    'size of all recordings in the directory; the oldest files are removed to stay below it',
  ),
  RECORD_HASH_KEY: secret(
    textNotEmpty,
    'key to hash recorded values that no rule names, literally or by a pattern; unset: all values are recorded unchanged',
  ),
} as const satisfies Rows;

const usageRows = {
  USAGE: off(
    'count the admitted hits of each key by the hour; implied by USAGE_DIR and USAGE_URL, one of which must be set in some instance; requires CLUSTER_HASH_TAG=domain on a Redis Cluster: docs/usage.md',
  ),
  USAGE_DIR: emptyText('directory of this instance alone in which usage is kept, as compressed files'),
  USAGE_URL: secret(
    postgresUrl,
    'PostgreSQL in which usage is kept, as postgres://user:password@host:port/database; any number of instances may use it',
  ),
  USAGE_KEEP_DAYS: setting(integer(1, 36_500, 'days'), '400', 'how long usage is kept'),
  USAGE_INTERVAL: setting(someDurationMs, '10s', 'how often usage is collected; reports are up to twice as late'),
} as const satisfies Rows;

const notifyRows = {
  NOTIFY: off(
    'watch the limits of rules with notify, and log, list and count when counters pass a share of them; implied by NOTIFY_WEBHOOK_URL',
  ),
  NOTIFY_WEBHOOK_URL: secret(httpUrl, 'http or https URL that these events are sent to, by POST (docs/notify.md)'),
  NOTIFY_WEBHOOK_SECRET: secret(
    textNotEmpty,
    'secret of the signatures in webhook-signature, in the format of Standard Webhooks: whsec_ and base64, or any text; unset: requests are not signed',
  ),
} as const satisfies Rows;

/** Rules that are tried on live traffic. */
const candidateRows = {
  CANDIDATE_RULES_PATH: emptyText(
    'rule file or directory to try beside the current rules (docs/change-a-limit.md); empty: an operator loads the candidate through the admin API',
  ),
  CANDIDATE_SAMPLE: setting(
    partOfAll,
    '1',
    'fraction of the counters whose requests are tried; every process samples the same counters',
  ),
  CANDIDATE_REDIS_URL: secret(
    text,
    "Redis for the candidate's counters, in the format of REDIS_URL with REDIS_TYPE=SINGLE; unset: the Redis of REDIS_URL, through a separate connection",
  ),
} as const satisfies Rows;

/** OpenTelemetry traces; the exporters read the standard OTEL_EXPORTER_OTLP_* variables. */
const tracingRows = {
  TRACING_ENABLED: off('send OTLP traces to OTEL_EXPORTER_OTLP_ENDPOINT'),
  TRACING_SERVICE_NAME: setting(text, 'RateLimit', 'service.name of the traces'),
  TRACING_SERVICE_NAMESPACE: emptyText('service.namespace of the traces'),
  TRACING_SERVICE_INSTANCE_ID: emptyText('service.instance.id of the traces; empty: a random UUID'),
  TRACING_EXPORTER_PROTOCOL: setting(tracingProtocol, 'http', 'transport of OTLP'),
  TRACING_SAMPLING_RATE: setting(
    cappedRatio,
    '1',
    'fraction of the traces started here that are sent; others follow the sampling decision of the caller',
  ),
} as const satisfies Rows;

/** Variables for operators, by topic. */
export const operatorGroups = {
  'The admin API': adminRows,
  'History of the console': historyRows,
  Recording: recordRows,
  Usage: usageRows,
  Notifications: notifyRows,
  'Candidate rules': candidateRows,
  Traces: tracingRows,
};
