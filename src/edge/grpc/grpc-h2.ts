import { PREFIX_BYTES } from '../../h2/grpc/message-reader.ts';
import { Router } from '../../h2/grpc/router.ts';
import type { UnaryCall } from '../../h2/grpc/unary-call.ts';
import type { Http2Limits } from '../../h2/http2/limits.ts';
import { type GrpcServer, serve } from '../../h2/server.ts';
import {
  batchCost,
  createBatch,
  readBatchRequest,
  type WireBatchRequest,
  type WireBatchResponse,
  writeBatchResponse,
} from '../rls/batch.ts';
import { requestCost } from '../rls/cost.ts';
import { DETAIL_HEADER } from '../rls/detail.ts';
import { readRateLimitRequest, writeRateLimitResponse } from '../rls/messages.ts';
import type { CallOutcome, Outcome } from '../rls/service.ts';
import type { WireRequest } from '../wire/wire.ts';
import type { GrpcServerOptions } from './grpc-server.ts';
import { healthMethods } from './health-service.ts';

/** The method's path. */
const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

const DECIDE_BATCH = '/weir.v1.Batch/Decide';

/**
 * Serves the Rate Limit Service, batches, health and reflection on the HTTP/2 server of `h2/`.
 *
 * @param limits  limits of each connection
 * @throws Error if the address cannot be bound
 */
export async function startH2Server(options: GrpcServerOptions, limits?: Partial<Http2Limits>): Promise<GrpcServer> {
  const { address, tls, connections, overload, health, others = [], onCallFinished, onConnectionError } = options;
  const router = new Router(DETAIL_HEADER);
  addDecisions(router, options);
  for (const method of healthMethods(health, onCallFinished)) router.add(method);
  for (const { paths, load, needsH2 } of others) {
    if (needsH2) for (const method of await load(overload)) router.add(method);
    else router.addOnDemand(paths, () => load(overload));
  }
  const { memory, inFlight } = overload;
  return serve(router, { address, tls, limits, connections, memory, inFlight, onConnectionError });
}

function addDecisions(router: Router, { service, overload, onCallFinished }: GrpcServerOptions): void {
  const { countLate, answerKnown } = overload;
  router.addUnary<WireRequest>(SHOULD_RATE_LIMIT, {
    overload,
    decode: readRateLimitRequest,
    measureCost: requestCost,
    handle(request, call) {
      service.shouldRateLimit(request, call, (outcome) => reply(call, outcome));
    },
    countLate,
    handleLate(request, call) {
      const response = answerKnown(request, call);
      if (response) reply(call, { response });
      return response !== undefined;
    },
    onAnswered: (code, elapsedMs) => onCallFinished?.('ShouldRateLimit', code, elapsedMs),
  });
  const decideBatch = createBatch(service);
  router.addUnary<WireBatchRequest>(DECIDE_BATCH, {
    overload,
    decode: readBatchRequest,
    measureCost: batchCost,
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

function replyToBatch(call: UnaryCall<WireBatchRequest>, outcome: Outcome<WireBatchResponse>): void {
  if ('error' in outcome) return call.fail(outcome.error);
  const { bytes, length } = writeBatchResponse(outcome.response, PREFIX_BYTES);
  call.answer(bytes, length);
}
