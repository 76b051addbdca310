import { fields, oneOf, type ValueOf, whole } from '../../base/shape.ts';
import { rfc3339 } from '../../base/times.ts';
import { mergeTop } from '../../lab/sketches/space-saving.ts';
import type { Answers } from '../answers/all.ts';
import type { RefusalPage, SampledRefusal } from '../answers/explain.ts';
import type { ListedFinding } from '../answers/findings.ts';
import type { UnmatchedDescriptor } from '../answers/views.ts';
import type { StandingFinding } from '../findings/findings.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { onlyDomain, onlyRule, pageSize, refuseUnknownRule, text } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { keptText, refusalKinds, refusalPage } from './refusals.ts';
import { sampleConfidence, unlistedAtMost } from './sampling-error.ts';
import type { Scope } from './scope.ts';
import { type Shown, shownBy, shownEntries } from './shown.ts';
import { describeTop, mergeRules, topKinds } from './top-keys.ts';
import { describeUnmatched, domainOf, whyWithoutValues } from './unmatched.ts';

/** Operations that list unmatched descriptors, the busiest descriptors and the last refusals. */
export function viewOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/unmatched', {
      summary: 'descriptors of the last minute that matched no rule, with the nearest rule',
      need: 'open',
      domains: 'selected',
      query: unmatchedQuery,
      answers:
        'Descriptors, the most frequent first, each with the largest possible error of its count, too high and too low. `requests` is the total number of requests. Values are hidden from clients that may not read them.',
      answer: ({ client, scope, query }) => unmatched(options, query, scope, shownBy(client.seesValues, options.hash)),
    }),
    operation('GET /api/v1/findings', {
      summary: 'likely mistakes in the configurations of proxies, such as charges that never arrive',
      need: 'open',
      domains: 'selected',
      answers:
        'Findings, the oldest first, each until it has not been confirmed for a minute. Values in examples are hidden from clients that may not read them.',
      answer: ({ client, scope }) => {
        const shown = shownBy(client.seesValues, options.hash);
        const all = options.findings.list().filter((one) => isFindingWithin(one, scope));
        return { findings: all.map((one) => listedFinding(one, shown)) };
      },
    }),
    operation('GET /api/v1/top', {
      summary:
        'the descriptors with the most hits, refusals, or hits that shadow or quota mode let pass, by rule in the last minute',
      need: 'read',
      domains: 'selected',
      query: topQuery,
      answers:
        'For each rule its most frequent descriptors, each with the largest possible error of its count, too high and, at high rates, too low; `confidence` is the probability of each bound.',
      answer: ({ query, scope }) => top(options, query, scope),
    }),
    operation('GET /api/v1/refusals', {
      summary: 'the last refusals, each with the explanation of its decision (EXPLAIN_SAMPLE)',
      need: 'read',
      domains: 'selected',
      query: refusalQuery,
      answers: 'Refusals, the newest first; `dropped` counts those that were not kept.',
      answer: ({ query, scope }) => refusals(options, query, scope),
    }),
  ];
}

const listedFinding = (
  { id: _, sinceMs, confirmedAtMs, example, ...open }: StandingFinding,
  shown: Shown,
): ListedFinding => ({
  ...open,
  since: rfc3339(sinceMs),
  confirmed: rfc3339(confirmedAtMs),
  example: shownEntries(example, shown),
});

/** Whether a client may see a finding; one about connections belongs to no domain. */
export const isFindingWithin = ({ domain, rule }: Pick<StandingFinding, 'domain' | 'rule'>, scope: Scope): boolean =>
  (domain === undefined || scope.hasDomain(domain)) && (rule === undefined || scope.hasRule(rule));

const unmatchedQuery = fields({}, { domain: onlyDomain, count: pageSize(500) });

