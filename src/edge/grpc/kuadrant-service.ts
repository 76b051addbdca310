import type { handleUnaryCall, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { WireRequest, WireResponse } from '../../engine/wire/wire.ts';
import type { KuadrantService } from '../rls/holds.ts';
import type {
  KuadrantCommitRequest,
  KuadrantCommitResponse,
  KuadrantReserveRequest,
  KuadrantReserveResponse,
} from '../rls/proto.ts';
import { replyWith } from './holds-service.ts';

/** The handlers of `kuadrant.service.ratelimit.v1.RateLimitService`. */
export function kuadrantHandlers(kuadrant: KuadrantService): UntypedServiceImplementation {
  const CheckRateLimit: handleUnaryCall<WireRequest, WireResponse> = ({ request }, callback) =>
    replyWith(kuadrant.checkRateLimit(request), callback);
  const Report: handleUnaryCall<WireRequest, WireResponse> = ({ request }, callback) =>
    replyWith(kuadrant.report(request), callback);
  const Reserve: handleUnaryCall<KuadrantReserveRequest, KuadrantReserveResponse> = ({ request }, callback) =>
    replyWith(kuadrant.reserve(request), callback);
  const Commit: handleUnaryCall<KuadrantCommitRequest, KuadrantCommitResponse> = ({ request }, callback) =>
    replyWith(kuadrant.commit(request), callback);
  return { CheckRateLimit, Report, Reserve, Commit };
}
