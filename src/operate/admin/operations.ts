import { fields } from '../../base/shape.ts';
import type { AuditLine } from '../answers/service.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { pageSize } from './parameters.ts';
import { ruleTextOperations } from './rule-text-operations.ts';
import type { Scope } from './scope.ts';
import { sessionOperations } from './session-operations.ts';

/** All operations of the admin API. @param more  those of the console, and of optional capabilities */
export function adminOperations(options: AdminOptions, more: readonly ApiOperation[]): readonly ApiOperation[] {
  const operations: ApiOperation[] = [
    operation('GET /api/v1/openapi.json', {
      summary: 'this API, as an OpenAPI document',
      need: 'open',
      domains: 'any',
      answers: 'The document.',
      answer: async () => (await import('./openapi.ts')).openApiDocument(operations, options.version),
    }),
    ...auditOperations(options),
    ...ruleTextOperations(options),
    ...sessionOperations(options),
    ...more,
  ];
  return operations;
}

const MAX_CHANGES = 1_000;

/** Whether all domains of a change are the client's; another program may have written the line. */
function isWithin({ what }: AuditLine, scope: Scope): boolean {
  if (scope.hasAll) return true;
  const { domain, domains = [domain] } = (what ?? {}) as { readonly domain?: unknown; readonly domains?: unknown };
  if (!Array.isArray(domains) || domains.length === 0) return false; // of a candidate whose domains were not known
  return domains.every((name) => typeof name === 'string' && scope.hasDomain(name));
}

/** Lists the changes that operators made. */
function auditOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/audit', {
      summary: 'the newest changes',
      need: 'read',
      domains: 'selected',
      query: fields({}, { count: pageSize(MAX_CHANGES) }),
      answers: 'Changes, the newest first.',
      answer: async ({ query: { count = 100 }, scope }) => {
        const changes = await options.audit.latest(scope.hasAll ? count : MAX_CHANGES);
        return { changes: changes.filter((one) => isWithin(one, scope)).slice(0, count) };
      },
    }),
  ];
}
