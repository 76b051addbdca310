import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { sessionOperations } from './session-operations.ts';

/** All operations of the admin API. @param more  those of optional capabilities */
export function adminOperations(options: AdminOptions, more: readonly ApiOperation[]): readonly ApiOperation[] {
  const operations: ApiOperation[] = [
    operation('GET /api/v1/openapi.json', {
      summary: 'this API, as an OpenAPI document',
      need: 'open',
      domains: 'any',
      answers: 'The document.',
      answer: async () => (await import('./openapi.ts')).openApiDocument(operations, options.version),
    }),
    ...sessionOperations(options),
    ...more,
  ];
  return operations;
}
