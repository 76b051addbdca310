import {
  type ChannelOptions,
  type Deadline,
  type handleUnaryCall,
  Server,
  type ServiceDefinition,
} from '@grpc/grpc-js';
import { RequestWork } from '../../base/request-work.ts';
import type { WireRequest, WireResponse } from '../../engine/wire/wire.ts';
import { tooLate } from '../../h2/grpc/answers.ts';
import type { ConnectionLimits } from '../../h2/http2/connection-life.ts';
import { listen } from '../../h2/listen/listener.ts';
import { shutDown } from '../../h2/listen/shut-down.ts';
import { createBatch, readBatchRequest } from '../rls/batch.ts';
import { DETAIL_HEADER } from '../rls/detail.ts';
import { readRateLimitRequest } from '../rls/messages.ts';
import { batchService, decideBatch, rateLimitService, shouldRateLimit } from '../rls/proto.ts';
import type { Caller, GrpcStatus } from '../rls/service.ts';
import {
  type GrpcServer,
  type GrpcServerOptions,
  IDLE_CONNECTION,
  LONGEST_AGE_MS,
  MAX_REQUEST_BYTES,
  notifyOnCallFinished,
  TOO_MANY_CONNECTIONS,
} from './grpc-server.ts';
import { injectConnections } from './injected-connections.ts';
import { addHealth, addHolds, addKuadrant, addReflection, addRules } from './side-services.ts';
import { whenGone } from './when-gone.ts';

/**
 * Serves the Rate Limit Service, batches, health and reflection on `@grpc/grpc-js`.
 *
 * @throws Error if the address cannot be bound
 */
export async function startGrpcJsServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { address, tls, connections, onCallFinished } = options;
  const server = new Server(channelOptions(connections));
  const { handle, inFlight } = handlers(options);
  const { service } = options;
  const decide = handle<WireRequest, WireResponse>((request, caller, reply) => {
    service.shouldRateLimit(request, caller, reply);
  });
  server.addService(boundedService, {
    ShouldRateLimit: notifyOnCallFinished('ShouldRateLimit', decide, onCallFinished),
  });
  server.addService(boundedBatchService, {
    Decide: notifyOnCallFinished('Decide', handle(createBatch(service)), onCallFinished),
  });
  addHealth(server, options);
  await addRules(server, options);
  await addHolds(server, options);
  await addKuadrant(server, options);
  await addReflection(server, options);

  const { onConnection, drain } = injectConnections(server);
  const listener = await listen(address, tls, {
    maxCount: connections?.maxCount,
    memory: options.overload.memory,
    onConnection,
    onTooMany: () => options.onConnectionError?.(TOO_MANY_CONNECTIONS),
    onRetired: () => options.onConnectionError?.(IDLE_CONNECTION),
  });
  const end = (): void => {
    server.forceShutdown();
    listener.destroyAll(); // including those that have not sent anything
  };
  const closing = { listener, sendGoaway: drain, inFlight, end };
  return { target: listener.target, close: (graceMs) => shutDown(closing, graceMs) };
}

/** Uses our own decoder, which stops at the first limit that a request exceeds. */
const boundedService: ServiceDefinition = {
  ...rateLimitService,
  ShouldRateLimit: {
    ...shouldRateLimit,
    requestDeserialize: (bytes: Buffer) => readRateLimitRequest(bytes, 0, bytes.length),
  },
};

const boundedBatchService: ServiceDefinition = {
  ...batchService,
  Decide: { ...decideBatch, requestDeserialize: (bytes: Buffer) => readBatchRequest(bytes, 0, bytes.length) },
};

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

type Handle<Q, R> = (
  request: Q,
  caller: Caller,
  reply: (outcome: { readonly response: R } | { readonly error: GrpcStatus }) => void,
) => void;

function handlers({ overload, clock }: GrpcServerOptions) {
  let inFlight = 0;
  const handle =
    <Q, R>(run: Handle<Q, R>): handleUnaryCall<Q, R> =>
    (call, callback) => {
      const refusal = overload.refusal();
      if (refusal) return callback(refusal);
      inFlight++;
      let isOpen = true;
      const done = (): void => {
        if (isOpen) inFlight--;
        isOpen = false;
      };
      whenGone(call, done); // its answer is dropped
      const startedMs = performance.now();
      const timeoutMs = timeLeftMs(call.getDeadline(), clock());
      const caller: Caller = {
        onGone: (listener) => whenGone(call, listener),
        timeoutMs,
        header: (name) => call.metadata.get(name).join(', ') || undefined,
        needsDetail: call.metadata.get(DETAIL_HEADER)[0] === '1',
        work: new RequestWork(), // bounded, but not charged: grpc-js has no turns
      };
      run(call.request, caller, (outcome) => {
        done();
        if (performance.now() - startedMs > timeoutMs) {
          overload.missed('late');
          callback(tooLate); // grpc-js has sent it already; without it the call would be counted as answered
        } else if ('error' in outcome) callback(outcome.error);
        else callback(null, outcome.response);
      });
    };
  return { handle, inFlight: () => inFlight };
}

/** Time left until a call's deadline, which grpc-js keeps as a point in time; Infinity if the caller set none. */
const timeLeftMs = (deadline: Deadline, nowMs: number): number => Number(deadline) - nowMs;
