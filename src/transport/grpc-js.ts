import {
  type ChannelOptions,
  type Deadline,
  type handleUnaryCall,
  Server,
  ServerCredentials,
  status,
} from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import type { Clock } from '../clock.ts';
import type { Health } from '../rls/health.ts';
import { describedServices, rateLimitService } from '../rls/proto.ts';
import type { Caller, RlsService } from '../rls/service.ts';
import type { WireRequest, WireResponse } from '../rls/wire.ts';
import { type Address, type Listener, listen, type TlsOptions } from './listener.ts';

/** A server that listens. */
export interface GrpcServer {
  /** Where, as gRPC clients write it: `127.0.0.1:8081`, or `unix:/run/weir.sock`. */
  readonly target: string;
  /** Takes no more calls, lets those under way finish for at most `graceMs`, then ends what is left. */
  close(graceMs: number): Promise<void>;
}

export interface GrpcServerOptions {
  readonly address: Address;
  readonly service: RlsService;
  readonly health: Health;
  readonly clock: Clock;
  /** Undefined: plain text. */
  readonly tls?: TlsOptions | undefined;
  /** Undefined: connections stay for as long as their clients want, and whether those still live is not asked. */
  readonly connections?: ConnectionLimits;
  /** Is told of each unary call that has been answered: its gRPC status, and how long that took from the decoded request on. */
  readonly onCall?: OnCall;
}

/** How long connections live. */
export interface ConnectionLimits {
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
const MAX_REQUEST_BYTES = 4 * 1024 * 1024;

/** The longest age for which a timer of Node's runs, the 10 % more included. */
const LONGEST_AGE_MS = Math.floor((2 ** 31 - 1) / 1.1);

/**
 * Serves the Rate Limit Service, health and reflection on `@grpc/grpc-js`.
 *
 * @throws Error  when the address cannot be bound
 */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { address, health, tls, connections, onCall } = options;
  const server = new Server(channelOptions(connections));
  const { shouldRateLimit, underWay } = handlerOf(options);
  server.addService(rateLimitService, { ShouldRateLimit: told('ShouldRateLimit', shouldRateLimit, onCall) });
  health.implementation.addToServer({
    addService(definition, handlers) {
      const inner = handlers.check as handleUnaryCall<unknown, unknown>; // as health.proto has it
      const check: typeof inner = (call, callback) => {
        health.look();
        inner(call, callback);
      };
      server.addService(definition, { ...handlers, check: told('Check', check, onCall) });
    },
  });
  new ReflectionService(describedServices).addToServer(server);

  const injector = server.createConnectionInjector(ServerCredentials.createInsecure()); // what is secret, the listener knows
  const listener = await listen(address, tls, (socket) => injector.injectConnection(socket));
  const sendGoaway = () => injector.destroy();
  return { target: listener.target, close: (graceMs) => shutDown(server, listener, sendGoaway, underWay, graceMs) };
}

function channelOptions(limits: ConnectionLimits | undefined): ChannelOptions {
  return {
    'grpc.max_receive_message_length': MAX_REQUEST_BYTES,
    ...(limits?.maxAgeMs && { 'grpc.max_connection_age_ms': Math.min(limits.maxAgeMs, LONGEST_AGE_MS) }),
    ...(limits?.maxAgeGraceMs && { 'grpc.max_connection_age_grace_ms': limits.maxAgeGraceMs }),
    ...(limits?.keepaliveTimeMs && {
      'grpc.keepalive_time_ms': limits.keepaliveTimeMs,
      'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    }),
  };
}

function handlerOf({ service, clock }: GrpcServerOptions) {
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
      header: (name) => call.metadata.get(name).join(', ') || undefined,
    };
    service.shouldRateLimit(call.request, caller, (outcome) => {
      done();
      if ('error' in outcome) callback(outcome.error);
      else callback(null, outcome.response);
    });
  };
  return { shouldRateLimit, underWay: () => underWay };
}

/** What is left until a call's deadline, which grpc-js keeps as a point in time: Infinity where the caller set none. */
const timeLeftMs = (deadline: Deadline, nowMs: number): number => Number(deadline) - nowMs;

/** The handler, but each call is told about once it has been answered. */
function told<Q, R>(
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

/** How often a server that closes looks whether calls are under way; the last answer has as long to leave. */
const CLOSE_LOOK_INTERVAL_MS = 50;

/** Lets decisions under way finish. Streams (a health Watch, reflection) are not waited for: they need never end. */
async function shutDown(
  server: Server,
  listener: Listener,
  sendGoaway: () => void,
  underWay: () => number,
  graceMs: number,
): Promise<void> {
  const endMs = performance.now() + graceMs;
  let wasIdle = false;
  const end = (): void => {
    server.forceShutdown();
    listener.destroyAll(); // those that have not said anything yet, too
  };
  const timer = setInterval(() => {
    const isIdle = underWay() === 0;
    if ((isIdle && wasIdle) || performance.now() >= endMs) end();
    wasIdle = isIdle;
  }, CLOSE_LOOK_INTERVAL_MS);
  const closed = listener.close();
  sendGoaway();
  await closed;
  clearInterval(timer);
  end();
}
