import type { handleUnaryCall, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { HoldOutcome, HoldsService } from '../rls/holds.ts';
import type { AcquireRequest, HoldRequest, HoldResponse } from '../rls/proto.ts';
import type { GrpcStatus } from '../rls/service.ts';

/** The handlers of `weir.v1.Holds`. */
export function holdsHandlers(holds: HoldsService): UntypedServiceImplementation {
  const Acquire: handleUnaryCall<AcquireRequest, HoldResponse> = (call, callback) =>
    reply(
      holds.acquire(call.request, (listener) => void call.once('cancelled', listener)),
      callback,
    );
  const Renew: handleUnaryCall<HoldRequest, HoldResponse> = ({ request }, callback) =>
    reply(holds.renew(request), callback);
  const Release: handleUnaryCall<HoldRequest, object> = ({ request }, callback) =>
    reply(holds.release(request), callback);
  return { Acquire, Renew, Release };
}

function reply<R>(answer: Promise<HoldOutcome<R>>, callback: (error: GrpcStatus | null, answer?: R) => void): void {
  answer.then((outcome) => ('error' in outcome ? callback(outcome.error) : callback(null, outcome.response)));
}
