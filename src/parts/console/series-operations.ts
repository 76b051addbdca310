import { fields, oneOf, type ValueOf } from '../../base/shape.ts';
import type { Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { DESCRIPTOR_QUERY, readDescriptor, text } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { chooseView, type View } from '../../operate/admin/scope.ts';
import { shownBy } from '../../operate/admin/shown.ts';
import type { Gatherer } from '../../operate/status/gatherer.ts';
import {
  type HistoryRange,
  type HistorySource,
  historyRangeNames,
  historyRanges,
} from '../../operate/status/history.ts';
import { type Range, rangeNames, ranges } from '../../operate/status/series.ts';
import { serviceFields } from '../../operate/status/service-series.ts';
import type { Columns, SeriesAnswer } from './answers.ts';
import type { Feed } from './feed.ts';
import { ruleFields, slotFields } from './rule-fields.ts';
import { MAX_RULES, NAMED_BY_CALLERS } from './rule-series.ts';
import { mayConcern } from './timeline.ts';

/** What the console's operations need of the service. */
export interface FeedOptions extends AdminOptions {
  readonly feed: Feed;
  readonly gathered: Gatherer;
  /** Undefined: there is no history beyond the memory of this process. */
  readonly history: () => HistorySource | undefined;
}

export const NAMED_NOTE = `Limits whose names are made of callers' values are one, \`${NAMED_BY_CALLERS}\`, for clients that may not see these.`;

const chosen = {
  rule: { ...text, description: 'the path of one rule; absent: the service' },
  descriptor: { ...text, description: `a client that the rule refuses: ${DESCRIPTOR_QUERY}` },
};
const seriesQuery = fields(
  {},
  {
    range: {
      ...oneOf(...new Set([...rangeNames, ...historyRangeNames])),
      description: '60s (the default), 10m, 1h or 24h; with PROMETHEUS_URL also 7d and 30d',
    },
    ...chosen,
  },
);
type SeriesQuery = ValueOf<typeof seriesQuery>;

/** Operations for what happened over time. */
export function seriesOperations(options: FeedOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/series', {
      summary: 'what the service, one rule, or a refused client did over time; kept in memory since the start',
      need: 'open',
      domains: 'selected',
      query: seriesQuery,
      answers: `A list per field, the oldest step first. Of the service: ${serviceFields.join(', ')}; of a rule: ${ruleFields.join(', ')}, and with slots ${slotFields.join(', ')}; of a client: refused, the mean of the last minute. Counts are per second, \`oldest\` is in seconds.`,
      answer: ({ query, ...call }) => readSeries(options, chooseView(call), query),
    }),
    operation('GET /api/v1/series/rules', {
      summary: `the last minute of every rule that was hit, of ${MAX_RULES} rules at most`,
      need: 'open',
      domains: 'selected',
      answers: `For each rule a list per field, the oldest second first. ${NAMED_NOTE}`,
      answer: (call) => {
        const { rules: series } = options.feed;
        const { startedAtMs } = options.gathered;
        const view = chooseView(call);
        const rules = series.names(view).map((rule) => [rule, series.columns(rule, '60s', view) ?? {}] as const);
        const { stepMs } = ranges['60s'];
        return { range: '60s', stepMs, startedAtMs, atMost: MAX_RULES, rules: Object.fromEntries(rules) };
      },
    }),
    operation('GET /api/v1/timeline', {
      summary: 'changes of the last day that explain a plot: of rules, overrides, the candidate, and the store',
      need: 'open',
      domains: 'selected',
      query: fields({}, chosen),
      answers:
        'Changes since the start of the process, the oldest first, 200 at most. Of overrides, with `rule`, those that may concern the rule, or with `descriptor`, too, its client.',
      answer: ({ client, scope, query: { rule: path, descriptor } }) => {
        const shown = shownBy(client.seesValues, options.hash);
        const tree = options.rules();
        const rule = path === undefined ? undefined : findRule(tree, path);
        const isShown = tree && rule && mayConcern(tree, rule, descriptor, shown);
        return { marks: options.feed.timeline.marks(shown, scope, isShown) };
      },
    }),
  ];
}

export function findRule(tree: RuleTree | undefined, path: string): Rule | undefined {
  for (const rule of tree?.rules ?? []) if (rule.path === path) return rule;
  return undefined;
}

async function readSeries(options: FeedOptions, view: View, query: SeriesQuery): Promise<SeriesAnswer> {
  const ofMemory = rangeNames.find((name) => name === (query.range ?? '60s'));
  const ofHistory = historyRangeNames.find((name) => name === query.range);
  const isOfClient = query.descriptor !== undefined;
  const problem = isOfClient || !ofHistory ? undefined : await readHistory(options, view, query, ofHistory);
  if (typeof problem === 'object') return problem;
  if (!ofMemory)
    throw new ApiProblem(
      problem === undefined ? 400 : 503,
      problem ?? `the query is not valid: the range ${query.range} needs PROMETHEUS_URL`,
    );
  const { startedAtMs } = options.gathered;
  return {
    range: ofMemory,
    stepMs: ranges[ofMemory].stepMs,
    startedAtMs,
    beginsAtMs: startedAtMs,
    source: 'memory',
    ...(query.rule !== undefined && { rule: query.rule }),
    ...(problem !== undefined && { problem }),
    series: keptSeries(options, view, query, ofMemory),
  };
}

/** The series in memory. */
function keptSeries(
  { feed, gathered }: FeedOptions,
  view: View,
  { rule, descriptor }: SeriesQuery,
  name: Range,
): Columns {
  if (rule === undefined) return gathered.service.columns(name);
  if (descriptor === undefined) return feed.rules.columns(rule, name, view) ?? {};
  const entries = readDescriptor(descriptor);
  const refused = view !== 'hidden' ? feed.clients.refusedOf(rule, entries, name) : undefined;
  return refused ? { refused } : {};
}

/** Reads the series in Prometheus. @returns the reason why there are none, or undefined if it is not asked */
async function readHistory(
  { history, rules, gathered }: FeedOptions,
  view: View,
  { rule: path }: SeriesQuery,
  name: HistoryRange,
): Promise<SeriesAnswer | string | undefined> {
  const rule = path === undefined ? undefined : findRule(rules(), path);
  const isHidden = path !== undefined && (!rule || (view === 'hidden' && rule.named !== 'by_rule'));
  const source = history();
  if (!source || isHidden) return undefined;
  try {
    const kept = await (rule ? source.ofRule(rule.domain, rule.levels.join('.'), name) : source.ofService(name));
    return {
      range: name,
      stepMs: historyRanges[name].stepMs,
      startedAtMs: gathered.startedAtMs,
      source: 'prometheus',
      ...(path !== undefined && { rule: path }),
      ...kept,
    };
  } catch (error) {
    return `Prometheus cannot be read: ${error instanceof Error ? error.message : error}`;
  }
}
