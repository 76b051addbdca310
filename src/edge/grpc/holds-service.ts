import type { handleUnaryCall, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { HoldOutcome, HoldsService } from '../rls/holds.ts';
import type { AcquireRequest, CommitResponse, HoldRequest, HoldResponse, ReserveResponse } from '../rls/proto.ts';
import type { GrpcStatus } from '../rls/service.ts';
import { whenGone } from './when-gone.ts';

/** The handlers of `weir.v1.Holds`. */
export function holdsHandlers(holds: HoldsService): UntypedServiceImplementation {
  const Acquire: handleUnaryCall<AcquireRequest, HoldResponse> = (call, callback) =>
    replyWith(
      holds.acquire(call.request, (listener) => whenGone(call, listener)),
      callback,
    );
  const Renew: handleUnaryCall<HoldRequest, HoldResponse> = ({ request }, callback) =>
    replyWith(holds.renew(request), callback);
  const Release: handleUnaryCall<HoldRequest, object> = ({ request }, callback) =>
    replyWith(holds.release(request), callback);
  const Reserve: handleUnaryCall<HoldRequest, ReserveResponse> = ({ request }, callback) =>
    replyWith(holds.reserve(request), callback);
  const Commit: handleUnaryCall<HoldRequest, CommitResponse> = ({ request }, callback) =>
    replyWith(holds.commit(request), callback);
  return { Acquire, Renew, Release, Reserve, Commit };
}

/** Answers a call with its outcome. */
export function replyWith<R>(
  answer: Promise<HoldOutcome<R>>,
  callback: (error: GrpcStatus | null, answer?: R) => void,
): void {
  answer.then((outcome) => ('error' in outcome ? callback(outcome.error) : callback(null, outcome.response)));
}
