import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { Health, WatchedStatus } from '../rls/health.ts';
import { notifyOnCall, type OnCall } from './grpc-server.ts';

/** The messages of `proto/grpc/health/v1/health.proto`, decoded. */
interface HealthCheckRequest {
  service: string;
}
interface HealthCheckResponse {
  readonly status: WatchedStatus;
}
interface HealthListResponse {
  readonly statuses: Readonly<Record<string, HealthCheckResponse>>;
}

/**
 * The handlers of `grpc.health.v1.Health`.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function healthHandlers(health: Health, onCall: OnCall | undefined): UntypedServiceImplementation {
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
    if (call.cancelled) stop();
    else call.once('cancelled', stop);
  };
  return { Check: notifyOnCall('Check', Check, onCall), List, Watch };
}
