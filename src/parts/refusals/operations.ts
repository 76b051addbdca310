import { fields, oneOf, type ValueOf, whole } from '../../base/shape.ts';
import { operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { onlyDomain, onlyRule, pageSize, refuseUnknownRule, text } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import { shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { RefusalPage, SampledRefusal } from './answers.ts';
import { keptText, type RefusalReport, refusalKinds, refusalPage } from './refusals.ts';

/** The operation that lists the last refusals. */
export const refusalOperations = (options: AdminOptions) => ({
  operations: [
    operation('GET /api/v1/refusals', {
      summary: 'the last refusals, each with the explanation of its decision (EXPLAIN_SAMPLE)',
      need: 'read',
      domains: 'selected',
      query: refusalQuery,
      answers: 'Refusals, the newest first; `dropped` counts those that were not kept.',
      answer: ({ query, scope }) => refusals(options, query, scope),
    }),
  ],
});

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
  const reports = await askPart<RefusalReport>(options, 'refusals', { of });
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
      descriptors: descriptors.map((one) => ({ ...one, entries: shownEntries(one.entries, shown) })),
    })),
  };
}
