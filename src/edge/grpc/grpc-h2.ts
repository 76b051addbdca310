import type { Socket } from 'node:net';
import { monotonicMs } from '../../base/clock.ts';
import { intermittent } from '../../base/intermittent.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { QUESTION_UNITS } from '../../h2/bounds/call-queue.ts';
import type { MemoryAccount } from '../../h2/bounds/caller-memory.ts';
import { PREFIX_BYTES } from '../../h2/grpc/message-reader.ts';
import { sideLimits } from '../../h2/grpc/method.ts';
import { Router } from '../../h2/grpc/router.ts';
import type { UnaryCall } from '../../h2/grpc/unary-call.ts';
import { Http2Connection } from '../../h2/http2/connection.ts';
import { ConnectionLife, checkIntervalMs } from '../../h2/http2/connection-life.ts';
import { errorNames } from '../../h2/http2/errors.ts';
import type { ConnectionHandler } from '../../h2/http2/exchanges.ts';
import { defaultLimits, type Http2Limits } from '../../h2/http2/limits.ts';
import { listen } from '../../h2/listen/listener.ts';
import { shutDown } from '../../h2/listen/shut-down.ts';
import {
  type BatchOutcome,
  costOfBatch,
  createBatch,
  readBatchRequest,
  type WireBatchRequest,
  writeBatchResponse,
} from '../rls/batch.ts';
import { costOf, costOfFind, costOfHosted } from '../rls/cost.ts';
import { DETAIL_HEADER } from '../rls/detail.ts';
import { readRateLimitRequest, writeRateLimitResponse } from '../rls/messages.ts';
import type { CallOutcome } from '../rls/service.ts';
import {
  type GrpcServer,
  type GrpcServerOptions,
  IDLE_CONNECTION,
  MAX_REQUEST_BYTES,
  TOO_MANY_CONNECTIONS,
} from './grpc-server.ts';
import {
  addHealth,
  addHolds,
  addKuadrant,
  addReflection,
  addRules,
  holdsPaths,
  kuadrantPaths,
  reflectionPaths,
  rulesPaths,
} from './side-services.ts';

/** The method's path. */
const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

const DECIDE_BATCH = '/weir.v1.Batch/Decide';

/**
 * Serves the Rate Limit Service, batches, health and reflection on the HTTP/2 server of `h2/`.
 *
 * @param limits  of each connection
 * @throws Error if the address cannot be bound
 */
export async function startH2Server(
  options: GrpcServerOptions,
  limits: Http2Limits = defaultLimits,
): Promise<GrpcServer> {
  const router = new Router(MAX_REQUEST_BYTES, DETAIL_HEADER);
  addDecisions(router, options);
  addHealth(router.host, options);
  const turns = { overload: options.overload, costOf: costOfHosted };
  const deciding = router.hostWith({ ...sideLimits, turns });
  const finding = router.hostWith({
    ...sideLimits,
    turns: { ...turns, costOf: costOfFind, estimate: QUESTION_UNITS },
  });
  if (options.rules) router.addOnDemand(rulesPaths, () => addRules(finding, options));
  if (options.holds) router.addOnDemand(holdsPaths, () => addHolds(deciding, options));
  if (options.kuadrant) router.addOnDemand(kuadrantPaths, () => addKuadrant(deciding, options));
  await addQuotas(router, options);
  router.addOnDemand(reflectionPaths, () => addReflection(router.host, options));
  const handler: ConnectionHandler = {
    request: (stream, head) => router.open(stream, head),
    tooLarge: (stream) => router.tooLarge(stream),
    failed: (code) => options.onConnectionError?.(errorNames[code]),
  };
  const connections = new Map<Http2Connection, ConnectionLife | undefined>();
  const checks = intermittent(checkIntervalMs(options.connections), () => {
    const nowMs = monotonicMs();
    connections.forEach((life, connection) => {
      connection.checkStalls(nowMs);
      connection.checkIdle(nowMs);
      life?.check(nowMs);
    });
    return connections.size > 0;
  });
  const onConnection = (socket: Socket, account: MemoryAccount): Http2Connection => {
    const connection = new Http2Connection(socket, account, limits, handler);
    connections.set(connection, options.connections && new ConnectionLife(connection, options.connections));
    checks.wake();
    socket.on('close', () => connections.delete(connection));
    return connection;
  };
  const listener = await listen(options.address, options.tls, {
    maxCount: options.connections?.maxCount,
    memory: options.overload.memory,
    onConnection,
    onTooMany: () => options.onConnectionError?.(TOO_MANY_CONNECTIONS),
    onRetired: () => options.onConnectionError?.(IDLE_CONNECTION),
  });
  const sendGoaway = (): void => {
    for (const connection of connections.keys()) connection.drain();
  };
  return {
    target: listener.target,
    async close(graceMs) {
      await shutDown({ listener, sendGoaway, inFlight: options.overload.inFlight, end: listener.destroyAll }, graceMs);
      checks.close();
    },
  };
}

/** Adds `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`. */
async function addQuotas(router: Router, { quotas, overload }: GrpcServerOptions): Promise<void> {
  if (!quotas) return;
  const { quotaHandlers, quotaLimits, quotaMethods } = await import('./quotas-service.ts');
  router.addHosted(quotaMethods, quotaHandlers(quotas, overload), quotaLimits);
}

function addDecisions(router: Router, { service, overload, onCallFinished }: GrpcServerOptions): void {
  const { countLate } = overload;
  router.addUnary<WireRequest>(SHOULD_RATE_LIMIT, {
    overload,
    decode: readRateLimitRequest,
    costOf,
    handle(request, call) {
      service.shouldRateLimit(request, call, (outcome) => reply(call, outcome));
    },
    countLate,
    onAnswered: (code, elapsedMs) => onCallFinished?.('ShouldRateLimit', code, elapsedMs),
  });
  const decideBatch = createBatch(service);
  router.addUnary<WireBatchRequest>(DECIDE_BATCH, {
    overload,
    decode: readBatchRequest,
    costOf: costOfBatch,
    handle(batch, call) {
      decideBatch(batch, call, (outcome) => replyToBatch(call, outcome));
    },
    countLate(batch, times) {
      for (const request of batch.requests) countLate(request, times);
    },
    onAnswered: (code, elapsedMs) => onCallFinished?.('Decide', code, elapsedMs),
  });
}

function reply(call: UnaryCall<WireRequest>, outcome: CallOutcome): void {
  if ('error' in outcome) return call.fail(outcome.error);
  const { bytes, length } = writeRateLimitResponse(outcome.response, PREFIX_BYTES);
  call.answer(bytes, length);
}

function replyToBatch(call: UnaryCall<WireBatchRequest>, outcome: BatchOutcome): void {
  if ('error' in outcome) return call.fail(outcome.error);
  const { bytes, length } = writeBatchResponse(outcome.response, PREFIX_BYTES);
  call.answer(bytes, length);
}
