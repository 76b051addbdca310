import type { handleUnaryCall } from '@grpc/grpc-js';
import type { Clock } from '../../base/clock.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { ConnectionLimits } from '../../h2/http2/connection-life.ts';
import type { Address, TlsOptions } from '../../h2/listen/listener.ts';
import type { StartTimer } from '../../h2/listen/timer.ts';
import type { Overload } from '../overload/overload.ts';
import type { QuotaService } from '../rlqs/quota-service.ts';
import type { Health } from '../rls/health.ts';
import type { HoldsService, KuadrantService } from '../rls/holds.ts';
import type { RlsService } from '../rls/service.ts';

/** A gRPC server on one address. */
export interface GrpcServer {
  /** Its address as a gRPC target: `127.0.0.1:8081`, `[::1]:8081`, `unix:/run/weir.sock`. */
  readonly target: string;
  /** Stops accepting connections, waits up to `graceMs` for calls in flight, then ends the rest. */
  close(graceMs: number): Promise<void>;
}

export interface GrpcServerOptions {
  readonly address: Address;
  readonly service: RlsService;
  readonly overload: Overload;
  readonly health: Health;
  /** The rules in force, for queries about them; undefined: the service is not offered. */
  readonly rules?: (() => RuleTree | undefined) | undefined;
  /** Slots for callers that are not proxies; undefined: the service is not offered. */
  readonly holds?: HoldsService | undefined;
  /** The service for Kuadrant's filter; undefined: the service is not offered. */
  readonly kuadrant?: KuadrantService | undefined;
  /** Quotas for proxies; undefined: the service is not offered. Only on h2. */
  readonly quotas?: QuotaService | undefined;
  readonly clock: Clock;
  /** Times out silent streams. Undefined: Node's timers. */
  readonly startTimer?: StartTimer;
  /** Undefined: plain text. */
  readonly tls?: TlsOptions | undefined;
  /** Undefined: no limit on age or number, and no keepalive. */
  readonly connections?: ConnectionLimits;
  /** Called after each unary call with its gRPC status, and the time since its request was complete. */
  readonly onCallFinished?: OnCallFinished;
  /** Called when a connection or stream is ended, with RFC 9113's name of the error code, or one of the names below. */
  readonly onConnectionError?: (code: string) => void;
}

export type OnCallFinished = (
  method: 'ShouldRateLimit' | 'Decide' | 'Check',
  grpcStatus: status,
  elapsedMs: number,
) => void;

/** The largest request message, like grpc-go's default. Larger ones are RESOURCE_EXHAUSTED. */
export const MAX_REQUEST_BYTES = 4 * 1024 * 1024;

/** The error code reported for connections beyond `maxCount`, or without room in the memory account. */
export const TOO_MANY_CONNECTIONS = 'TOO_MANY_CONNECTIONS';

/** The code reported for idle connections that were ended to make room for new ones. */
export const IDLE_CONNECTION = 'IDLE_CONNECTION';

/** The longest age that fits Node's timers, 10 % jitter included. */
export const LONGEST_AGE_MS = Math.floor((2 ** 31 - 1) / 1.1);

/** Wraps a handler to report each call after its answer. */
export function notifyOnCallFinished<Q, R>(
  method: Parameters<OnCallFinished>[0],
  handle: handleUnaryCall<Q, R>,
  onCallFinished: OnCallFinished | undefined,
): handleUnaryCall<Q, R> {
  if (!onCallFinished) return handle;
  return (call, callback) => {
    const startedMs = performance.now();
    handle(call, (error, ...reply) => {
      callback(error, ...reply);
      onCallFinished(method, error ? (error.code ?? status.UNKNOWN) : status.OK, performance.now() - startedMs);
    });
  };
}
