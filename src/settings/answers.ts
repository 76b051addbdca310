import {
  cappedRatio,
  choice,
  flag,
  integer,
  list,
  Mismatch,
  type Parse,
  pairs,
  port,
  someDurationMs,
  text,
} from './kinds.ts';
import { off, optional, type Rows, setting, withoutEffect } from './row.ts';

/** An HTTP field name. @see https://www.rfc-editor.org/rfc/rfc9110#name-field-names */
const headerName: Parse<string> = (written) =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(written) ? written : new Mismatch('a header name such as RateLimit-Limit');
const headerNameOrNone: Parse<string> = (written) => (written === '' ? written : headerName(written));
const headerNames: Parse<readonly string[]> = (written) => {
  const names = list(written);
  const areValid = names.every((name) => !(headerName(name) instanceof Mismatch));
  return areValid ? names : new Mismatch('comma-separated header names such as Retry-After');
};

/** `host:port`, or `:port` for all addresses of this machine. */
const listenAddress: Parse<{ readonly host: string; readonly port: number }> = (written) => {
  const [, address = '', digits] = /^(.*):(\d+)$/.exec(written) ?? [];
  const number = digits === undefined ? undefined : port(digits);
  if (typeof number !== 'number') return new Mismatch('host:port, or :port for all addresses');
  return { host: address.replace(/^\[(.*)\]$/, '$1'), port: number };
};

const hostOrLocalhost: Parse<string> = (written) => (written === '' ? 'localhost' : written);

/** A URL path. */
const pagePath: Parse<string> = (written) =>
  written.startsWith('/') ? written : new Mismatch('a path that begins with /');

const answerRows = {
  SHADOW_MODE: off('always answer OK; each status still has the decision of its limit'),
  QUOTA_MODE: off('treat every rule as a quota rule (quota_mode)'),
  LIMIT_RESPONSE_HEADERS_ENABLED: off(
    'send headers for limit, remaining hits and reset with every answer that has a limit',
  ),
  LIMIT_ALL_DESCRIPTORS_HEADERS_ENABLED: off(
    'these headers describe every descriptor that has a limit, with comma-separated values; false: only one',
  ),
  LIMIT_HEADER_STYLE: setting(
    choice('ratelimit', 'x-ratelimit'),
    'ratelimit',
    'names of these headers, unless the settings below override them: RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset; or X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, with X-RateLimit-Retry-After if the request is refused',
  ),
  LIMIT_LIMIT_HEADER: optional(headerName, 'header for the limit; unset: the name from LIMIT_HEADER_STYLE'),
  LIMIT_REMAINING_HEADER: optional(
    headerName,
    'header for the remaining hits; unset: the name from LIMIT_HEADER_STYLE',
  ),
  LIMIT_RESET_HEADER: optional(
    headerName,
    'header for the seconds until a request can pass, or else until more hits can; unset: the name from LIMIT_HEADER_STYLE',
  ),
  LIMIT_RETRY_AFTER_HEADERS: optional(
    headerNames,
    'headers for the seconds until a refused request could pass, such as Retry-After,X-RateLimit-Retry-After; empty: none; unset: the names from LIMIT_HEADER_STYLE',
  ),
  LIMIT_IETF_HEADERS: off(
    "send RateLimit-Policy and RateLimit for all limits that can refuse the request, as the IETF's draft 11 defines them; not with SHADOW_MODE",
  ),
  LIMIT_MAX_WAIT: setting(
    someDurationMs,
    '576h',
    'maximum of the waits in headers; timers of many clients end at once beyond 2^31 ms, which is less than 25 days',
  ),
  LIMIT_SOFT_HEADER: setting(
    headerNameOrNone,
    'X-RateLimit-Soft-Exceeded',
    'header with the rules that admitted a request in their soft part, independent of the settings above; empty: none',
  ),
  LIMIT_WOULD_REFUSE_HEADER: setting(
    headerNameOrNone,
    '',
    'header with the limits that would have refused a request but for shadow_mode, quota_mode or SHADOW_MODE, such as X-RateLimit-Would-Refuse; empty: none',
  ),
  RESPONSE_DYNAMIC_METADATA: off(
    'send the proxy dynamic metadata: the domain, the descriptors and the metadata of the rules that admitted the request',
  ),
  RESPONSE_RULE_METADATA: off(
    'send the proxy dynamic metadata for its access log: the rule, the limit and the remaining hits behind each answer',
  ),
  RESPONSE_PASSED_DESCRIPTORS: off(
    'send the proxy dynamic metadata, passedDescriptors: the descriptors whose quotas (quota_mode) have hits left, so that it can choose among candidates',
  ),
} as const satisfies Rows;

const statisticsRows = {
  NEAR_LIMIT_RATIO: setting(cappedRatio, '0.8', 'fraction of a limit above which hits count as near the limit'),
  STATISTICS_MAX_BYTES: setting(
    integer(0, 2 ** 30, 'bytes'),
    '2097152',
    'memory for names in statistics that callers create: half for limits, half for unknown domains; further names are counted as (other). The budget is for all WORKERS together',
  ),
  DISABLE_STATS: off('send no statistics, overriding the settings below'),
  USE_STATSD: optional(flag, 'send statistics to StatsD; unset: yes, unless DogStatsD or Prometheus is enabled'),
  STATSD_HOST: setting(hostOrLocalhost, 'localhost', 'host of StatsD or DogStatsD'),
  STATSD_PORT: setting(integer(1, 65_535, 'a port'), '8125', 'port of StatsD or DogStatsD'),
  STATSD_PROTOCOL: setting(choice('tcp', 'udp'), 'tcp', 'protocol of StatsD; DogStatsD always uses udp'),
  STATS_FLUSH_INTERVAL: setting(someDurationMs, '10s', 'how often counters are sent'),
  EXTRA_TAGS: setting(pairs(':'), '', 'tags for all statistics: key:value,key:value'),
  USE_DOG_STATSD: off('send statistics to DogStatsD, with tags'),
  USE_DOG_STATSD_MOGRIFIERS: setting(
    list,
    '',
    'labels of patterns that rewrite statistics, in order: DOG_STATSD_MOGRIFIER_<label>_PATTERN, _NAME and _TAGS',
  ),
  USE_PROMETHEUS: off('serve statistics for Prometheus with the names of envoyproxy/ratelimit'),
  PROMETHEUS_ADDR: setting(listenAddress, ':9090', 'address for USE_PROMETHEUS: host:port, or :port'),
  PROMETHEUS_PATH: setting(pagePath, '/metrics', 'path for USE_PROMETHEUS'),
  PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: off('report response times in milliseconds, not seconds'),
  PROMETHEUS_MAPPER_YAML: withoutEffect(
    text,
    'only the built-in names and labels are supported; relabel in Prometheus',
  ),
} as const satisfies Rows;

/** What callers and monitoring receive. */
export const answerGroups = {
  Answers: answerRows,
  Statistics: statisticsRows,
};
