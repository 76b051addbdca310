import {
  choice,
  flag,
  headerName,
  headerNameOrNone,
  headerNames,
  integer,
  list,
  listenAddress,
  pagePath,
  pairs,
  ratio,
  someDurationMs,
  someText,
  text,
} from './kinds.ts';
import { optional, type Rows, setting, withoutEffect } from './row.ts';

/** What callers are told. */
export const answerRows = {
  SHADOW_MODE: setting(flag, 'false', 'answer OK whatever the limits say; each status still tells what its limit said'),
  QUOTA_MODE: setting(flag, 'false', 'treat every rule as one with quota_mode'),
  LIMIT_RESPONSE_HEADERS_ENABLED: setting(
    flag,
    'false',
    'send the headers for limit, remaining and reset with every answer that has a limit',
  ),
  LIMIT_ALL_DESCRIPTORS_HEADERS_ENABLED: setting(
    flag,
    'false',
    'these headers tell of every descriptor that has a limit, with commas between the values; false: of one',
  ),
  LIMIT_LIMIT_HEADER: setting(headerName, 'RateLimit-Limit', 'header for the limit'),
  LIMIT_REMAINING_HEADER: setting(headerName, 'RateLimit-Remaining', 'header for the hits that remain'),
  LIMIT_RESET_HEADER: setting(
    headerName,
    'RateLimit-Reset',
    'header for the seconds until the whole limit is available again',
  ),
  LIMIT_RETRY_AFTER_HEADERS: setting(
    headerNames,
    '',
    'headers for the seconds after which a refused request could pass: Retry-After,X-RateLimit-Retry-After; empty: none',
  ),
  LIMIT_SOFT_HEADER: setting(
    headerNameOrNone,
    'X-RateLimit-Soft-Exceeded',
    'header that names the rules on whose soft part a request passed, sent always; empty: none',
  ),
  RESPONSE_DYNAMIC_METADATA: setting(
    flag,
    'false',
    'tell the proxy domain, descriptors and the metadata of the rules that let the request pass',
  ),
} as const satisfies Rows;

/** What operators are told. */
export const statisticsRows = {
  NEAR_LIMIT_RATIO: setting(ratio, '0.8', 'the part of a limit above which hits count as near the limit'),
  STATISTICS_MAX_BYTES: setting(
    integer(0, 2 ** 30, 'bytes'),
    '2097152',
    'what the names that callers make may come to in statistics: half of it for limits, half for unknown domains; beyond it they are counted as (other). WORKERS together have as much',
  ),
  DISABLE_STATS: setting(flag, 'false', 'send no statistics, whatever the next ones say'),
  USE_STATSD: optional(flag, 'send statistics to StatsD; unset: unless another of the two is on'),
  STATSD_HOST: setting(someText, 'localhost', 'where StatsD or DogStatsD listens'),
  STATSD_PORT: setting(integer(1, 65_535, 'a port'), '8125', 'its port'),
  STATSD_PROTOCOL: setting(choice('tcp', 'udp'), 'tcp', 'how StatsD is spoken to; DogStatsD always by udp'),
  STATS_FLUSH_INTERVAL: setting(someDurationMs, '10s', 'how often counters are sent'),
  EXTRA_TAGS: setting(pairs, '', 'tags for all statistics: key:value,key:value'),
  USE_DOG_STATSD: setting(flag, 'false', 'send statistics to DogStatsD, with tags'),
  USE_DOG_STATSD_MOGRIFIERS: setting(
    list,
    '',
    'names of patterns that rewrite statistics, in order: DOG_STATSD_MOGRIFIER_<name>_PATTERN, _NAME and _TAGS',
  ),
  USE_PROMETHEUS: setting(flag, 'false', 'serve statistics to Prometheus under the names of envoyproxy/ratelimit'),
  PROMETHEUS_ADDR: setting(listenAddress, ':9090', 'where: host:port, or :port'),
  PROMETHEUS_PATH: setting(pagePath, '/metrics', 'under which path'),
  PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: setting(flag, 'false', 'response times are milliseconds, not seconds'),
  PROMETHEUS_MAPPER_YAML: withoutEffect(text, 'names and labels are the built-in ones; relabel in Prometheus'),
} as const satisfies Rows;
