import { describeRule } from '../rules/describe.ts';
import type { LoadedRules } from '../rules/load.ts';
import { formatProblem } from '../rules/problem.ts';
import type { RuleTree } from '../rules/tree.ts';
import { type Exposed, metricsRoute } from './metrics.ts';
import { isVerbose, plain, type Route } from './server.ts';

/** What the debug pages show. They only read. */
export interface DebugSources {
  rules(): RuleTree | undefined;
  /** What the last load of rules came to; the rules in force may be older. */
  lastLoad(): LoadedRules | undefined;
  metrics: Exposed;
  /** Counters and gauges by the names that they have in StatsD. */
  statistics(): Promise<ReadonlyMap<string, number>>;
}

/**
 * The routes for operators. `/` lists them, and so does every path that there is not, as envoyproxy/ratelimit has it.
 *
 * @param more  routes to go with them
 */
export function debugRoutes(
  { rules, lastLoad, metrics, statistics }: DebugSources,
  more: ReadonlyMap<string, Route> = new Map(),
): ReadonlyMap<string, Route> {
  const routes = new Map<string, Route>([
    [
      '/rlconfig',
      {
        help: 'the rules in force, and what is wrong with newer ones; ?verbose adds warnings',
        answer: (request) => plain(200, describeRules(rules(), lastLoad(), isVerbose(request))),
      },
    ],
    ['/metrics', metricsRoute(metrics)],
    [
      '/stats',
      {
        help: 'statistics under the names of envoyproxy/ratelimit',
        answer: async () => plain(200, describeStatistics(await statistics())),
      },
    ],
    ...more,
  ]);
  const index = [...routes]
    .map(([path, { help }]) => `${path}: ${help}\n`)
    .sort()
    .join('');
  return routes.set('/', { help: 'this list', answer: () => plain(200, index) });
}

/** Without what is wrong, the list is that of envoyproxy/ratelimit, line by line. */
function describeRules(tree: RuleTree | undefined, lastLoad: LoadedRules | undefined, withWarnings: boolean): string {
  const problems = !lastLoad ? [] : !lastLoad.ok ? lastLoad.problems : withWarnings ? lastLoad.warnings : [];
  const notes = problems.map((problem) => `# ${formatProblem(problem)}\n`);
  if (lastLoad && !lastLoad.ok)
    notes.unshift('# The newest rules are wrong; what is listed below is what was loaded before.\n');
  return [...notes, ...(tree?.rules ?? []).map((rule) => `${describeRule(rule)}\n`)].join('');
}

const describeStatistics = (statistics: ReadonlyMap<string, number>): string =>
  [...statistics]
    .map(([name, value]) => `${name}: ${value}\n`)
    .sort()
    .join('');
