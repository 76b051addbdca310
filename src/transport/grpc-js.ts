import { type Deadline, type handleUnaryCall, Server, ServerCredentials } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import type { Clock } from '../clock.ts';
import type { Health } from '../rls/health.ts';
import { describedServices, rateLimitService } from '../rls/proto.ts';
import type { Caller, RlsService } from '../rls/service.ts';
import type { WireRequest, WireResponse } from '../rls/wire.ts';

/** A server that listens. */
export interface GrpcServer {
  readonly port: number;
  /** Takes no more calls, lets those under way finish for at most `graceMs`, then ends what is left. */
  close(graceMs: number): Promise<void>;
}

/**
 * Serves the Rate Limit Service, health and reflection on `@grpc/grpc-js`.
 *
 * @param port    0 for any free one
 * @throws Error  when the address cannot be bound
 */
export async function startGrpcServer(
  { host, port }: { readonly host: string; readonly port: number },
  service: RlsService,
  health: Health,
  clock: Clock,
): Promise<GrpcServer> {
  const server = new Server();
  let underWay = 0;
  const shouldRateLimit: handleUnaryCall<WireRequest, WireResponse> = (call, callback) => {
    underWay++;
    let isOpen = true;
    const done = (): void => {
      if (isOpen) underWay--;
      isOpen = false;
    };
    call.on('cancelled', done); // nobody waits for it any more
    const caller: Caller = {
      timeoutMs: timeLeftMs(call.getDeadline(), clock()),
      header: (name) => call.metadata.get(name).join(',') || undefined,
    };
    service.shouldRateLimit(call.request, caller, (outcome) => {
      done();
      if ('error' in outcome) callback(outcome.error);
      else callback(null, outcome.response);
    });
  };
  server.addService(rateLimitService, { ShouldRateLimit: shouldRateLimit });
  health.implementation.addToServer(server);
  new ReflectionService(describedServices).addToServer(server);
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  return { port: await bind(server, address), close: (graceMs) => shutDown(server, () => underWay, graceMs) };
}

/** What is left until a call's deadline, which grpc-js keeps as a point in time: Infinity where the caller set none. */
const timeLeftMs = (deadline: Deadline, nowMs: number): number => Number(deadline) - nowMs;

function bind(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
}

/** How often a server that closes looks whether calls are under way; the last answer has as long to leave. */
const CLOSE_LOOK_INTERVAL_MS = 50;

/** Lets decisions under way finish. Streams (a health Watch, reflection) are not waited for: they need never end. */
function shutDown(server: Server, underWay: () => number, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const endMs = performance.now() + graceMs;
    let wasIdle = false;
    const timer = setInterval(() => {
      const isIdle = underWay() === 0;
      if ((isIdle && wasIdle) || performance.now() >= endMs) server.forceShutdown();
      wasIdle = isIdle;
    }, CLOSE_LOOK_INTERVAL_MS);
    server.tryShutdown(() => {
      clearInterval(timer);
      resolve();
    });
  });
}
