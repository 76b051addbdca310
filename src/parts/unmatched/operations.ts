import { fields, type ValueOf } from '../../base/shape.ts';
import { operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { onlyDomain, pageSize } from '../../operate/admin/parameters.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import { type Shown, shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { sampleConfidence, unlistedAtMost } from '../lab/sketches/sampling-error.ts';
import { mergeTop } from '../lab/sketches/space-saving.ts';
import { whyWithoutValues } from '../lab/stop.ts';
import type { UnmatchedDescriptor } from './answers.ts';
import { describeUnmatched, domainOf, type UnmatchedReport } from './unmatched.ts';

/** The operation that lists unmatched descriptors, and their counts for metrics. */
export const unmatchedOperations = (options: AdminOptions) => ({
  operations: [
    operation('GET /api/v1/unmatched', {
      summary: 'descriptors of the last minute that matched no rule, with the nearest rule',
      need: 'open',
      domains: 'selected',
      query: unmatchedQuery,
      answers:
        'Descriptors, the most frequent first, each with the largest possible error of its count, too high and too low. `requests` is the total number of requests. Values are hidden from clients that may not read them.',
      answer: ({ client, scope, query }) => unmatched(options, query, scope, shownBy(client.seesValues, options.hash)),
    }),
  ],
  facts: async () => ({ unmatched: (await readReports(options)).flatMap(({ counts }) => counts) }),
});

const readReports = (options: AdminOptions): Promise<readonly UnmatchedReport[]> =>
  askPart<UnmatchedReport>(options, 'unmatched', {});

const unmatchedQuery = fields({}, { domain: onlyDomain, count: pageSize(500) });

async function unmatched(
  options: AdminOptions,
  { domain: only, count = 50 }: ValueOf<typeof unmatchedQuery>,
  scope: Scope,
  shown: Shown,
): Promise<Answers['GET /api/v1/unmatched']> {
  const [reports, requests] = await Promise.all([readReports(options), options.requestsOfMinute()]);
  const list = mergeTop(reports.map((report) => report.list));
  const countedOneIn = Math.max(1, ...reports.map((report) => report.countedOneIn));
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
