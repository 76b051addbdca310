import {
  choice,
  decisionsToLog,
  durationMs,
  flag,
  integer,
  logLevel,
  port,
  ratio,
  someDurationMs,
  text,
  workers,
} from './kinds.ts';
import { optional, type Rows, setting } from './row.ts';

/** Where the service listens, and how it runs. */
export const serverRows = {
  GRPC_HOST: setting(text, '0.0.0.0', 'address of the gRPC server'),
  GRPC_PORT: setting(port, '8081', 'port of the gRPC server'),
  GRPC_TRANSPORT: setting(
    choice('h2', 'grpc-js'),
    'h2',
    'what carries gRPC: the lean HTTP/2 server of this service, or the one of @grpc/grpc-js',
  ),
  GRPC_UDS: setting(text, '', 'path of a unix socket for the gRPC server, instead of GRPC_HOST and GRPC_PORT'),
  GRPC_SERVER_USE_TLS: setting(flag, 'false', 'gRPC over TLS only'),
  GRPC_SERVER_TLS_CERT: setting(text, '', 'file with the certificate of the gRPC server, read again when it changes'),
  GRPC_SERVER_TLS_KEY: setting(text, '', 'file with its key'),
  GRPC_CLIENT_TLS_CACERT: setting(
    text,
    '',
    'file with the authority whose certificates callers must show; empty: none',
  ),
  GRPC_CLIENT_TLS_SAN: setting(text, '', 'DNS name that the certificate of a caller must have; empty: any'),
  GRPC_MAX_CONNECTIONS: setting(
    integer(1, 1_000_000, 'a number of connections'),
    '50000',
    'connections of gRPC at a time, of each worker; those beyond are closed at once',
  ),
  GRPC_MAX_CONNECTION_AGE: setting(
    durationMs,
    '24h',
    'after so long, give or take a tenth, a connection is asked to go',
  ),
  GRPC_MAX_CONNECTION_AGE_GRACE: setting(durationMs, '1h', 'how long its calls may still take then'),
  GRPC_KEEPALIVE_TIME: setting(durationMs, '2h', 'a connection that is silent for so long is pinged'),
  GRPC_KEEPALIVE_TIMEOUT: setting(someDurationMs, '20s', 'and closed where no answer comes for so long'),
  HOST: setting(text, '0.0.0.0', 'address of the HTTP server (/json, /healthcheck)'),
  PORT: setting(port, '8080', 'port of the HTTP server'),
  HTTP_MAX_CONNECTIONS: setting(
    integer(1, 1_000_000, 'a number of connections'),
    '10000',
    'connections to the HTTP server at a time, of each worker; those beyond are closed at once',
  ),
  DEBUG_HOST: setting(text, '0.0.0.0', 'address of the debug server (/rlconfig, /metrics, /stats)'),
  DEBUG_PORT: setting(port, '6070', 'port of the debug server'),
  DEBUG_TLS_CERT: setting(
    text,
    '',
    'file with the certificate of the debug server, read again when it changes; empty: plain HTTP',
  ),
  DEBUG_TLS_KEY: setting(text, '', 'file with its key'),
  WORKERS: setting(
    workers,
    '1',
    'processes that answer, on the same ports; auto: as many as there are processors; more than 1 needs REDIS_URL or memcached',
  ),
  LOG_LEVEL: setting(logLevel, 'warn', 'the least level that is logged: trace, debug, info, warn, error or fatal'),
  LOG_FORMAT: setting(choice('text', 'json'), 'text', 'how log lines look'),
  DECISION_LOG: setting(
    decisionsToLog,
    'off',
    'which decisions are logged, with entries, rule, file and line, whatever LOG_LEVEL says: off, refused, all, or a part of them such as 0.01. Entries may hold personal data',
  ),
  DECISION_LOG_MAX_PER_SECOND: setting(
    integer(1, 1_000_000, 'a count'),
    '100',
    'decisions that are logged in a second at most; WORKERS share it equally. The others are counted in weir_decisions_not_logged_total',
  ),
  MAX_CALLS_UNDER_WAY: setting(
    integer(1, 1_000_000, 'a number of calls'),
    '20000',
    'calls at a time, those that are held included; more are refused with RESOURCE_EXHAUSTED',
  ),
  CALLER_MEMORY_BYTES: optional(
    integer(2 ** 20, 2 ** 40, 'bytes'),
    "what all callers together may make the service hold: requests that wait, streams, bodies, output they do not read; beyond it the connection that holds most is reset. WORKERS share it equally. Unset: a sixteenth of V8's heap limit in each process, 256 MiB at most",
  ),
  OVERLOAD_LAG: setting(
    durationMs,
    '5ms',
    'while the event loop is so late, a part of the calls is refused with RESOURCE_EXHAUSTED; 0: never',
  ),
  DRAIN_DELAY: setting(
    durationMs,
    '0',
    'after SIGTERM, for how long everything is answered as before while health says NOT_SERVING, so that balancers turn away',
  ),
  DRAIN_TIMEOUT: setting(durationMs, '10s', 'the longest that calls under way may take after that'),
  HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: setting(
    flag,
    'false',
    'health is not serving while the rules in force have no domain',
  ),
} as const satisfies Rows;

/** Traces for OpenTelemetry; the standard OTEL_EXPORTER_OTLP_* variables say where they go. */
export const tracingRows = {
  TRACING_ENABLED: setting(flag, 'false', 'send traces by OTLP, where OTEL_EXPORTER_OTLP_ENDPOINT says'),
  TRACING_SERVICE_NAME: setting(text, 'RateLimit', 'service.name of the traces'),
  TRACING_SERVICE_NAMESPACE: setting(text, '', 'service.namespace of the traces'),
  TRACING_SERVICE_INSTANCE_ID: setting(text, '', 'service.instance.id of the traces; empty: a random UUID'),
  TRACING_EXPORTER_PROTOCOL: setting(choice('http', 'grpc'), 'http', 'what OTLP goes over'),
  TRACING_SAMPLING_RATE: setting(
    ratio,
    '1',
    'the part of the traces that begin here and are kept; others follow their caller',
  ),
} as const satisfies Rows;
