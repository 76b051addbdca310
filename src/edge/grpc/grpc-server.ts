import type { Clock } from '../../base/clock.ts';
import type { status } from '../../h2/grpc/grpc-status.ts';
import type { ConnectionLimits } from '../../h2/http2/connection-life.ts';
import type { Address, TlsOptions } from '../../h2/listen/listener.ts';
import type { Overload } from '../overload/overload.ts';
import type { Health } from '../rls/health.ts';
import type { RlsService } from '../rls/service.ts';
import type { SideService } from './side-service.ts';

export interface GrpcServerOptions {
  readonly address: Address;
  readonly service: RlsService;
  readonly overload: Overload;
  readonly health: Health;
  /** Services of optional parts. */
  readonly others?: readonly SideService[] | undefined;
  readonly clock: Clock;
  /** Certificates for TLS. Default: plain text. */
  readonly tls?: TlsOptions | undefined;
  /** Limits on age and number, and keepalive. Default: none. */
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
