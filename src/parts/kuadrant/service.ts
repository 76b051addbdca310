import type { ServiceDefinition } from '@grpc/proto-loader';
import { hostedMethods } from '../../edge/grpc/proto-services.ts';
import type { Overload } from '../../edge/overload/overload.ts';
import { createResponse, type Extras } from '../../edge/rls/service.ts';
import {
  codeNumbers,
  type WireDescriptor,
  type WireDuration,
  type WireRequest,
  type WireResponse,
} from '../../edge/wire/wire.ts';
import { MAX_COUNT } from '../../engine/algorithms/limit.ts';
import type { Method } from '../../h2/grpc/method.ts';
import { loadProtos } from '../../protobuf/load.ts';
import { decodeBounded, toOutcome } from '../holds/service.ts';
import type { TimedCaller } from '../holds/slots.ts';
import type { KuadrantLimits } from './limits.ts';

export const kuadrantService = loadProtos(['kuadrant/service/ratelimit/v1/ratelimit.proto'], 'numbers')[
  'kuadrant.service.ratelimit.v1.RateLimitService'
] as ServiceDefinition; // a service in the file

export const kuadrantMethods = (kuadrant: KuadrantService, overload: Overload): readonly Method[] =>
  hostedMethods(kuadrantService, kuadrant, overload);

/** `kuadrant.service.ratelimit.v1.RateLimitService`, independent of the transport. Its methods never reject. */
export type KuadrantService = ReturnType<typeof createKuadrantService>;

export const createKuadrantService = (limits: KuadrantLimits, extras: Extras) => ({
  checkRateLimit: (request: WireRequest, caller: TimedCaller) =>
    toOutcome(async () => {
      const answer = await limits.check(decodeBounded(request), caller);
      return createResponse(request, answer, extras);
    }),
  report: (request: WireRequest, caller: TimedCaller) =>
    toOutcome(async (): Promise<WireResponse> => {
      await limits.report(decodeBounded(request), caller);
      return { overall_code: codeNumbers.OK, statuses: [], response_headers_to_add: [] };
    }),
  reserve: (request: KuadrantReserveRequest, caller: TimedCaller) =>
    toOutcome(async () => {
      const id = await limits.reserve(decodeBounded(toRequest(request, request.amount)), caller);
      return { code: id === undefined ? codeNumbers.OVER_LIMIT : codeNumbers.OK, reservation_id: id ?? '' };
    }),
  commit: (request: KuadrantCommitRequest, caller: TimedCaller) =>
    toOutcome(async () => {
      const decoded = decodeBounded(toRequest(request, request.actual_amount));
      return { reservation_released: await limits.commit(decoded, request.reservation_id, caller) };
    }),
});

/** A request in which every descriptor counts this number of hits. */
function toRequest({ domain, descriptors }: Omit<WireRequest, 'hits_addend'>, hits: number): WireRequest {
  const counted = { hits_addend: { value: Math.min(hits, MAX_COUNT) }, is_negative_hits: false };
  return { domain, descriptors: descriptors.map((one) => ({ ...one, ...counted })), hits_addend: 0 };
}

/** The messages of `proto/kuadrant/service/ratelimit/v1/ratelimit.proto`; fields that Weir ignores are optional. */
interface KuadrantReserveRequest {
  readonly domain: string;
  readonly descriptors: readonly WireDescriptor[];
  readonly amount: number;
  readonly ttl?: WireDuration | null;
}
interface KuadrantCommitRequest {
  readonly domain: string;
  readonly descriptors: readonly WireDescriptor[];
  readonly reservation_id: string;
  readonly actual_amount: number;
}
