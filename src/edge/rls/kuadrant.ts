import { MAX_COUNT } from '../../engine/algorithms/limit.ts';
import type { KuadrantLimits } from '../../engine/holds/kuadrant.ts';
import { encodeAnswer } from '../../engine/wire/codec.ts';
import { codeNumbers, type WireRequest, type WireResponse } from '../../engine/wire/wire.ts';
import { decodeBounded, type HoldOutcome, outcomeOf } from './holds.ts';
import type {
  KuadrantCommitRequest,
  KuadrantCommitResponse,
  KuadrantReserveRequest,
  KuadrantReserveResponse,
} from './proto.ts';
import type { Extras } from './service.ts';

/** `kuadrant.service.ratelimit.v1.RateLimitService`, independent of the transport. Never rejects. */
export interface KuadrantService {
  checkRateLimit(request: WireRequest): Promise<HoldOutcome<WireResponse>>;
  report(request: WireRequest): Promise<HoldOutcome<WireResponse>>;
  reserve(request: KuadrantReserveRequest): Promise<HoldOutcome<KuadrantReserveResponse>>;
  commit(request: KuadrantCommitRequest): Promise<HoldOutcome<KuadrantCommitResponse>>;
}

export const createKuadrantService = (limits: KuadrantLimits, { headers, metadata }: Extras): KuadrantService => ({
  checkRateLimit: (request) =>
    outcomeOf(async () => {
      const answer = await limits.check(decodeBounded(request));
      return encodeAnswer(answer, headers(answer), metadata(request, answer));
    }),
  report: (request) =>
    outcomeOf(async () => {
      await limits.report(decodeBounded(request));
      return { overall_code: codeNumbers.OK, statuses: [], response_headers_to_add: [] };
    }),
  reserve: (request) =>
    outcomeOf(async () => {
      const id = await limits.reserve(decodeBounded(requestOf(request, request.amount)));
      return { code: id === undefined ? codeNumbers.OVER_LIMIT : codeNumbers.OK, reservation_id: id ?? '' };
    }),
  commit: (request) =>
    outcomeOf(async () => {
      const decoded = decodeBounded(requestOf(request, request.actual_amount));
      return { reservation_released: await limits.commit(decoded, request.reservation_id) };
    }),
});

/** A request in which every descriptor counts this number of hits. */
function requestOf({ domain, descriptors }: Omit<WireRequest, 'hits_addend'>, hits: number): WireRequest {
  const counted = { hits_addend: { value: Math.min(hits, MAX_COUNT) }, is_negative_hits: false };
  return { domain, descriptors: descriptors.map((one) => ({ ...one, ...counted })), hits_addend: 0 };
}
