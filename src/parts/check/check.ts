import { readFileSync } from 'node:fs';
import { count } from '../../base/texts.ts';
import { durationMs } from '../../engine/algorithms/limit.ts';
import { limitsInFlight } from '../../engine/holds/limits.ts';
import { storeTraits } from '../../engine/open/options.ts';
import type { Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import type { OverlayFile } from '../../engine/rules/read/overlaid.ts';
import type { Problem } from '../../engine/rules/read/problem.ts';
import { loadSource } from '../../engine/rules/reload/book.ts';
import { plainPath, type RuleSource, runtimeDirectory } from '../../engine/rules/reload/files.ts';
import type { RuleFileState } from '../../engine/rules/reload/load.ts';
import { readOverlayFiles } from '../../engine/rules/reload/overlay-files.ts';
import type { Environment } from '../../settings/near-misses.ts';
import { readSettings, type Settings } from '../../settings/settings.ts';
import { counterOptions, spendProblem } from '../../settings/store-traits.ts';
import { InvalidSettings } from '../../settings/values.ts';

/** The store of the counters, overriding the environment. */
type BackendName = 'memory' | 'redis' | 'memcached';

interface CheckOptions {
  /** Whether to merge files of the same domain instead of refusing them, as MERGE_DOMAIN_CONFIG does. */
  readonly mergeDomains: boolean;
  readonly strict: boolean;
  readonly backend?: BackendName | undefined;
  /** Overlay files, or directories of them. Default: those of RULES_OVERLAY. */
  readonly overlay?: readonly string[] | undefined;
  /** Content of the file `-`. */
  readonly stdin?: string | undefined;
  /** Maximum request timeout of the proxy, such as `15s`. */
  readonly routeTimeout?: string | undefined;
}

/** The result of a check. */
export interface Checked {
  readonly isValid: boolean;
  /** Ordered by file and line. */
  readonly problems: readonly Problem[];
  /** Notes about valid rules that do not suit every caller, one text each. */
  readonly notes: readonly string[];
  /** Numbers of rules; undefined if there are errors. */
  readonly counts: RuleTotals | undefined;
}

interface RuleTotals {
  readonly domains: number;
  readonly rules: number;
  /** Rules with a property from an overlay; absent without an overlay. */
  readonly overlaid?: number;
}

const ENVIRONMENT = 'environment';
/** Name of the content of the file `-` in messages. */
const STDIN = 'stdin';

/**
 * Checks rule files and the environment like the service at start-up, without opening anything else.
 *
 * @param paths  files, or directories of files, all of the same service, or `-` for standard input. Default: those that
 * the environment names
 */
export async function check(paths: readonly string[], env: Environment, options: CheckOptions): Promise<Checked> {
  const { mergeDomains, strict, backend, stdin, overlay = [] } = options;
  let settings: Settings;
  try {
    settings = await readSettings(backend === undefined ? env : withBackend(env, backend));
  } catch (error) {
    if (!(error instanceof InvalidSettings)) throw error;
    return invalid(error.problems.map((message) => ofEnvironment('error', message)));
  }
  const spend = spendProblem(settings.counters);
  const found = [
    ...settings.warnings.map((message) => ofEnvironment('warning', message)),
    ...(spend ? [ofEnvironment(spend.isFatal ? 'error' : 'warning', spend.message)] : []),
  ];
  const source = createSource(paths, settings, stdin);
  if (!source) {
    const message = `rules come from a control plane (CONFIG_TYPE=GRPC_XDS_SOTW): name the files to check`;
    return invalid([...found, ofEnvironment('error', message)]);
  }
  const { overlayPath } = settings.rules;
  const laid = await readOverlays(overlay.length > 0 || overlayPath === undefined ? overlay : [overlayPath]);
  const loaded = await loadSource(source, {
    overlay: laid.files,
    mergeDomains: mergeDomains || settings.rules.mergeDomains,
    store: storeTraits(counterOptions(settings.counters)),
  });
  if (!loaded.ok) return invalid([...found, ...laid.problems, ...loaded.problems]);
  if (laid.problems.length > 0) return invalid([...found, ...laid.problems, ...loaded.warnings]);
  const problems = [
    ...found,
    ...loaded.warnings,
    ...shortTtls(loaded.rules, options.routeTimeout),
    ...(settings.rlqs.isOn ? await quotaProblems(loaded.rules, settings.rlqs.domains) : []),
  ];
  const { domains } = loaded.rules;
  const rules = [...loaded.rules.rules];
  const notes = [...(source.notes?.() ?? []), ...notesOn(loaded.rules)];
  return {
    isValid: !problems.some(({ severity }) => strict || severity === 'error'),
    problems,
    notes,
    counts: {
      domains: domains.size,
      rules: rules.length,
      ...(laid.files.length > 0 && { overlaid: rules.filter((rule) => rule.overlaid).length }),
    },
  };
}

/** Reports rules that proxies cannot apply by themselves. */
async function quotaProblems({ rules }: RuleTree, domains: readonly string[]): Promise<readonly Problem[]> {
  const { bucketStrategy } = await import('../../engine/rules/match/strategy.ts');
  return [...rules].flatMap((rule): readonly Problem[] => {
    if (domains.length > 0 && !domains.includes(rule.domain)) return [];
    const strategy = bucketStrategy(rule);
    if (strategy.kind !== 'unsupported') return [];
    const advice = 'set RLQS_DOMAINS to the domains that are limited by proxies';
    const message = `RLQS: a proxy cannot apply the rule: ${strategy.reason}; ${advice}`;
    return [{ ...ofEnvironment('error', message), ...placeOf(rule), path: rule.path }];
  });
}

const placeOf = ({ place }: Rule) => place && { file: place.file, line: place.line };

const invalid = (problems: readonly Problem[]): Checked => ({ isValid: false, problems, notes: [], counts: undefined });

const ofEnvironment = (severity: Problem['severity'], message: string): Problem => ({
  file: ENVIRONMENT,
  line: undefined,
  path: '',
  severity,
  message,
});

/** The environment with another store, at a default address unless it names one; nothing connects to it. */
function withBackend(env: Environment, backend: BackendName): Environment {
  if (backend === 'redis') return { REDIS_URL: 'localhost:6379', ...env, BACKEND_TYPE: 'redis' };
  if (backend === 'memory') return { ...env, BACKEND_TYPE: 'memory' };
  const address = env.MEMCACHE_SRV === undefined && { MEMCACHE_HOST_PORT: 'localhost:11211' };
  return { ...address, ...env, BACKEND_TYPE: 'memcache' };
}

function createSource(
  paths: readonly string[],
  { rules: { origin } }: Settings,
  stdin: string | undefined,
): RuleSource | undefined {
  if (paths.length === 0) {
    if ('controlPlane' in origin) return undefined;
    return 'path' in origin ? plainPath(origin.path) : runtimeDirectory(origin.runtime);
  }
  return {
    description: paths.join(', '),
    async list() {
      const lists: (readonly RuleFileState[])[] = [];
      for (const path of paths) lists.push(path === '-' ? [stdinFile(stdin)] : await plainPath(path).list());
      return lists.flat();
    },
  };
}

/** The overlay files of several paths, and problems of unreadable ones. */
async function readOverlays(paths: readonly string[]) {
  const files: OverlayFile[] = [];
  const problems: Problem[] = [];
  for (const path of paths) {
    const read = await readOverlayFiles(plainPath(path));
    if ('files' in read) files.push(...read.files);
    else problems.push(...read.problems);
  }
  return { files, problems };
}

const stdinFile = (text = ''): RuleFileState => ({ path: '/dev/stdin', name: STDIN, state: STDIN, text });

/** Warns of slots that become free before the requests that hold them must end. */
function shortTtls({ rules }: RuleTree, routeTimeout: string | undefined): readonly Problem[] {
  if (routeTimeout === undefined) return [];
  const timeoutMs = durationMs(routeTimeout);
  if (timeoutMs === undefined)
    return [ofEnvironment('error', `--route-timeout must be a time such as 15s or 5m, got '${routeTimeout}'`)];
  return [...rules].flatMap((rule) =>
    rule.limits
      .filter(({ limit }) => limitsInFlight(limit) && limit.windowMs <= timeoutMs)
      .map(({ limit }) => {
        const message = `${rule.path}: a slot expires after its ttl of ${count(limit.windowMs)} ms, but requests may last ${count(timeoutMs)} ms: raise the ttl, or lower the timeout`;
        return { ...ofEnvironment('warning', message), ...placeOf(rule) };
      }),
  );
}

/**
 * A note on the domains that spend `all_or_nothing`, as Envoy returns the hits of a request when its stream ends even if
 * it was refused and spent nothing.
 */
function notesOn({ domains }: RuleTree): readonly string[] {
  const names = [...domains].flatMap(([name, { spend }]) => (spend === 'all_or_nothing' ? [`'${name}'`] : []));
  if (names.length === 0) return [];
  return [
    `spend: all_or_nothing (${names.length === 1 ? 'domain' : 'domains'} ${names.join(', ')}): do not limit requests in flight with negative hits at the end of streams, since refused requests would refund hits that they did not spend; use algorithm: in_flight with ids`,
  ];
}

/** Reads lines of files for excerpts, each file once. */
export function lineReader(stdin: string | undefined): (file: string, line: number) => string | undefined {
  const files = new Map<string, readonly string[]>(stdin === undefined ? [] : [[STDIN, stdin.split(/\r?\n/)]]);
  const readLines = (file: string): readonly string[] => {
    try {
      return readFileSync(file, 'utf8').split(/\r?\n/);
    } catch {
      return []; // a problem reports this
    }
  };
  return (file, line) => {
    const known = files.get(file) ?? readLines(file);
    files.set(file, known);
    return known[line - 1];
  };
}
