import { fields, type ValueOf } from '../../base/shape.ts';
import { operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { DESCRIPTOR_QUERY, domain, onlyRule, pageSize, readDescriptor, text } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { ProxyQuota } from '../lab/answers/quotas.ts';
import type { QuotasPart } from '../lab/quotas-part.ts';
import type { QuotaReport } from './answers.ts';
import type { QuotaQuery } from './quota-report.ts';

/** The operation that lists the quotas of proxies, and their use. */
export const quotaOperations = (options: AdminOptions): QuotasPart => ({
  operations: [
    operation('GET /api/v1/quotas', {
      summary: 'share, demand and use of the proxies that are connected to this instance (RLQS)',
      need: 'read',
      domains: 'named',
      query: quotaQuery,
      answers: 'Buckets of proxies, the highest demand first; rates are per second. `more` counts the others.',
      answer: ({ query }) => listQuotas(options, query),
    }),
  ],
  quotasOf: async (domain, entries) => {
    if (!options.settings.rlqs.isOn) return [];
    return (await collectQuotas(options, { domain, entries, count: EXPLAINED_QUOTAS })).quotas;
  },
});

const MAX_QUOTAS = 500;
const DEFAULT_QUOTAS = 50;

const quotaQuery = fields(
  {},
  {
    domain: { ...domain, description: 'only this domain; required with descriptor' },
    rule: onlyRule,
    descriptor: { ...text, description: `${DESCRIPTOR_QUERY}: only this bucket` },
    count: pageSize(MAX_QUOTAS),
  },
);

async function listQuotas(options: AdminOptions, query: ValueOf<typeof quotaQuery>): Promise<QuotaReport> {
  if (!options.settings.rlqs.isOn) throw new ApiProblem(404, 'proxies have no quotas: RLQS is off');
  const { descriptor, count = DEFAULT_QUOTAS, ...rest } = query;
  if (descriptor !== undefined && rest.domain === undefined)
    throw new ApiProblem(400, 'the query is not valid: domain is required with descriptor');
  const entries = descriptor === undefined ? {} : { entries: readDescriptor(descriptor) };
  return collectQuotas(options, { ...rest, ...entries, count });
}

/** The quotas in all processes of this instance. Values are hashed if HASH_KEYS is set. */
async function collectQuotas(options: AdminOptions, query: QuotaQuery): Promise<QuotaReport> {
  const reports = await askPart<QuotaReport>(options, 'quotas', query);
  const shown = shownBy(true, options.hash);
  const all = reports.flatMap(({ quotas }) => quotas).sort((one, other) => (other.demand ?? -1) - (one.demand ?? -1));
  const quotas = all.slice(0, query.count).map(
    (one): ProxyQuota => ({
      ...one,
      entries: shownEntries(one.entries, shown),
    }),
  );
  return { quotas, more: reports.reduce((sum, { more }) => sum + more, all.length - quotas.length) };
}

/** The most proxies shown for one descriptor. */
const EXPLAINED_QUOTAS = 20;
