import { fields } from '../../base/shape.ts';
import { operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { pageSize } from '../../operate/admin/parameters.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import type { AuditLine } from '../../operate/answers/service.ts';

const MAX_CHANGES = 1_000;

/** Whether all domains of a change are the client's; another program may have written the line. */
function isWithin({ what }: AuditLine, scope: Scope): boolean {
  if (scope.hasAll) return true;
  const { domain, domains = [domain] } = (what ?? {}) as { readonly domain?: unknown; readonly domains?: unknown };
  if (!Array.isArray(domains) || domains.length === 0) return false; // of a candidate whose domains were not known
  return domains.every((name) => typeof name === 'string' && scope.hasDomain(name));
}

/** The operation that lists the changes that operators made. */
export const auditOperations = ({ audit }: AdminOptions) => ({
  operations: [
    operation('GET /api/v1/audit', {
      summary: 'the newest changes',
      need: 'read',
      domains: 'selected',
      query: fields({}, { count: pageSize(MAX_CHANGES) }),
      answers: 'Changes, the newest first.',
      answer: async ({ query: { count = 100 }, scope }) => {
        const changes = await audit.latest(scope.hasAll ? count : MAX_CHANGES);
        return { changes: changes.filter((one) => isWithin(one, scope)).slice(0, count) };
      },
    }),
  ],
});
