import { fields } from '../../base/shape.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { pageSize } from './parameters.ts';
import { ruleTextOperations } from './rule-text-operations.ts';
import { sessionOperations } from './session-operations.ts';
import { viewOperations } from './view-operations.ts';

/** All operations of the admin API. @param more  those of the console, and of optional capabilities */
export function adminOperations(options: AdminOptions, more: readonly ApiOperation[]): readonly ApiOperation[] {
  const operations: ApiOperation[] = [
    operation('GET /api/v1/openapi.json', {
      summary: 'this API, as an OpenAPI document',
      need: 'open',
      answers: 'The document.',
      answer: async () => (await import('./openapi.ts')).openApiDocument(operations, options.version),
    }),
    ...viewOperations(options),
    ...auditOperations(options),
    ...ruleTextOperations(options),
    ...sessionOperations(options),
    ...more,
  ];
  return operations;
}

/** Lists the changes that operators made. */
function auditOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/audit', {
      summary: 'the newest changes',
      need: 'read',
      query: fields({}, { count: pageSize(1_000) }),
      answers: 'Changes, the newest first.',
      answer: async ({ query: { count = 100 } }) => ({ changes: await options.audit.latest(count) }),
    }),
  ];
}
