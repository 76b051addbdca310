import type { Socket } from 'node:net';
import { readRateLimitRequest, writeRateLimitResponse } from '../rls/messages.ts';
import { shouldRateLimit } from '../rls/proto.ts';
import type { Outcome } from '../rls/service.ts';
import type { WireRequest, WireResponse } from '../rls/wire.ts';
import { limitLife } from './connection-life.ts';
import { PREFIX_BYTES } from './grpc/message-reader.ts';
import { Router } from './grpc/router.ts';
import type { UnaryCall } from './grpc/unary-call.ts';
import { type GrpcServer, type GrpcServerOptions, MAX_REQUEST_BYTES, TOO_MANY_CONNECTIONS } from './grpc-server.ts';
import { Connection, type ConnectionHandler } from './h2/connection.ts';
import { errorNames } from './h2/errors.ts';
import { defaultLimits, type Http2Limits, type WaitingBytes } from './h2/limits.ts';
import { listen } from './listener.ts';
import { shutDown } from './shut-down.ts';
import { addSideServices } from './side-services.ts';

/** How often connections are looked at for clients that let them wait. */
const PATIENCE_LOOK_MS = 1_000;

/**
 * Serves the Rate Limit Service, health and reflection on the HTTP/2 server of `h2/`.
 *
 * @param limits  of each connection
 * @throws Error  when the address cannot be bound
 */
export async function startH2Server(
  options: GrpcServerOptions,
  limits: Http2Limits = defaultLimits,
): Promise<GrpcServer> {
  const router = new Router(MAX_REQUEST_BYTES);
  const underWay = addDecisions(router, options);
  addSideServices(router.host, options);
  const handler: ConnectionHandler = {
    request: (stream, head) => router.open(stream, head),
    tooLarge: (stream) => router.tooLarge(stream),
    failed: (code) => options.onConnectionError?.(errorNames[code]),
  };
  const connections = new Set<Connection>();
  const waiting: WaitingBytes = { count: 0 };
  const onConnection = (socket: Socket): void => {
    const connection = new Connection(socket, limits, handler, waiting);
    connections.add(connection);
    const release = options.connections && limitLife(connection, options.connections);
    socket.once('close', () => {
      connections.delete(connection);
      release?.();
    });
  };
  const listener = await listen(options.address, options.tls, {
    maxCount: options.connections?.maxCount,
    onConnection,
    onTooMany: () => options.onConnectionError?.(TOO_MANY_CONNECTIONS),
  });
  const patience = setInterval(() => {
    const nowMs = performance.now();
    for (const connection of connections) connection.checkPatience(nowMs);
  }, PATIENCE_LOOK_MS).unref();
  const sendGoaway = (): void => {
    for (const connection of connections) connection.drain();
  };
  return {
    target: listener.target,
    async close(graceMs) {
      await shutDown({ listener, sendGoaway, underWay, end: listener.destroyAll }, graceMs);
      clearInterval(patience);
    },
  };
}

/** @returns how many decisions are under way */
function addDecisions(router: Router, { service, shedding, onCall }: GrpcServerOptions): () => number {
  let underWay = 0;
  router.addUnary<WireRequest>(shouldRateLimit.path, {
    refusal: () => shedding?.refusal(),
    decode: readRateLimitRequest,
    handle(request, call) {
      underWay++;
      service.shouldRateLimit(request, call, (outcome) => {
        underWay--;
        reply(call, outcome);
      });
    },
    onAnswered: (code, elapsedMs) => onCall?.('ShouldRateLimit', code, elapsedMs),
  });
  return () => underWay;
}

function reply(call: UnaryCall<WireRequest>, outcome: Outcome): void {
  if ('error' in outcome) return call.fail(outcome.error);
  const { bytes, length } = write(outcome.response);
  call.answer(bytes, length);
}

/** What has dynamic metadata is left to protobufjs: it is rare, and a struct may hold anything. */
function write(response: WireResponse): { readonly bytes: Buffer; readonly length: number } {
  if (!response.dynamic_metadata) return writeRateLimitResponse(response, PREFIX_BYTES);
  const message = shouldRateLimit.responseSerialize(response);
  const bytes = Buffer.concat([Buffer.alloc(PREFIX_BYTES), message]);
  return { bytes, length: bytes.length };
}
