import { hashed } from '../hashed.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { domain, pageSize, text } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { keptText, mergeRefusals, type SampledRefusal } from './refusals.ts';
import { confidenceOf, unlistedAtMost } from './sampling-error.ts';
import { object } from './schema.ts';
import { type Shown, shownBy } from './shown-value.ts';
import { mergeTop } from './space-saving.ts';
import { describeTop, mergeRulesInTurns, topKinds } from './top-keys.ts';
import { describeUnmatched, isOfDomain, type UnmatchedDescriptor } from './unmatched.ts';

/** What the processes that answer requests have kept: what met no rule, the busiest descriptors, the last refusals. */
export function viewOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/unmatched',
      method: 'GET',
      summary: 'descriptors of the last minute that matched no rule, with the nearest rule',
      need: 'open',
      query: object({ domain: { ...domain, description: 'of this domain alone' }, count: pageSize(500) }, []),
      answers:
        'Descriptors, the most frequent first, each with the most that its count is too high and too low by. Values are hidden from clients that may not read them.',
      answer: ({ client, query }) => unmatched(options, query, shownBy(client.seesValues, options.hashKeys)),
    }),
    operation({
      path: '/api/v1/top',
      method: 'GET',
      summary: 'descriptors that hit a rule most in the last minute, or are refused most',
      need: 'read',
      query: object(
        {
          by: { type: 'string', maxLength: 10, enum: topKinds, description: 'hits (the default) or refusals' },
          rule: { ...text, description: 'the path of one rule' },
          count: pageSize(1_000),
        },
        [],
      ),
      answers:
        'For each rule its most frequent descriptors, each with the most that its count is too high and, at high rates, too low by; `confidence` is the probability of each bound.',
      answer: ({ query }) => top(options, query),
    }),
    operation({
      path: '/api/v1/refusals',
      method: 'GET',
      summary: 'the last refusals, each with the explanation of its decision (EXPLAIN_SAMPLE)',
      need: 'read',
      query: object(
        {
          domain: { ...domain, description: 'of this domain alone' },
          rule: { ...text, description: 'the path of one rule' },
          request: { ...text, description: 'the request id: the value of the entry with not_counted' },
          after: {
            type: 'integer',
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description: 'later than this: milliseconds since the epoch',
          },
          count: pageSize(1_000),
        },
        [],
      ),
      answers: 'Refusals, the newest first; `dropped` counts those that were not kept.',
      answer: ({ query }) => refusals(options, query),
    }),
  ];
}

async function unmatched(
  options: AdminOptions,
  { domain: only, count = 50 }: { readonly domain?: string; readonly count?: number },
  shown: Shown,
): Promise<object> {
  const replies = await options.ask({ kind: 'unmatched' });
  const list = mergeTop(replies.map(({ reply }) => reply.report.list));
  const countedOneIn = Math.max(1, ...replies.map(({ reply }) => reply.report.countedOneIn));
  const entries = list.entries.filter((one) => only === undefined || isOfDomain(one, only)).slice(0, count);
  const found = await describeUnmatched(options.rules(), { entries }, countedOneIn);
  const isPlain = shown('a') === 'a';
  const hide = ({ entries, why, nearest, ...one }: UnmatchedDescriptor): object => ({
    ...one,
    entries: entries.map(({ key, value }) => ({ key, value: shown(value) })),
    ...(why !== undefined && isPlain && { why }),
    ...(nearest && { nearest: isPlain ? nearest : nearest.map(({ descriptor: _, ...rest }) => rest) }),
  });
  return {
    windowSeconds: 60,
    total: list.total,
    unlistedAtMost: unlistedAtMost({ list, countedOneIn }),
    countedOneIn,
    confidence: confidenceOf(countedOneIn),
    descriptors: found.map(hide),
  };
}

async function top(
  options: AdminOptions,
  { by = 'hits', rule, count = 20 }: { readonly by?: string; readonly rule?: string; readonly count?: number },
): Promise<object> {
  const kind = topKinds.find((one) => one === by) ?? 'hits';
  const replies = await options.ask({ kind: 'top', by: kind, ...(rule !== undefined && { rule }) });
  const rules = await mergeRulesInTurns(replies.map(({ reply }) => reply.tops));
  return {
    by: kind,
    windowSeconds: 60,
    rules: rules.slice(0, MAX_RULES).map((one) => describeTop(one, count, options.hashKeys ? hashed : undefined)),
  };
}

const MAX_RULES = 100;

async function refusals(
  options: AdminOptions,
  {
    domain: only,
    rule,
    request,
    after = 0,
    count = 50,
  }: {
    readonly domain?: string;
    readonly rule?: string;
    readonly request?: string;
    readonly after?: number;
    readonly count?: number;
  },
): Promise<object> {
  const replies = await options.ask({ kind: 'refusals' });
  const reports = replies.flatMap(({ reply }) => reply.report ?? []);
  if (reports.length === 0) throw new ApiProblem(404, 'no refusals are kept: set EXPLAIN_SAMPLE');
  const { refusals: kept, dropped } = mergeRefusals(reports);
  const isWanted = ({ atMs, domain: name, requestId, descriptors }: SampledRefusal): boolean =>
    atMs > after &&
    (request === undefined || requestId === keptText(request)) &&
    (only === undefined || name === only) &&
    (rule === undefined || descriptors.some((one) => one.rule === rule));
  const shown = shownBy(true, options.hashKeys);
  return {
    dropped,
    refusals: kept
      .filter(isWanted)
      .slice(0, count)
      .map(({ requestId, descriptors, ...refusal }) => ({
        ...refusal,
        ...(requestId !== undefined && { requestId: shown(requestId) }),
        descriptors: descriptors.map((one) => ({
          ...one,
          entries: one.entries.map(({ key, value }) => ({ key, value: shown(value) })),
        })),
      })),
  };
}
