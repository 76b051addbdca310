import { availableParallelism } from 'node:os';
import { choice, durationMs, host, integer, Mismatch, type Parse, partOfAll, port, someDurationMs } from './kinds.ts';
import { emptyText, off, optional, type Rows, setting, withoutEffect } from './row.ts';

const MAX_WORKERS = 1_024;

/** A number of processes, or `auto` for one per processor. */
const workers: Parse<number> = (written) => {
  if (written === 'auto') return Math.min(availableParallelism(), MAX_WORKERS);
  const count = integer(1, MAX_WORKERS, 'a count')(written);
  return count instanceof Mismatch ? new Mismatch(`${count.expected}, or auto`) : count;
};

const logLevels = choice('trace', 'debug', 'info', 'warn', 'error', 'fatal');
/** Level names of Go programs. */
const otherLevels = new Map([
  ['warning', 'warn'],
  ['panic', 'fatal'],
]);
const logLevel = ((written) => logLevels(otherLevels.get(written.toLowerCase()) ?? written)) satisfies Parse<string>;

/** One of these words, or a fraction above 0 and up to 1. */
const decisionsToLog: Parse<'off' | 'refused' | 'all' | number> = (written) => {
  const word = choice('off', 'refused', 'all')(written);
  if (!(word instanceof Mismatch)) return word;
  const part = partOfAll(written);
  return part instanceof Mismatch ? new Mismatch(`off, refused, all, or ${part.expected}`) : part;
};

const renamed = <S extends Rows[string]>(formerName: string, row: S) => ({ ...row, formerName });

const EVERY_ADDRESS = '0.0.0.0: every address, IPv4 and IPv6';

/** Addresses, limits and processes of the servers. */
export const serverRows = {
  GRPC_HOST: setting(host, '0.0.0.0', `address of the gRPC server; ${EVERY_ADDRESS}`),
  GRPC_PORT: setting(port, '8081', 'port of the gRPC server'),
  GRPC_TRANSPORT: setting(
    choice('h2', 'grpc-js'),
    'h2',
    'gRPC implementation: the HTTP/2 server of this service, or @grpc/grpc-js, which must not be exposed to hostile clients',
  ),
  GRPC_UDS: emptyText('path of a unix socket for the gRPC server, instead of GRPC_HOST and GRPC_PORT'),
  GRPC_SERVER_USE_TLS: off('require TLS for gRPC'),
  GRPC_SERVER_TLS_CERT: emptyText('file with the certificate of the gRPC server, reloaded when it changes'),
  GRPC_SERVER_TLS_KEY: emptyText('file with the key of the certificate'),
  GRPC_CLIENT_TLS_CACERT: emptyText(
    'file with the CA of client certificates, which are then required; empty: none required',
  ),
  GRPC_CLIENT_TLS_SAN: emptyText('DNS name required in client certificates; empty: any'),
  GRPC_MAX_CONNECTIONS: setting(
    integer(1, 1_000_000, 'a number of connections'),
    '50000',
    'maximum number of gRPC connections of each worker; a further one replaces an idle one, or is closed',
  ),
  GRPC_MAX_CONNECTION_AGE: setting(
    durationMs,
    '24h',
    'maximum age of a connection, ±10 %; its client is then sent GOAWAY',
  ),
  GRPC_MAX_CONNECTION_AGE_GRACE: setting(durationMs, '1h', 'how long calls may run after GOAWAY'),
  GRPC_KEEPALIVE_TIME: setting(durationMs, '2h', 'a connection is pinged after this idle time'),
  GRPC_KEEPALIVE_TIMEOUT: setting(
    someDurationMs,
    '20s',
    'a connection is closed if a ping is not answered within this time',
  ),
  HOST: setting(host, '0.0.0.0', `address of the HTTP server (/json, /healthcheck); ${EVERY_ADDRESS}`),
  PORT: setting(port, '8080', 'port of the HTTP server'),
  HTTP_MAX_CONNECTIONS: setting(
    integer(1, 1_000_000, 'a number of connections'),
    '10000',
    'maximum number of connections to the HTTP server of each worker; a further one replaces an idle one, or is closed',
  ),
  AUTHZ_MAPPING: emptyText(
    "file that maps headers to descriptors for /authz on the HTTP port, which Traefik's forwardAuth and NGINX's auth_request may ask (docs/proxies.md); empty: no such endpoint",
  ),
  DEBUG_HOST: setting(host, '0.0.0.0', `address of the debug server (/rlconfig, /metrics, /stats); ${EVERY_ADDRESS}`),
  DEBUG_PORT: setting(port, '6070', 'port of the debug server'),
  DEBUG_TLS_CERT: emptyText(
    'file with the certificate of the debug server, reloaded when it changes; empty: plain HTTP',
  ),
  DEBUG_TLS_KEY: emptyText('file with the key of the certificate'),
  WORKERS: setting(
    workers,
    '1',
    'number of worker processes on the same ports; auto: one per processor; more than 1 requires REDIS_URL or memcached',
  ),
  LOG_LEVEL: setting(logLevel, 'warn', 'minimum level of logged lines: trace, debug, info, warn, error or fatal'),
  LOG_FORMAT: setting(
    choice('text', 'json'),
    'text',
    'format of log lines; json: every line, except that a terminal shows a summary at the start',
  ),
  DECISION_LOG: setting(
    decisionsToLog,
    'off',
    'decisions to log with entries, rule, file and line, independent of LOG_LEVEL: off, refused, all, or a fraction of them such as 0.01. Entries may contain personal data',
  ),
  DECISION_LOG_MAX_PER_SECOND: setting(
    integer(1, 1_000_000, 'a count'),
    '100',
    'maximum number of logged decisions per second, divided equally among WORKERS. Others are counted in weir_decisions_not_logged_total',
  ),
  MAX_IN_FLIGHT_CALLS: renamed(
    'MAX_CALLS_UNDER_WAY',
    setting(
      integer(1, 1_000_000, 'a number of calls'),
      '20000',
      'maximum number of calls in flight, including delayed ones; more are refused with RESOURCE_EXHAUSTED',
    ),
  ),
  CALLER_MEMORY_BYTES: optional(
    integer(2 ** 20, 2 ** 40, 'bytes'),
    "memory held for all callers together: waiting requests, streams, bodies and unread output; beyond it the connection that holds most is reset. Divided equally among WORKERS. Unset: a sixteenth of V8's heap limit in each process, at most 256 MiB",
  ),
  OVERLOAD_LAG: withoutEffect(durationMs, 'late processes answer from memory (on_overload)'),
  DRAIN_DELAY: setting(
    durationMs,
    '0',
    'how long calls are still answered after SIGTERM while health is NOT_SERVING, so that load balancers can react',
  ),
  DRAIN_TIMEOUT: setting(durationMs, '10s', 'how long calls in flight may run after DRAIN_DELAY'),
  HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: off(
    'health is not serving while no domain is loaded, also with FORCE_START_WITHOUT_INITIAL_CONFIG',
  ),
} as const satisfies Rows;
