import { fields, oneOf, type ValueOf } from '../../base/shape.ts';
import type { Answers } from '../answers/all.ts';
import type { UnmatchedDescriptor } from '../answers/views.ts';
import { mergeTop } from '../sketches/space-saving.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { onlyDomain, onlyRule, pageSize, refuseUnknownRule } from './parameters.ts';
import { sampleConfidence, unlistedAtMost } from './sampling-error.ts';
import type { Scope } from './scope.ts';
import { type Shown, shownBy, shownEntries } from './shown.ts';
import { describeTop, mergeRules, topKinds } from './top-keys.ts';
import { describeUnmatched, domainOf, whyWithoutValues } from './unmatched.ts';

/** Operations that list unmatched descriptors, and the busiest ones. */
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
  ];
}

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
