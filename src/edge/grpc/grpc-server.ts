import type { Clock } from '../../base/clock.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { status } from '../../h2/grpc/grpc-status.ts';
import type { ConnectionLimits } from '../../h2/http2/connection-life.ts';
import type { Address, TlsOptions } from '../../h2/listen/listener.ts';
import type { Overload } from '../overload/overload.ts';
import type { QuotaService } from '../rlqs/quota-service.ts';
import type { Health } from '../rls/health.ts';
import type { HoldsService, KuadrantService } from '../rls/holds.ts';
import type { RlsService } from '../rls/service.ts';
import type { StartTimer } from './reflection.ts';

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
  /** As in `ServerOptions`. */
  readonly onConnectionError?: (code: string) => void;
}

export type OnCallFinished = (
  method: 'ShouldRateLimit' | 'Decide' | 'Check',
  grpcStatus: status,
  elapsedMs: number,
) => void;

/** The largest request message, like grpc-go's default. Larger ones are RESOURCE_EXHAUSTED. */
export const MAX_REQUEST_BYTES = 4 * 1024 * 1024;
