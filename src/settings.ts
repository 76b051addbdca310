import { type Spend, spends } from './algorithms/limit.ts';
import type { RuntimeLayout } from './rules/files.ts';
import type { RedisAddress } from './stores/redis/connect.ts';

/** The environment as Node gives it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads one variable's text, or says in words what was wanted instead. */
type Parse<T> = (text: string) => T | Wanted;
class Wanted {
  readonly what: string;
  constructor(what: string) {
    this.what = what;
  }
}

interface Setting<T> {
  readonly parse: Parse<T>;
  /** The value where the variable is not set, as it would be written. Absent: it has no value then. */
  readonly fallback?: string;
  readonly meaning: string;
}

const setting = <T>(parse: Parse<T>, fallback: string, meaning: string) => ({ parse, fallback, meaning });
const optional = <T>(parse: Parse<T>, meaning: string) => ({ parse: parse as Parse<T | undefined>, meaning });

const text: Parse<string> = (written) => written;

/** A field name of HTTP. @see https://www.rfc-editor.org/rfc/rfc9110#name-field-names */
const headerName: Parse<string> = (written) =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(written) ? written : new Wanted('the name of a header such as RateLimit-Limit');
const headerNameOrNone: Parse<string> = (written) => (written === '' ? written : headerName(written));

const flag: Parse<boolean> = (written) => {
  if (['1', 't', 'T', 'TRUE', 'true', 'True'].includes(written)) return true;
  if (['0', 'f', 'F', 'FALSE', 'false', 'False'].includes(written)) return false;
  return new Wanted('true or false');
};

const integer =
  (from: number, to: number, what: string): Parse<number> =>
  (written) => {
    const value = /^[+-]?(\d+|0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+)$/.test(written) ? Number(written) : Number.NaN;
    return value >= from && value <= to ? value : new Wanted(`${what} from ${from} to ${to}`);
  };

const port = integer(0, 65_535, 'a port');

const choice =
  <const C extends string>(...choices: readonly C[]): Parse<C> =>
  (written) => {
    const found = choices.find((one) => one.toLowerCase() === written.toLowerCase());
    return found ?? new Wanted(`one of ${choices.join(', ')}`);
  };

/** The longest that a timer of Node's runs. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Empty is as good as not set, as in envoyproxy/ratelimit. */
const backend: Parse<'redis' | 'memory' | undefined> = (written) =>
  written === '' ? undefined : choice('redis', 'memory')(written);

const durationUnitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1e3,
  m: 6e4,
  h: 3.6e6,
};

/** A duration as Go writes it, in whole milliseconds: `150ms`, `10s`, `1h30m`. */
const durationMs: Parse<number> = (written) => {
  if (written === '0') return 0;
  const parts = [...written.matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)/g)];
  const whole = parts.length > 0 && parts.map(([part]) => part).join('') === written;
  if (!whole) return new Wanted('a duration such as 150ms, 10s or 1h30m');
  const exactMs = parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (durationUnitMs[unit] ?? 0), 0);
  const ms = Math.ceil(Math.round(exactMs * 1e6) / 1e6); // to the nanosecond first: 16.1 s is not 16,101 ms
  return ms <= MAX_TIMER_MS ? ms : new Wanted(`a duration of at most ${MAX_TIMER_MS} ms`);
};