async function unmatched(
  options: AdminOptions,
  { domain: only, count = 50 }: ValueOf<typeof unmatchedQuery>,
  scope: Scope,
  shown: Shown,
): Promise<Answers['GET /api/v1/unmatched']> {
  const [replies, requests] = await Promise.all([options.ask({ kind: 'unmatched' }), options.requestsOfMinute()]);
  const list = mergeTop(replies.map(({ reply }) => reply.list));
  const countedOneIn = Math.max(1, ...replies.map(({ reply }) => reply.countedOneIn));
  const isAll = only === undefined && scope.hasAll;
  const isChosen = (name: string) => (only === undefined ? scope.hasDomain(name) : name === only);
  const ofDomain = isAll ? list.entries : list.entries.filter((one) => isChosen(domainOf(one)));
  const found = describeUnmatched(options.rules(), { entries: ofDomain.slice(0, count) }, countedOneIn);
  const isPlain = shown('a') === 'a';
  const hide = ({ entries, why: full, nearest, ...one }: UnmatchedDescriptor): UnmatchedDescriptor => {
    const why = isPlain ? full : whyWithoutValues(one, entries);
    return {
      ...one,
      entries: shownEntries(entries, shown),
      ...(why !== undefined && { why }),
      ...(nearest && { nearest: isPlain ? nearest : nearest.map(({ descriptor: _, ...rest }) => rest) }),
    };
  };
  return {
    windowSeconds: 60,
    requests,
    total: isAll ? list.total : ofDomain.reduce((sum, one) => sum + one.count, 0),
    unlistedAtMost: unlistedAtMost({ list, countedOneIn }),
    countedOneIn,
    confidence: sampleConfidence(countedOneIn),
    descriptors: found.map(hide),
  };
}

const topQuery = fields(
  {},
  {
    by: {
      ...oneOf(...topKinds),
      description: 'hits (the default), refusals (refused hits), refused_requests, or shadowed',
    },
    rule: onlyRule,
    count: pageSize(1_000),
  },
);

async function top(
  options: AdminOptions,
  { by = 'hits', rule, count = 20 }: ValueOf<typeof topQuery>,
  scope: Scope,
): Promise<Answers['GET /api/v1/top']> {
  const replies = await options.ask({ kind: 'top', by, rule });
  const rules = mergeRules(replies.map(({ reply }) => reply)).filter((one) => scope.hasRule(one.rule));
  if (rule !== undefined && rules.length === 0) refuseUnknownRule(options.rules(), rule);
  return {
    by,
    windowSeconds: 60,
    rules: rules.slice(0, MAX_RULES).map((one) => describeTop(one, count, options.hash)),
  };
}

const MAX_RULES = 100;

const refusalQuery = fields(
  {},
  {
    domain: onlyDomain,
    rule: onlyRule,
    request: { ...text, description: 'the request id: the value of the entry with not_counted' },
    after: {
      ...whole,
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'only refusals after this time, in milliseconds since the epoch',
    },
    of: {
      ...oneOf(...refusalKinds),
      description:
        'refused (the default), or would_refuse: requests that passed though a limit would have refused them',
    },
    since: { ...text, description: '`next` of the previous page: selects the oldest refusals after it' },
    count: pageSize(1_000),
  },
);

async function refusals(
  options: AdminOptions,
  { domain: only, rule, request, after = 0, of = 'refused', since, count = 50 }: ValueOf<typeof refusalQuery>,
  scope: Scope,
): Promise<RefusalPage> {
  const replies = await options.ask({ kind: 'refusals', of });
  const reports = replies.flatMap(({ reply }) => reply ?? []);
  if (reports.length === 0)
    throw options.settings.agent.refusals > 0
      ? new ApiProblem(503, 'no process that answers requests has replied: ask again')
      : new ApiProblem(404, 'no refusals are kept: set EXPLAIN_SAMPLE');
  const isChosen = ({ atMs, domain: name, requestId, descriptors }: SampledRefusal): boolean =>
    atMs > after &&
    scope.hasDomain(name) &&
    (request === undefined || requestId === keptText(request)) &&
    (only === undefined || name === only) &&
    (rule === undefined || descriptors.some((one) => one.rule === rule));
  const shown = shownBy(true, options.hash);
  const page = refusalPage(reports, { since, count, isChosen });
  if (rule !== undefined && page.refusals.length === 0) refuseUnknownRule(options.rules(), rule);
  return {
    ...page,
    refusals: page.refusals.map(({ requestId, descriptors, ...refusal }) => ({
      ...refusal,
      ...(requestId !== undefined && { requestId: shown(requestId) }),
      descriptors: descriptors.map((one) => ({
        ...one,
        entries: shownEntries(one.entries, shown),
      })),
    })),
  };
}
