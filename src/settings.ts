import type { Spend } from './algorithms/limit.ts';
import type { RuntimeLayout } from './rules/files.ts';
import { answerRows, statisticsRows } from './settings/answers.ts';
import { counterRows } from './settings/counters.ts';
import { type Parse, Wanted } from './settings/kinds.ts';
import type { Rows, Setting } from './settings/row.ts';
import { ruleRows } from './settings/rules.ts';
import { serverRows, tracingRows } from './settings/server.ts';
import type { RedisAddress } from './stores/redis/connect.ts';

/** The environment as Node gives it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Every variable that Weir reads, by what it is about. */
const groups = {
  'The servers': serverRows,
  'Where rules come from': ruleRows,
  'Where counters live': counterRows,
  'What callers are told': answerRows,
  Statistics: statisticsRows,
  Traces: tracingRows,
} as const satisfies Readonly<Record<string, Rows>>;

type Table = typeof serverRows &
  typeof ruleRows &
  typeof counterRows &
  typeof answerRows &
  typeof statisticsRows &
  typeof tracingRows;
type Read<R> = R extends { readonly parse: Parse<infer T> } ? Exclude<T, Wanted> : never;
type Values = { readonly [K in keyof Table]: Read<Table[K]> };

const table = Object.assign({}, ...Object.values(groups)) as Table; // of all the groups, as its type says

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
  const rows = Object.entries<Setting<unknown>>(table);
  const read = rows.map(([name, { parse, fallback, secret }]) => {
    const written = env[name] ?? fallback;
    const value = written === undefined ? undefined : parse(written);
    if (value instanceof Wanted) problems.push(`${name} must be ${value.what}, got '${secret ? '***' : written}'`);
    return [name, value];
  });
  const values = Object.fromEntries(read) as Values; // each read by its own row; the wrong ones are never seen, since they throw below
  const redis = problems.length === 0 ? chooseRedis(values, problems) : undefined;
  if (problems.length > 0) throw new InvalidSettings(problems);
  const warnings = rows.flatMap(([name, { noEffect }]) =>
    noEffect !== undefined && env[name] !== undefined ? [`${name} is set but has no effect: ${noEffect}`] : [],
  );
  const spend = values.SPEND ?? (values.STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT ? 'spare_others' : 'each');
  return { ...values, rules: chooseRules(values), redis, spend, warnings };
}

/** Everything that can be set, for documentation: groups of name, default and meaning. */
export const settingsTable: Readonly<Record<string, Rows>> = groups;

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
