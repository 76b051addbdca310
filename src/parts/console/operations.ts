import { fields, type ValueOf, whole } from '../../base/shape.ts';
import { take } from '../../base/slices.ts';
import type { Page } from '../../edge/http/server.ts';
import { domainAsJson, ruleAsJson, scheduleAsJson } from '../../edge/listing/describe.ts';
import { rateFor } from '../../engine/algorithms/index.ts';
import type { State } from '../../engine/algorithms/limit.ts';
import { fullCapacity, isRateLimit, type Limit } from '../../engine/holds/limits.ts';
import { hashRules } from '../../engine/rules/compile/packed.ts';
import { listRules as rulesOf } from '../../engine/rules/match/tree.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import { text } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { chooseView, type Scope, type View } from '../../operate/admin/scope.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { Reload } from '../../operate/observe/reload.ts';
import type { Illustration } from './answers.ts';
import { type Feed, MAX_READERS } from './feed.ts';
import { type FeedOptions, findRule, NAMED_NOTE, seriesOperations } from './series-operations.ts';

/** The most rules listed in one response. */
const MAX_LISTED_RULES = 20_000;
const MAX_PROBLEMS = 200;

/** Operations of the console: series, rules, and a stream of snapshots. */
export const consoleOperations = (options: FeedOptions): readonly ApiOperation[] => [
  ...seriesOperations(options),
  ...stateOperations(options),
];

function stateOperations(options: FeedOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/rules', {
      summary: 'the rules in force, and the problems of newer ones',
      need: 'open',
      domains: 'selected',
      answers: `The rules as on /rlconfig?format=json, ${MAX_LISTED_RULES} at most; \`more\` counts the others.`,
      answer: ({ scope }) => listRules(options, scope),
    }),
    operation('GET /api/v1/rules/costs', {
      summary: 'what each rule costs the store',
      need: 'open',
      domains: 'selected',
      answers:
        'Operations on counters, the time of their calls, and the size of keys and states in the last whole minute, estimated from one call in 16; rules named by callers are left out.',
      answer: ({ scope }) => ({ costs: options.feed.costs.last.filter(({ rule }) => scope.hasRule(rule)) }),
    }),
    operation('GET /api/v1/rules/illustration', {
      summary: 'what a limit on a rate decides about example requests, for a drawing',
      need: 'open',
      domains: 'selected',
      query: illustrationQuery,
      answers: 'Requests over three windows, with the hits that the counter had before each.',
      answer: ({ query }) => illustrationFor(options, query),
    }),
    operation('GET /api/v1/events', {
      summary: 'a snapshot of the service, once a second',
      need: 'open',
      domains: 'selected',
      answers: `Server-sent events. \`refusedClients\` is there for clients that may see values. ${NAMED_NOTE}`,
      produces: 'text/event-stream',
      answer: ({ request, ...call }) => eventsPage(options.feed, request.method !== 'HEAD', chooseView(call)),
    }),
  ];
}

function eventsPage(feed: Feed, isFollowed: boolean, view: View): Page {
  if (feed.readers >= MAX_READERS) throw new ApiProblem(503, `at most ${MAX_READERS} clients can read the stream`);
  return {
    status: 200,
    contentType: 'text/event-stream',
    headers: { 'cache-control': 'no-store', 'x-accel-buffering': 'no' }, // else nginx would buffer snapshots
    body: 'retry: 1000\n\n',
    ...(isFollowed && { follow: (output) => feed.follow(output, view) }),
  };
}

const illustrationQuery = fields(
  { rule: { ...text, description: 'the path of the rule' } },
  { limit: { ...whole, minimum: 0, maximum: 1_000, description: 'the index of the limit' } },
);

function illustrationFor(
  { rules, clock }: FeedOptions,
  { rule: path, limit: at = 0 }: ValueOf<typeof illustrationQuery>,
): Illustration {
  const limit = findRule(rules(), path)?.limits[at]?.limit;
  const found = limit && illustrate(limit, clock());
  if (!found) throw new ApiProblem(404, `'${path}' has no limit on a rate with the index ${at}`);
  return found;
}

/** Sixtieths of a window: a burst at the end of the first, another at the start of the second, then a steady rate. */
const ARRIVALS = [43, 46, 49, 52, 55, 58, 62, 65, 68, 71, 74, 77, 90, 100, 110, 120, 130, 140, 150, 160, 170];
const PARTS = 60;
/** The part of the limit that one request takes. */
const REQUESTS_OF_A_LIMIT = 5;

/**
 * What a limit decides about an example over three windows.
 *
 * @returns undefined  the limit is not on a rate
 */
function illustrate(limit: Limit, nowMs: number): Illustration | undefined {
  if (!isRateLimit(limit)) return undefined;
  const { step, describe } = rateFor(limit);
  const { windowMs } = limit;
  const capacity = fullCapacity(limit);
  const hits = Math.max(Math.round(capacity / REQUESTS_OF_A_LIMIT), 1);
  const startMs = Math.floor(nowMs / windowMs) * windowMs;
  let state: State | undefined;
  const arrivals = ARRIVALS.map((at) => {
    const atMs = Math.round((at * windowMs) / PARTS);
    const stepped = step(limit, state, startMs + atMs, hits, true);
    state = stepped.state;
    const outcome = { hits, accepted: stepped.accepted, charged: true } as const;
    const { hitsBefore } = describe(limit, stepped.report ?? state, startMs + atMs, outcome);
    return { atMs, before: hitsBefore, passed: stepped.accepted };
  });
  return { windowMs, windows: 3, capacity, hits, arrivals };
}

function listRules({ rules, sourced, clock }: FeedOptions, scope: Scope): Answers['GET /api/v1/rules'] {
  const tree = rules();
  const last = sourced.lastLoad();
  const problems = !last ? [] : last.ok ? last.warnings : last.problems;
  const packed = last?.ok ? last.packed : undefined;
  const reloaded = scope.hasAll ? sourced.lastReload() : undefined; // its text names rules of all domains
  const domains = new Map([...(tree?.domains ?? [])].filter(([name]) => scope.hasDomain(name)));
  const own = rulesOf(domains);
  const nowMs = clock();
  return {
    loaded: tree !== undefined,
    newest: last?.ok ?? tree !== undefined,
    ...(packed && { hash: hashRules(packed) }),
    problems: scope.hasAll ? problems.slice(0, MAX_PROBLEMS).map(formatProblem) : [],
    domains: Array.from(domains.values(), domainAsJson),
    more: Math.max(own.length - MAX_LISTED_RULES, 0),
    ...(reloaded && { reload: reloadAsJson(reloaded.reload, reloaded.atMs) }),
    rules: Array.from(take(MAX_LISTED_RULES, own), (rule) => ({
      ...ruleAsJson(rule),
      levels: rule.levels,
      ...scheduleAsJson(rule, nowMs),
    })),
  };
}

const reloadAsJson = ({ text, countersKept, countersAnew }: Reload, atMs: number) => ({
  at_ms: atMs,
  text: text ?? 'no rule has changed',
  counters_kept: countersKept,
  counters_anew: countersAnew,
});
