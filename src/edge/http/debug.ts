import { shareRuns } from '../../base/later.ts';
import { hashRules } from '../../engine/rules/compile/packed.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { formatLine, formatProblem, isUnread } from '../../engine/rules/read/problem.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import { describeRule, describeRuleFully, domainAsJson, ruleAsJson } from '../listing/describe.ts';
import { compressed } from './compressed.ts';
import { metricsRoute, type RenderMetrics } from './metrics.ts';
import type { HttpRequest } from './request.ts';
import { isVerbose, plain, type Route } from './server.ts';
import type { ListedOverride } from './shapes.ts';

/** The operators' overrides of single descriptors. */
interface OverrideList {
  /** Whether the sender of a request may see values that callers sent. */
  readonly seesValues: (request: HttpRequest) => boolean;
  readonly list: (seesValues: boolean) => Iterable<ListedOverride>;
}

/** Read-only sources of the debug pages. */
interface DebugSources {
  rules(): RuleTree | undefined;
  /** The result of the last load; the rules in force may be older. */
  lastLoad(): LoadedRules | undefined;
  /** Absent: there are no overrides. */
  readonly overrides?: OverrideList;
  metrics: RenderMetrics;
  /** Counters and gauges by their StatsD names. */
  statistics(): Promise<Iterable<readonly [name: string, value: number]>>;
}

/**
 * The routes for operators. `/` and every unknown path list them, as in envoyproxy/ratelimit.
 *
 * @param more  further routes
 */
export function debugRoutes(
  sources: DebugSources,
  more: ReadonlyMap<string, Route> = new Map(),
): ReadonlyMap<string, Route> {
  const { rules, lastLoad, overrides, metrics, statistics } = sources;
  const describedStatistics = shareRuns(async () => describeStatistics(await statistics()));
  const routes = new Map<string, Route>([
    [
      '/rlconfig',
      {
        help: 'the rules in force, and the problems of newer ones; ?verbose adds positions and warnings, ?format=json returns JSON',
        answer: (request) => {
          const listed = overrides?.list(overrides.seesValues(request)) ?? [];
          if (wantsJson(request))
            return { status: 200, contentType: 'application/json', body: rulesAsJson(rules(), lastLoad(), listed) };
          const described = describeRules(rules(), lastLoad(), isVerbose(request));
          return plain(200, [...describeOverrides(listed), ...described].join(''));
        },
      },
    ],
    ['/metrics', metricsRoute(metrics)],
    [
      '/stats',
      {
        help: 'statistics with the names of envoyproxy/ratelimit',
        answer: async () => plain(200, await describedStatistics()),
      },
    ],
    ...more,
  ]);
  const index = [...routes]
    .map(([path, { help }]) => `${path}: ${help}\n`)
    .sort()
    .join('');
  routes.set('/', { help: 'this list', answer: () => plain(200, index) });
  return new Map(Array.from(routes, ([path, route]) => [path, compressed(route)]));
}

function* describeOverrides(overrides: Iterable<ListedOverride>): Iterable<string> {
  for (const { domain, descriptor, effect, until, by, reason } of overrides) {
    const line = `# override: ${domain} ${descriptor}: ${effect} until ${until}, set by ${by}: ${reason}`;
    yield `${line.replaceAll(/\p{Cc}/gu, ' ')}\n`;
  }
}

/** One line per rule, after the problems. Without problems, the list is that of envoyproxy/ratelimit, line by line. */
function* describeRules(
  tree: RuleTree | undefined,
  lastLoad: LoadedRules | undefined,
  withWarnings: boolean,
): Iterable<string> {
  const problems = !lastLoad ? [] : !lastLoad.ok ? lastLoad.problems : withWarnings ? lastLoad.warnings : [];
  if (lastLoad && !lastLoad.ok) {
    const why = isUnread(lastLoad.problems) ? 'could not be read, which is tried again' : 'are invalid';
    yield `# The newest rules ${why}; the rules listed below were loaded before.\n`;
  }
  for (const problem of problems) yield `# ${formatProblem(problem)}\n`;
  for (const { name, spend, overlaid = [] } of tree?.domains.values() ?? []) {
    const from = overlaid.map(({ file, line }) => ` (${formatLine({ file, line })})`).join('');
    if (spend !== undefined && (withWarnings || overlaid.length > 0))
      yield `# domain ${name}: spend: ${spend}${from}\n`;
  }
  const describe = withWarnings ? describeRuleFully : describeRule;
  for (const rule of tree?.rules ?? []) yield `${describe(rule)}\n`;
}

/** All facts about the rules, for programs. */
function rulesAsJson(
  tree: RuleTree | undefined,
  lastLoad: LoadedRules | undefined,
  overrides: Iterable<ListedOverride>,
): string {
  const problems = !lastLoad ? [] : lastLoad.ok ? lastLoad.warnings : lastLoad.problems;
  const packed = lastLoad?.ok ? lastLoad.packed : undefined;
  const listed = {
    loaded: tree !== undefined,
    newest: lastLoad?.ok ?? tree !== undefined,
    ...(packed && { hash: hashRules(packed) }),
    problems,
    domains: Array.from(tree?.domains.values() ?? [], domainAsJson),
    overrides: [...overrides],
    rules: Array.from(tree?.rules ?? [], ruleAsJson),
  };
  return `${JSON.stringify(listed)}\n`;
}

const wantsJson = ({ url = '', headers: { accept = '' } }: HttpRequest): boolean =>
  new URL(url, 'http://weir').searchParams.get('format') === 'json' || accept.startsWith('application/json');

const describeStatistics = (statistics: Iterable<readonly [name: string, value: number]>): Buffer =>
  Buffer.from(
    Array.from(statistics, ([name, value]) => `${name}: ${value}\n`)
      .sort()
      .join(''),
  );
