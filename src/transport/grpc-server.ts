import type { handleUnaryCall } from '@grpc/grpc-js';
import type { Clock } from '../clock.ts';
import { status } from '../grpc-status.ts';
import type { Overload } from '../overload/overload.ts';
import type { Health } from '../rls/health.ts';
import type { RlsService } from '../rls/service.ts';
import type { RuleTree } from '../rules/tree.ts';
import type { Address, TlsOptions } from './listener.ts';
import type { StartTimer } from './timer.ts';

/** A gRPC server that answers on one address. */
export interface GrpcServer {
  /** Where it listens, as clients write it: `127.0.0.1:8081`, `[::1]:8081`, `unix:/run/weir.sock`. */
  readonly target: string;
  /** Stops accepting, lets calls in flight finish for at most `graceMs`, then ends them. */
  close(graceMs: number): Promise<void>;
}

export interface GrpcServerOptions {
  readonly address: Address;
  readonly service: RlsService;
  readonly overload: Overload;
  readonly health: Health;
  /** The rules in force, for questions about them; undefined: there is no such service. */
  readonly rules?: (() => RuleTree | undefined) | undefined;
  readonly clock: Clock;
  /** Undefined: Node's timers. For what ends silent streams. */
  readonly startTimer?: StartTimer;
  /** Undefined: plain text. */
  readonly tls?: TlsOptions | undefined;
  /** Undefined: connections stay for as long as their clients want, and whether those still live is not asked. */
  readonly connections?: ConnectionLimits;
  /** Is told of each unary call that has been answered: its gRPC status, and how long that took from the decoded request on. */
  readonly onCall?: OnCall;
  /** Is told why a connection, or a stream of it, was ended, by the name that RFC 9113 gives the reason; TOO_MANY_CONNECTIONS of one too many. */
  readonly onConnectionError?: (code: string) => void;
}

/** How many connections there are, and how long they live. */
export interface ConnectionLimits {
  /** At a time; those beyond are closed at once. */
  readonly maxCount: number;
  /** After this, give or take 10 %, a connection is sent GOAWAY: its client opens another one. 0: never. */
  readonly maxAgeMs: number;
  /** For how long its calls may go on after that. 0: for as long as they take. */
  readonly maxAgeGraceMs: number;
  /** How often a client is pinged. 0: never. */
  readonly keepaliveTimeMs: number;
  /** How long a ping is waited for before the connection is given up. */
  readonly keepaliveTimeoutMs: number;
}

export type OnCall = (method: 'ShouldRateLimit' | 'Check', grpcStatus: status, elapsedMs: number) => void;

/** The largest request: as grpc-go has it where nothing else is said. Beyond it a call is RESOURCE_EXHAUSTED. */
export const MAX_REQUEST_BYTES = 4 * 1024 * 1024;

/** What is told of a connection that is closed since there are too many. */
export const TOO_MANY_CONNECTIONS = 'TOO_MANY_CONNECTIONS';

/** The longest age for which a timer of Node's runs, the 10 % more included. */
export const LONGEST_AGE_MS = Math.floor((2 ** 31 - 1) / 1.1);

/** The handler, but each call is told about once it has been answered. */
export function told<Q, R>(
  method: Parameters<OnCall>[0],
  handle: handleUnaryCall<Q, R>,
  onCall: OnCall | undefined,
): handleUnaryCall<Q, R> {
  if (!onCall) return handle;
  return (call, callback) => {
    const startedMs = performance.now();
    handle(call, (error, ...reply) => {
      callback(error, ...reply);
      onCall(method, error ? (error.code ?? status.UNKNOWN) : status.OK, performance.now() - startedMs);
    });
  };
}
