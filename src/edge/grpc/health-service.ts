import type { handleServerStreamingCall, handleUnaryCall, UntypedServiceImplementation } from '@grpc/grpc-js';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Health } from '../rls/health.ts';
import type { HealthCheckRequest, HealthCheckResponse, HealthListResponse } from '../rls/health-messages.ts';
import { notifyOnCallFinished, type OnCallFinished } from './grpc-server.ts';
import { whenGone } from './when-gone.ts';

/**
 * The handlers of `grpc.health.v1.Health`.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function healthHandlers(
  health: Health,
  onCallFinished: OnCallFinished | undefined,
): UntypedServiceImplementation {
  const Check: handleUnaryCall<HealthCheckRequest, HealthCheckResponse> = ({ request }, callback) => {
    const found = health.status(request.service);
    if (found) callback(null, { status: found });
    else callback({ code: status.NOT_FOUND, details: 'unknown service' });
  };
  const List: handleUnaryCall<object, HealthListResponse> = (_call, callback) => {
    const statuses = Array.from(health.statuses(), ([name, found]) => [name, { status: found }] as const);
    callback(null, { statuses: Object.fromEntries(statuses) });
  };
  const Watch: handleServerStreamingCall<HealthCheckRequest, HealthCheckResponse> = (call) => {
    const stop = health.watch(call.request.service, (now) => call.write({ status: now }));
    call.request.service = ''; // grpc-js keeps the request while the stream is open; the name may be 4 MiB long
    whenGone(call, stop);
  };
  return { Check: notifyOnCallFinished('Check', Check, onCallFinished), List, Watch };
}
