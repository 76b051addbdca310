import type { Clock } from '../../base/clock.ts';
import { take } from '../../base/slices.ts';
import type { Page } from '../../edge/http/server.ts';
import { hashOf } from '../../engine/rules/compile/packed.ts';
import { domainAsJson, ruleAsJson, scheduleAsJson } from '../../engine/rules/match/describe.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import { type Reload, reloadAsJson } from '../../engine/rules/reload/reload.ts';
import type { Client } from '../admin/access.ts';
import { type ApiOperation, operation } from '../admin/api.ts';
import { noQuery, text } from '../admin/parameters.ts';
import { ApiProblem } from '../admin/problem.ts';
import { object } from '../admin/schema.ts';
import type { Answers } from '../answers/all.ts';
import type { Heartbeat } from './instances.ts';
import { type Live, MAX_READERS } from './live.ts';
import { ruleFields, slotFields } from './rule-fields.ts';
import { MAX_RULES, NAMED_BY_CALLERS, type SeriesView } from './rule-series.ts';
import { type Range, rangeNames, ranges } from './series.ts';
import { serviceFields } from './service-series.ts';

export interface ConsoleOptions {
  readonly live: Live;
  readonly rules: () => RuleTree | undefined;
  readonly lastLoad: () => LoadedRules | undefined;
  readonly lastReload: () => { readonly atMs: number; readonly reload: Reload } | undefined;
  /** Determines which limits of schedules apply. */
  readonly clock: Clock;
  /** Undefined: instances cannot list each other. */
  readonly heartbeat: Pick<Heartbeat, 'list'> | undefined;
}

/** The most rules listed in one response. */
const MAX_LISTED_RULES = 20_000;
const MAX_PROBLEMS = 200;

const range = { type: 'string', maxLength: 3, enum: rangeNames, description: '60s (the default), 1h or 24h' } as const;

/** Operations that the console adds to the admin API: series, rules, and a stream of snapshots. */
export function consoleOperations(options: ConsoleOptions): readonly ApiOperation[] {
  const { live } = options;
  const rangeOf = (name: string | undefined): Range => rangeNames.find((one) => one === name) ?? '60s';
  const head = (name: Range) => ({ range: name, stepMs: ranges[name].stepMs, startedAtMs: live.startedAtMs });
  return [
    operation({
      path: '/api/v1/series',
      method: 'GET',
      summary: 'what the service, or one rule, did over time; kept in memory since the start',
      need: 'open',
      query: object({ range, rule: { ...text, description: 'the path of one rule; absent: the service' } }, []),
      answers: `A list per field, the oldest step first. Of the service: ${serviceFields.join(', ')}; of a rule: ${ruleFields.join(', ')}, and with slots ${slotFields.join(', ')}. Counts are per second, \`oldest\` is in seconds.`,
      answer: ({ client, query }) => {
        const name = rangeOf(query.range);
        if (query.rule === undefined) return { ...head(name), series: live.service.columns(name) };
        const series = live.rules.columns(query.rule, name, viewOf(client)) ?? {};
        return { ...head(name), rule: query.rule, series };
      },
    }),
    operation({
      path: '/api/v1/series/rules',
      method: 'GET',
      summary: `the last minute of every rule that was hit, of ${MAX_RULES} rules at most`,
      need: 'open',
      query: noQuery,
      answers: `For each rule a list per field, the oldest second first. ${NAMED_NOTE}`,
      answer: ({ client }) => {
        const view = viewOf(client);
        const rules = live.rules
          .names(view)
          .map((rule) => [rule, live.rules.columns(rule, '60s', view) ?? {}] as const);
        return { ...head('60s'), atMost: MAX_RULES, rules: Object.fromEntries(rules) };
      },
    }),
    operation({
      path: '/api/v1/rules',
      method: 'GET',
      summary: 'the rules in force, and the problems of newer ones',
      need: 'open',
      query: noQuery,
      answers: `The rules as on /rlconfig?format=json, ${MAX_LISTED_RULES} at most; \`more\` counts the others.`,
      answer: () => listRules(options),
    }),
    operation({
      path: '/api/v1/instances',
      method: 'GET',
      summary: 'the instances on the same Redis',
      need: 'open',
      query: noQuery,
      answers: 'Instances that reported in the last 20 seconds, the oldest first.',
      answer: () => listInstances(options),
    }),
    operation({
      path: '/api/v1/events',
      method: 'GET',
      summary: 'a snapshot of the service, once a second',
      need: 'open',
      query: noQuery,
      answers: `Server-sent events. \`refusedKeys\` is there for clients that may see values. ${NAMED_NOTE}`,
      produces: 'text/event-stream',
      answer: ({ client, request }) => eventsPage(live, request.method !== 'HEAD', viewOf(client)),
    }),
  ];
}

const viewOf = ({ seesValues }: Client): SeriesView => (seesValues ? 'values' : 'hidden');

const NAMED_NOTE = `Limits whose names are made of callers' values are one, \`${NAMED_BY_CALLERS}\`, for clients that may not see these.`;

function eventsPage(live: Live, isFollowed: boolean, view: SeriesView): Page {
  if (live.readers >= MAX_READERS) throw new ApiProblem(503, `at most ${MAX_READERS} clients can read the stream`);
  return {
    status: 200,
    contentType: 'text/event-stream',
    headers: { 'cache-control': 'no-store', 'x-accel-buffering': 'no' }, // else nginx would buffer snapshots
    body: 'retry: 1000\n\n',
    ...(isFollowed && { follow: (output) => live.follow(output, view) }),
  };
}

async function listInstances({ heartbeat }: ConsoleOptions) {
  if (!heartbeat) throw new ApiProblem(501, 'instances know each other only where counters are in Redis');
  try {
    return { instances: await heartbeat.list() };
  } catch (error) {
    throw new ApiProblem(503, `Redis cannot be reached: ${error instanceof Error ? error.message : error}`);
  }
}

function listRules({ rules, lastLoad, lastReload, clock }: ConsoleOptions): Answers['GET /api/v1/rules'] {
  const tree = rules();
  const last = lastLoad();
  const problems = !last ? [] : last.ok ? last.warnings : last.problems;
  const packed = last?.ok ? last.packed : undefined;
  const reloaded = lastReload();
  const nowMs = clock();
  return {
    loaded: tree !== undefined,
    newest: last?.ok ?? tree !== undefined,
    ...(packed && { hash: hashOf(packed) }),
    problems: problems.slice(0, MAX_PROBLEMS).map(formatProblem),
    domains: Array.from(tree?.domains.values() ?? [], domainAsJson),
    more: Math.max((tree?.rules.length ?? 0) - MAX_LISTED_RULES, 0),
    ...(reloaded && { reload: reloadAsJson(reloaded.reload, reloaded.atMs) }),
    rules: Array.from(take(MAX_LISTED_RULES, tree?.rules ?? []), (rule) => ({
      ...ruleAsJson(rule),
      levels: rule.levels,
      ...scheduleAsJson(rule, nowMs),
    })),
  };
}
