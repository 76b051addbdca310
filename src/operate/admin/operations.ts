import { type ApiOperation, operation } from './api.ts';
import { auditOperations } from './audit-operations.ts';
import { candidateOperations } from './candidate-operations.ts';
import { counterOperations } from './counter-operations.ts';
import { explainOperations } from './explain-operations.ts';
import { openApiDocument } from './openapi.ts';

import type { AdminOptions } from './options.ts';
import { overrideOperations } from './override-operations.ts';
import { noQuery } from './parameters.ts';
import { quotaOperations } from './quota-operations.ts';
import { recordOperations } from './record-operations.ts';
import { ruleTextOperations } from './rule-text-operations.ts';
import { viewOperations } from './view-operations.ts';

/** All operations of the admin API. */
export function adminOperations(options: AdminOptions): readonly ApiOperation[] {
  const operations: ApiOperation[] = [
    operation({
      path: '/api/v1/openapi.json',
      method: 'GET',
      summary: 'this API, as an OpenAPI document',
      need: 'open',
      query: noQuery,
      answers: 'The document.',
      answer: async () => openApiDocument(operations, options.version, await import('./answers/all.ts')),
    }),
    ...explainOperations(options),
    ...viewOperations(options),
    ...counterOperations(options),
    ...auditOperations(options.audit),
    ...overrideOperations(options),
    ...recordOperations(options),
    ...quotaOperations(options),
    ...candidateOperations(options),
    ...ruleTextOperations(options),
    ...options.more,
  ];
  return operations;
}