/** Every variable that Weir reads: its type, what holds without it, and what it means. */
const table = {
  GRPC_HOST: setting(text, '0.0.0.0', 'address of the gRPC server'),
  GRPC_PORT: setting(port, '8081', 'port of the gRPC server'),
  HOST: setting(text, '0.0.0.0', 'address of the HTTP server (/json, /healthcheck)'),
  PORT: setting(port, '8080', 'port of the HTTP server'),
  DEBUG_HOST: setting(text, '0.0.0.0', 'address of the debug server (/rlconfig, /metrics)'),
  DEBUG_PORT: setting(port, '6070', 'port of the debug server'),
  LOG_LEVEL: setting(
    choice('trace', 'debug', 'info', 'warn', 'error', 'fatal'),
    'warn',
    'the least level that is logged',
  ),
  LOG_FORMAT: setting(choice('text', 'json'), 'text', 'how log lines look'),

  RULES_PATH: setting(
    text,
    'config/rules.yaml',
    'rule file, or directory of .yaml and .yml files at any depth; not read where a runtime directory is set',
  ),
  RUNTIME_ROOT: optional(
    text,
    'root of a runtime directory: rules lie in RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY below it',
  ),
  RUNTIME_SUBDIRECTORY: optional(text, 'see RUNTIME_ROOT, which is /srv/runtime_data/current where only this is set'),
  RUNTIME_APPDIRECTORY: setting(text, 'config', 'see RUNTIME_ROOT'),
  RUNTIME_IGNOREDOTFILES: setting(flag, 'false', 'leave out files and directories whose name begins with a dot'),
  RUNTIME_WATCH_ROOT: setting(
    flag,
    'true',
    'how rule files are named in messages: with (true) or without RUNTIME_APPDIRECTORY',
  ),
  MERGE_DOMAIN_CONFIG: setting(flag, 'false', 'files of the same domain are put together instead of refused'),

  BACKEND_TYPE: optional(backend, 'where counters live; unset: redis where REDIS_URL is set, else memory'),
  REDIS_TYPE: setting(choice('SINGLE'), 'SINGLE', 'what kind of Redis it is'),
  REDIS_URL: optional(
    text,
    'host:port, redis://[user:password@]host:port[/database], rediss://… for TLS, or the path of a socket',
  ),
  REDIS_SOCKET_TYPE: optional(
    choice('unix', 'tcp'),
    'what REDIS_URL names; unset: unix where it begins with /, else tcp',
  ),
  CACHE_KEY_PREFIX: setting(text, '', 'put before every counter key in Redis'),
  STORE_TIMEOUT: setting(durationMs, '500ms', 'the longest that a request waits for its counters'),
  MEMORY_MAX_COUNTERS: setting(
    integer(1, 16_000_000, 'a count'),
    '1000000',
    'counters kept in memory; past it, cold ones are forgotten',
  ),

  LIMIT_RESPONSE_HEADERS_ENABLED: setting(
    flag,
    'false',
    'send the headers for limit, remaining and reset with every answer that has a limit',
  ),
  LIMIT_LIMIT_HEADER: setting(headerName, 'RateLimit-Limit', 'header for the limit'),
  LIMIT_REMAINING_HEADER: setting(headerName, 'RateLimit-Remaining', 'header for the hits that remain'),
  LIMIT_RESET_HEADER: setting(
    headerName,
    'RateLimit-Reset',
    'header for the seconds until the whole limit is available again',
  ),
  LIMIT_SOFT_HEADER: setting(
    headerNameOrNone,
    'X-RateLimit-Soft-Exceeded',
    'header that names the rules on whose soft part a request passed, sent always; empty: none',
  ),
  SHADOW_MODE: setting(flag, 'false', 'answer OK whatever the limits say; each status still tells what its limit said'),
  QUOTA_MODE: setting(flag, 'false', 'treat every rule as one with quota_mode'),
  SPEND: optional(
    choice(...spends),
    'what a request spends when a limit refuses it, where its rules do not say; unset: each',
  ),
  STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: setting(
    flag,
    'false',
    'the same as SPEND=spare_others, where SPEND is not set',
  ),
  NEAR_LIMIT_RATIO: setting(ratio, '0.8', 'the part of a limit above which hits count as near the limit'),
  DRAIN_TIMEOUT: setting(durationMs, '10s', 'the longest that calls under way may take after SIGTERM'),
} as const satisfies Record<string, Setting<unknown>>;

function ratio(written: string): number | Wanted {
  const value = written.trim() === '' ? Number.NaN : Number(written);
  return value >= 0 && value <= 1 ? value : new Wanted('a number from 0 to 1');
}

/** Variables of envoyproxy/ratelimit that have no effect here yet: setting one is worth a warning. */
const notHonoured = [
  /^(REDIS|REDIS_PERSECOND)_(AUTH|SENTINEL_AUTH|TLS.*|TYPE|URL|SOCKET_TYPE|PIPELINE_.*|CLUSTER_.*|POOL_.*|TIMEOUT|STARTUP_.*|HEALTH_CHECK_.*)$/,
  /^(REDIS_PERSECOND|EXPIRATION_JITTER_MAX_SECONDS|LOCAL_CACHE_SIZE_IN_BYTES)$/,
  /^(MEMCACHE|TRACING|CONFIG_GRPC_XDS|XDS_CLIENT|GRPC_SERVER|GRPC_CLIENT|GRPC_MAX_CONNECTION|STATSD|PROMETHEUS|DOG_STATSD)_/,
  /^(CONFIG_TYPE|FORCE_START_WITHOUT_INITIAL_CONFIG|HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED|GRPC_UDS)$/,
  /^(RESPONSE_DYNAMIC_METADATA|DISABLE_STATS|USE_STATSD|USE_PROMETHEUS|USE_DOG_STATSD.*|STATS_FLUSH_INTERVAL|EXTRA_TAGS)$/,
];

