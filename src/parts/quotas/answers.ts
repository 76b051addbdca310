import { fields, listOf, type ValueOf, whole } from '../../base/shape.ts';
import { proxyQuota } from '../lab/answers/quotas.ts';

const quotaReport = fields({
  /** Buckets with the highest demand. */
  quotas: listOf(proxyQuota),
  /** Number of buckets that are not listed. */
  more: whole,
});
export type QuotaReport = ValueOf<typeof quotaReport>;

export const quotaAnswers = { 'GET /api/v1/quotas': quotaReport };
