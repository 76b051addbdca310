import { describeRule, describeRuleFully, domainAsJson, ruleAsJson } from '../rules/describe.ts';
import type { LoadedRules } from '../rules/load.ts';
import { hashOf } from '../rules/packed.ts';
import { formatLine, formatProblem } from '../rules/problem.ts';
import type { RuleTree } from '../rules/tree.ts';
import { encodeInSlices, inSlices, sortInSlices } from '../slices.ts';
import { compressed } from './compressed.ts';
import { metricsRoute, type RenderMetrics } from './metrics.ts';
import type { HttpRequest } from './request.ts';
import { isVerbose, plain, type Route } from './server.ts';
import { shareRendering } from './share-rendering.ts';

/** Read-only sources of the debug pages. */
export interface DebugSources {
  rules(): RuleTree | undefined;
  /** The result of the last load; the rules in force may be older. */
  lastLoad(): LoadedRules | undefined;
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
  { rules, lastLoad, metrics, statistics }: DebugSources,
  more: ReadonlyMap<string, Route> = new Map(),
): ReadonlyMap<string, Route> {
  const plainRules = shareRendering(() => encodeInSlices(describeRules(rules(), lastLoad(), false)));
  const verboseRules = shareRendering(() => encodeInSlices(describeRules(rules(), lastLoad(), true)));
  const jsonRules = shareRendering(() => encodeInSlices(rulesAsJson(rules(), lastLoad())));
  const describedStatistics = shareRendering(async () => describeStatistics(await statistics()));
  const routes = new Map<string, Route>([
    [
      '/rlconfig',
      {
        help: 'the rules in force, and the problems of newer ones; ?verbose adds positions and warnings, ?format=json returns JSON',
        answer: async (request) =>
          wantsJson(request)
            ? { status: 200, contentType: 'application/json', body: await jsonRules() }
            : plain(200, await (isVerbose(request) ? verboseRules : plainRules)()),
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

/** One line per rule, after the problems. Without problems, the list is that of envoyproxy/ratelimit, line by line. */
function* describeRules(
  tree: RuleTree | undefined,
  lastLoad: LoadedRules | undefined,
  withWarnings: boolean,
): Iterable<string> {
  const problems = !lastLoad ? [] : !lastLoad.ok ? lastLoad.problems : withWarnings ? lastLoad.warnings : [];
  if (lastLoad && !lastLoad.ok) yield '# The newest rules are invalid; the rules listed below were loaded before.\n';
  for (const problem of problems) yield `# ${formatProblem(problem)}\n`;
  for (const { name, spend, overlaid = [] } of tree?.domains.values() ?? []) {
    const from = overlaid.map(({ file, line }) => ` (${formatLine({ file, line })})`).join('');
    if (spend !== undefined && (withWarnings || overlaid.length > 0))
      yield `# domain ${name}: spend: ${spend}${from}\n`;
  }
  if (!withWarnings) {
    for (const rule of tree?.rules ?? []) yield `${describeRule(rule)}\n`;
    return;
  }
  for (const rule of tree?.rules ?? []) yield `${describeRuleFully(rule)}\n`;
}

/** The whole of the rules, for programs. */
function* rulesAsJson(tree: RuleTree | undefined, lastLoad: LoadedRules | undefined): Iterable<string> {
  const problems = !lastLoad ? [] : lastLoad.ok ? lastLoad.warnings : lastLoad.problems;
  const domains = Array.from(tree?.domains.values() ?? [], domainAsJson);
  const packed = lastLoad?.ok ? lastLoad.packed : undefined;
  const head = {
    loaded: tree !== undefined,
    newest: lastLoad?.ok ?? tree !== undefined,
    ...(packed && { hash: hashOf(packed) }),
    problems,
    domains,
  };
  yield `${JSON.stringify(head).slice(0, -1)},"rules":[`;
  let separator = '';
  for (const rule of tree?.rules ?? []) {
    yield `${separator}${JSON.stringify(ruleAsJson(rule))}`;
    separator = ',';
  }
  yield ']}\n';
}

const wantsJson = ({ url = '', headers: { accept = '' } }: HttpRequest): boolean =>
  new URL(url, 'http://weir').searchParams.get('format') === 'json' || accept.startsWith('application/json');

async function describeStatistics(
  statistics: Iterable<readonly [name: string, value: number]>,
): Promise<readonly Buffer[]> {
  const lines: string[] = [];
  for await (const slice of inSlices(statistics)) for (const [name, value] of slice) lines.push(`${name}: ${value}\n`);
  return encodeInSlices(await sortInSlices(lines));
}
