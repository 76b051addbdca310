import {
  type ChannelOptions,
  type Deadline,
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type Metadata,
  Server,
  type ServerDuplexStream,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import type { Clock } from '../../base/clock.ts';
import { RequestWork } from '../../base/request-work.ts';
import type { GrpcServerOptions, OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { healthMethods } from '../../edge/grpc/health-service.ts';
import { createBatch, readBatchRequest } from '../../edge/rls/batch.ts';
import { DETAIL_HEADER } from '../../edge/rls/detail.ts';
import { readRateLimitRequest } from '../../edge/rls/messages.ts';
import { decideBatch, shouldRateLimit } from '../../edge/rls/proto.ts';
import type { Caller, Outcome } from '../../edge/rls/service.ts';
import type { WireRequest, WireResponse } from '../../edge/wire/wire.ts';
import { tooLate } from '../../h2/grpc/answers.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import { MAX_REQUEST_BYTES } from '../../h2/grpc/message-reader.ts';
import type { Incoming, Method, OpenCall } from '../../h2/grpc/method.ts';
import type { ConnectionLimits } from '../../h2/http2/connection-life.ts';
import { listen, type PeerAddress, peerAddress } from '../../h2/listen/listener.ts';
import { type GrpcServer, IDLE_CONNECTION, shutDown, TOO_MANY_CONNECTIONS } from '../../h2/server.ts';
import { injectConnections } from './injected-connections.ts';

/** Maximum age that fits Node's timers, including 10 % jitter. */
const MAX_AGE_MS = Math.floor((2 ** 31 - 1) / 1.1);

/**
 * Serves the Rate Limit Service, batches, health and reflection on `@grpc/grpc-js`.
 *
 * @throws Error if the address cannot be bound
 */
export async function startGrpcJsServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { address, tls, connections, service, onCallFinished } = options;
  const server = new Server(channelOptions(connections));
  const { handle, inFlight } = handlers(options);
  // with our own decoders, which stop at the first limit that a request exceeds
  server.register(
    shouldRateLimit.path,
    handle<WireRequest, WireResponse>('ShouldRateLimit', (request, caller, reply) => {
      service.shouldRateLimit(request, caller, reply);
    }),
    shouldRateLimit.responseSerialize,
    (bytes: Buffer) => readRateLimitRequest(bytes, 0, bytes.length),
    'unary',
  );
  server.register(
    decideBatch.path,
    handle('Decide', createBatch(service)),
    decideBatch.responseSerialize,
    (bytes: Buffer) => readBatchRequest(bytes, 0, bytes.length),
    'unary',
  );
  addMethods(server, healthMethods(options.health, onCallFinished), options.clock);
  for (const { load, needsH2 } of options.others ?? [])
    if (!needsH2) addMethods(server, await load(options.overload), options.clock);

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

function channelOptions(limits: ConnectionLimits | undefined): ChannelOptions {
  return {
    'grpc.max_receive_message_length': MAX_REQUEST_BYTES,
    ...(limits?.maxAgeMs && { 'grpc.max_connection_age_ms': Math.min(limits.maxAgeMs, MAX_AGE_MS) }),
    ...(limits?.maxAgeGraceMs && { 'grpc.max_connection_age_grace_ms': limits.maxAgeGraceMs }),
    ...(limits?.keepaliveTimeMs && {
      'grpc.keepalive_time_ms': limits.keepaliveTimeMs,
      'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    }),
  };
}

type Handle<Q, R> = (request: Q, caller: Caller, reply: (outcome: Outcome<R>) => void) => void;

function handlers({ overload, clock, onCallFinished }: GrpcServerOptions) {
  let inFlight = 0;
  const handle =
    <Q, R>(method: Parameters<OnCallFinished>[0], run: Handle<Q, R>): handleUnaryCall<Q, R> =>
    (call, callback) => {
      const startedMs = performance.now();
      const answer = (outcome: Outcome<R>): void => {
        if ('error' in outcome) callback(outcome.error);
        else callback(null, outcome.response);
        const code = 'error' in outcome ? outcome.error.code : status.OK;
        onCallFinished?.(method, code, performance.now() - startedMs);
      };
      const error = overload.refusal();
      if (error) return answer({ error });
      inFlight++;
      let isOpen = true;
      const done = (): void => {
        if (isOpen) inFlight--;
        isOpen = false;
      };
      whenGone(call, done); // its answer is dropped
      const timeoutMs = timeLeftMs(call.getDeadline(), clock());
      const caller: Caller = {
        onGone: (listener) => whenGone(call, listener),
        timeoutMs,
        header: (name) => readHeader(call, name),
        needsDetail: call.metadata.get(DETAIL_HEADER)[0] === '1',
        work: new RequestWork(), // bounded, but not charged: grpc-js has no turns
        connection: { address: parsePeer(call.getPeer()) },
      };
      run(call.request, caller, (outcome) => {
        done();
        const isLate = performance.now() - startedMs > timeoutMs;
        if (isLate) overload.missed('late', caller);
        answer(isLate ? { error: tooLate } : outcome); // grpc-js has sent it, but the call would count as answered
      });
    };
  return { handle, inFlight: () => inFlight };
}

/** @param peer  `10.0.0.3:51234`, `[::1]:51234`, or the path of a socket */
function parsePeer(peer: string): PeerAddress | undefined {
  const [, host = '', port] = /^\[?(.*?)\]?:(\d+)$/.exec(peer) ?? [];
  return port === undefined ? undefined : peerAddress({ remoteAddress: host, remotePort: Number(port) });
}

/** Time left until a call's deadline, which grpc-js keeps as a point in time; Infinity if the caller set none. */
const timeLeftMs = (deadline: Deadline, nowMs: number): number => Number(deadline) - nowMs;

/** Adds methods, without their limits and turns, which grpc-js does not support. */
function addMethods(server: Server, methods: readonly Method[], clock: Clock): void {
  for (const method of methods) {
    const encode = (message: unknown): Buffer => method.encode(message);
    const decode = (bytes: Buffer): unknown => method.decode(bytes);
    const { path } = method;
    if (method.kind === 'bidi stream') server.register(path, bidiHandler(method, clock), encode, decode, 'bidi');
    else if (method.kind === 'unary') server.register(path, unaryHandler(method, clock), encode, decode, 'unary');
    else {
      const hold = (bytes: Buffer): HeldRequest => ({ message: decode(bytes) });
      server.register(path, serverStreamHandler(method, clock), encode, hold, 'serverStream');
    }
  }
}

/** A request of up to 4 MiB, released when its handler runs, since grpc-js would keep it while the stream is open. */
interface HeldRequest {
  message: unknown;
}

interface RequestHandler {
  handle(request: unknown, call: OpenCall): void;
}

const unaryHandler =
  (method: RequestHandler, clock: Clock): handleUnaryCall<unknown, unknown> =>
  (call, callback) => {
    let answer: unknown;
    method.handle(call.request, {
      ...sharedBy(call, clock),
      send(message) {
        answer = message;
      },
      end: () => callback(null, answer),
      fail: (code, details) => callback({ code, details }),
    });
  };

const serverStreamHandler =
  (method: RequestHandler, clock: Clock): handleServerStreamingCall<HeldRequest, unknown> =>
  (call) => {
    const { message } = call.request;
    call.request.message = undefined;
    method.handle(message, openStream(call, clock));
  };

/** Pauses a call whose client does not read its answers. */
const bidiHandler =
  (method: { handle(call: OpenCall): Incoming<unknown> }, clock: Clock): handleBidiStreamingCall<unknown, unknown> =>
  (call) => {
    const incoming = method.handle(openStream(call, clock));
    call.on('data', (message) => {
      incoming.message(message);
      if (!call.writableNeedDrain) return;
      call.pause();
      call.once('drain', () => call.resume());
    });
    call.once('end', () => incoming.end());
  };

const openStream = (
  call: ServerWritableStream<unknown, unknown> | ServerDuplexStream<unknown, unknown>,
  clock: Clock,
): OpenCall => ({
  ...sharedBy(call, clock),
  send: (message) => void call.write(message),
  end: () => call.end(),
  fail: (code, details) => void call.emit('error', { code, details }),
});

/** A call of any kind. */
interface AnyCall {
  readonly cancelled: boolean;
  readonly metadata: Metadata;
  getDeadline(): Deadline;
  once(event: 'cancelled', listener: () => void): unknown;
}

const sharedBy = (call: AnyCall, clock: Clock): Pick<OpenCall, 'timeLeftMs' | 'header' | 'charge' | 'onGone'> => ({
  timeLeftMs: () => timeLeftMs(call.getDeadline(), clock()),
  header: (name) => readHeader(call, name),
  charge: () => {}, // the connection's memory is grpc-js's own
  onGone: (listener) => whenGone(call, listener),
});

const readHeader = ({ metadata }: Pick<AnyCall, 'metadata'>, name: string): string | undefined =>
  metadata.get(name).join(', ') || undefined;

/**
 * Calls the listener once when the caller has given up, or immediately if it already has. `cancelled` is emitted only
 * once, so a handler that starts to listen after an `await` may miss it.
 */
function whenGone(call: Pick<AnyCall, 'cancelled' | 'once'>, listener: () => void): void {
  if (call.cancelled) listener();
  else call.once('cancelled', listener);
}
