import { type ApiOperation, operation } from './api.ts';
import type { Audit } from './audit.ts';
import { pageSize } from './parameters.ts';
import { object } from './schema.ts';

/** Lists the changes that operators made. */
export function auditOperations(log: Pick<Audit, 'latest'>): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/audit',
      method: 'GET',
      summary: 'the newest changes',
      need: 'read',
      query: object({ count: pageSize(1_000) }, []),
      answers: 'Changes, the newest first.',
      answer: async ({ query: { count = 100 } }) => ({ changes: await log.latest(count) }),
    }),
  ];
}