type Table = typeof table;
type Values = { readonly [K in keyof Table]: Exclude<ReturnType<Table[K]['parse']>, Wanted> };

/** The settings under the names of their variables. */
export type Settings = Values & {
  /** Where the rules come from: a path, or a runtime directory as envoyproxy/ratelimit lays it out. */
  readonly rules: { readonly path: string } | { readonly runtime: RuntimeLayout };
  /** Where the counters live: undefined for this process's memory. */
  readonly redis: RedisAddress | undefined;
  /** What a request spends that a limit refuses, where its rules do not say. */
  readonly spend: Spend;
  /** What is set but has no effect, a text each. */
  readonly warnings: readonly string[];
};

/** Environment variables are wrong: all of them, a text each that names the variable, what was wanted and what came. */
export class InvalidSettings extends Error {
  override readonly name = 'InvalidSettings';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Reads the settings from the environment. A variable that is set but empty counts as set.
 *
 * @throws InvalidSettings  naming every variable that is wrong
 */
export function readSettings(env: Environment): Settings {
  const problems: string[] = [];
  const values = Object.fromEntries(
    Object.entries<Setting<unknown>>(table).map(([name, { parse, fallback }]) => {
      const written = env[name] ?? fallback;
      const value = written === undefined ? undefined : parse(written);
      if (value instanceof Wanted) problems.push(`${name} must be ${value.what}, got '${written}'`);
      return [name, value];
    }),
  ) as unknown as Values; // each read by its own row; the wrong ones are never seen, since they throw below
  const redis = problems.length === 0 ? chooseRedis(values, problems) : undefined;
  if (problems.length > 0) throw new InvalidSettings(problems);
  const warnings = Object.keys(env)
    .filter((name) => !(name in table) && notHonoured.some((pattern) => pattern.test(name)))
    .map((name) => `${name} is set but has no effect: Weir does not have this setting of envoyproxy/ratelimit yet`);
  const spend = values.SPEND ?? (values.STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT ? 'spare_others' : 'each');
  return { ...values, rules: chooseRules(values), redis, spend, warnings };
}

/** Everything that can be set, for documentation: name, default and meaning. */
export const settingsTable: readonly {
  readonly name: string;
  readonly fallback: string | undefined;
  readonly meaning: string;
}[] = Object.entries<Setting<unknown>>(table).map(([name, { fallback, meaning }]) => ({ name, fallback, meaning }));

function chooseRules(values: Values): Settings['rules'] {
  if (values.RUNTIME_ROOT === undefined && values.RUNTIME_SUBDIRECTORY === undefined)
    return { path: values.RULES_PATH };
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

function chooseRedis(
  { BACKEND_TYPE, REDIS_URL, REDIS_SOCKET_TYPE }: Values,
  problems: string[],
): RedisAddress | undefined {
  if (BACKEND_TYPE === 'memory' || (BACKEND_TYPE === undefined && REDIS_URL === undefined)) return undefined;
  if (REDIS_URL === undefined) {
    problems.push('REDIS_URL must be set where BACKEND_TYPE is redis, got nothing');
    return undefined;
  }
  const kind = REDIS_SOCKET_TYPE ?? (REDIS_URL.startsWith('/') ? 'unix' : 'tcp');
  if (kind === 'unix') return { kind, path: REDIS_URL };
  const address = parseTcpAddress(REDIS_URL);
  if (!address) {
    const got = REDIS_URL.replace(/^([a-z]+:\/\/)?.*@/s, '$1***@');
    problems.push(`REDIS_URL must be host:port or redis://[user:password@]host:port[/database], got '${got}'`);
  }
  return address;
}

function parseTcpAddress(written: string): RedisAddress | undefined {
  const withScheme = /^rediss?:\/\//.test(written) ? written : `redis://${written}`;
  if (!URL.canParse(withScheme)) return undefined;
  const url = new URL(withScheme);
  const path = /^(?:\/(\d*))?$/.exec(url.pathname);
  const username = decoded(url.username);
  const password = decoded(url.password);
  if (!path || url.hostname === '' || username === undefined || password === undefined) return undefined;
  return {
    kind: 'tcp',
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? 6379 : Number(url.port),
    tls: url.protocol === 'rediss:',
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    database: Number(path[1] ?? 0),
  };
}

/** A part of a URL without its percent-escapes; undefined where they are none. */
function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
