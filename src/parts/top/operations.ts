import { fields, oneOf, type ValueOf } from '../../base/shape.ts';
import { operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { onlyRule, pageSize, refuseUnknownRule } from '../../operate/admin/parameters.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { describeTop, readTop } from '../lab/sketches/rule-top.ts';
import { topKinds } from '../lab/sketches/shapes.ts';

/** The operation that lists the busiest descriptors of rules. */
export const topOperations = (options: AdminOptions) => ({
  operations: [
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
  ],
});

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
  const rules = (await readTop(options, { by, rule })).filter((one) => scope.hasRule(one.rule));
  if (rule !== undefined && rules.length === 0) refuseUnknownRule(options.rules(), rule);
  return {
    by,
    windowSeconds: 60,
    rules: rules.slice(0, MAX_RULES).map((one) => describeTop(one, count, options.hash)),
  };
}

const MAX_RULES = 100;
