import type { Spend } from './algorithms/limit.ts';
import type { RuntimeLayout } from './rules/files.ts';
import { Mismatch } from './settings/kinds.ts';
import type { Rows, Setting } from './settings/row.ts';
import { chooseSink, type SinkSettings } from './settings/sinks.ts';
import { chooseStore, type StoreSettings } from './settings/stores.ts';
import { groups, table, type Values } from './settings/table.ts';

/** The environment as Node gives it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The settings under the names of their variables, and what follows from several of them. */
export type Settings = Values & {
  /** Where the rules come from: a path, a runtime directory as envoyproxy/ratelimit lays it out, or a control plane. */
  readonly rules: { readonly path: string } | { readonly runtime: RuntimeLayout } | { readonly controlPlane: string };
  readonly store: StoreSettings;
  readonly sink: SinkSettings;
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
    if (value instanceof Mismatch)
      problems.push(`${name} must be ${value.expected}, got '${secret ? '***' : written}'`);
    return [name, value];
  });
  if (problems.length > 0) throw new InvalidSettings(problems);
  const values = Object.fromEntries(read) as Values; // each read by its own row
  const store = chooseStore(values, problems);
  const sink = chooseSink(values, env, problems);
  checkTls(values, problems);
  if (problems.length > 0) throw new InvalidSettings(problems);
  const spend = values.SPEND ?? (values.STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT ? 'spare_others' : 'each');
  return { ...values, rules: chooseRules(values), store, sink, spend, warnings: warningsOf(env, store) };
}

/** Everything that can be set, for documentation: groups of name, default and meaning. */
export const settingsTable: Readonly<Record<string, Rows>> = groups;

function chooseRules(values: Values): Settings['rules'] {
  if (values.CONFIG_TYPE === 'GRPC_XDS_SOTW') return { controlPlane: values.CONFIG_GRPC_XDS_SERVER_URL };
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

function checkTls(values: Values, problems: string[]): void {
  if (values.GRPC_CLIENT_TLS_SAN !== '' && values.GRPC_CLIENT_TLS_CACERT === '')
    problems.push('GRPC_CLIENT_TLS_CACERT must be set where GRPC_CLIENT_TLS_SAN is: else callers show no certificate');
  if (!values.GRPC_SERVER_USE_TLS) return;
  for (const name of ['GRPC_SERVER_TLS_CERT', 'GRPC_SERVER_TLS_KEY'] as const) {
    if (values[name] === '') problems.push(`${name} must be set where GRPC_SERVER_USE_TLS is true, got nothing`);
  }
}

/** What is set, but changes nothing here, or nothing with the store that was chosen. */
function warningsOf(env: Environment, { kind }: StoreSettings): readonly string[] {
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
  return [...without, ...ofOthers];
}

/** Variables that a user would miss, where another store was chosen. */
const storeOnly: Readonly<Record<string, readonly StoreSettings['kind'][]>> = {
  REDIS_URL: ['redis'],
  REDIS_PERSECOND: ['redis'],
  MEMCACHE_HOST_PORT: ['memcache'],
  MEMCACHE_SRV: ['memcache'],
  LOCAL_CACHE_SIZE_IN_BYTES: ['redis', 'memcache'],
  STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: ['redis', 'memory'],
};
