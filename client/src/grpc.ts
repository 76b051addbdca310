import {
  type Deadline,
  Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { createGuard, type Refused } from './middleware/guard.ts';
import { retryWait } from './middleware/headers.ts';
import type { LimitOptions } from './middleware/options.ts';

/** A call of a gRPC server. */
export interface GrpcCall {
  /** The method: `/package.Service/Method`. */
  readonly path: string;
  readonly metadata: Metadata;
}

/** Options of the interceptor for gRPC. */
export interface GrpcLimitOptions extends LimitOptions<GrpcCall> {
  /** The status of a refused call instead of the interceptor's own, whose trailers are kept unless it has metadata. */
  readonly onRefused?: (refusal: Refused, call: GrpcCall) => Partial<StatusObject>;
}

/**
 * Limits the calls of a gRPC server: `new Server({ interceptors: [rateLimit({ client, domain: 'demo' })] })`. Refused
 * calls fail with RESOURCE_EXHAUSTED, or with UNAVAILABLE if the service does not answer; trailers contain the fields
 * that other middlewares send as headers.
 */
export function rateLimit(options: GrpcLimitOptions): ServerInterceptor {
  const guard = createGuard(options);
  return (method, call) => {
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata(async (metadata, next) => {
        const forwardedFor = metadata.get('x-forwarded-for').join(', ') || undefined;
        try {
          const request = { path: method.path, metadata };
          const passage = await guard(request, { peer: parseAddress(call.getPeer()), forwardedFor });
          if (passage.ok) return next(metadata);
          const trailers = new Metadata();
          for (const [name, value] of passage.fields) trailers.set(name, value);
          const waitMs = retryWait(passage.decision);
          if (waitMs !== undefined) trailers.set('grpc-retry-pushback-ms', pushback(waitMs, call.getDeadline()));
          const code = codes[passage.status] ?? status.UNAVAILABLE;
          const details = String(passage.problem.title);
          call.sendStatus({ code, details, metadata: trailers, ...options.onRefused?.(passage, request) });
        } catch {
          call.sendStatus({ code: status.INTERNAL, details: 'the rate limit could not be checked' });
        }
      })
      .build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  };
}

/**
 * The time after which a client may retry, or -1, "do not retry", if the call can never pass, or its deadline is
 * sooner: grpc-js 1.14 and grpcio 1.85 would wait until the deadline, and then report DEADLINE_EXCEEDED without the
 * trailers of the refusal.
 *
 * @see https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
 */
const pushback = (waitMs: number | 'never', deadline: Deadline): string =>
  waitMs !== 'never' && Date.now() + waitMs < Number(deadline) ? String(waitMs) : '-1';

/** The codes of refusals by HTTP status; UNAVAILABLE for others. */
const codes: Readonly<Record<number, status>> = { 400: status.INVALID_ARGUMENT, 429: status.RESOURCE_EXHAUSTED };

/** The address in grpc-js's name of a peer: `address:port`, `::1:50000` for IPv6, or `unknown` for a Unix socket. */
const parseAddress = (peer: string): string => /^(.+):\d+$/.exec(peer)?.[1] ?? peer;
