import { createRequire } from 'node:module';
import type { ClientOptions as ChannelOptions, Client, Metadata, ServiceError } from '@grpc/grpc-js';
import { serverIdentity } from '../../../src/h2/identity/grpc-tls.ts';
import { BoundedMap } from '../bounded-map.ts';
import { toDecision } from '../decision.ts';
import { toFailure, WeirUnavailable } from '../errors.ts';
import type { TlsOptions } from '../options.ts';
import { type BatchItem, decodeBatch, decodeReply, decodeServing } from '../wire/decode.ts';
import { decodeHold } from '../wire/decode-holds.ts';
import { encodeBatch, encodeHealthCheck, encodeHold, encodeRequest } from '../wire/encode.ts';
import { type Cancel, type Outcome, promiseCall, type SendOptions, type Transport } from './transport.ts';

type GrpcJs = typeof import('@grpc/grpc-js');

const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
const BATCH = '/weir.v1.Batch/Decide';
const HOLDS = '/weir.v1.Holds';
const HEALTH = '/grpc.health.v1.Health/Check';

/** Requests the detail for which answers have no fields. Other servers ignore it. */
const DETAIL_HEADER = 'x-weir-detail';

/**
 * How long the client waits. grpc-js's own deadline is not used: its timer fires before answers that have already
 * arrived are read.
 */
const TIMEOUT_HEADER = 'grpc-timeout';
/** Maximum value of the header. */
const MAX_TIMEOUT = 99_999_999;
/** Maximum timeouts for which metadata is cached. */
const MAX_KEPT = 256;

const channelOptions: ChannelOptions = {
  'grpc.primary_user_agent': 'weir-client',
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.service_config_disable_resolution': 1,
  'grpc.service_config': '{"loadBalancingConfig":[{"round_robin":{}}]}', // over all addresses of a name
};

/**
 * Returns the module that was passed, or loads `@grpc/grpc-js`, which is installed beside this package, or beside the
 * bundle that contains it.
 *
 * @throws Error  it is not installed
 */
export function loadGrpc(passed: object | undefined): GrpcJs {
  if (passed) return passed as GrpcJs; // its type would require the package of those who use no gRPC
  try {
    return createRequire(typeof __filename === 'string' ? __filename : import.meta.url)('@grpc/grpc-js');
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split('\n')[0] : String(cause);
    const advice = 'install @grpc/grpc-js, pass it as the option grpc, or name the HTTP port: http://localhost:8080';
    throw new Error(`gRPC needs a package that cannot be loaded: ${advice} (${reason})`, { cause });
  }
}

/** Opens a channel. @param address  in grpc-js's format: `host:port`, `dns:///host:port`, `unix:/path` */
export function createGrpcTransport(grpc: GrpcJs, address: string, tls: TlsOptions | undefined): Transport {
  const { verify, channel } = serverIdentity(address, tls?.serverName);
  const credentials = tls
    ? grpc.credentials.createSsl(octets(tls.ca), octets(tls.key), octets(tls.cert), verify)
    : grpc.credentials.createInsecure();
  const client = new grpc.Client(address, credentials, {
    ...channelOptions,
    ...channel,
  });
  const call = createUnaryCall(client, createMetadataCache(grpc));
  client.getChannel().getConnectivityState(true); // connects now, not with the first call
  return {
    send: (request, options, done) =>
      call(SHOULD_RATE_LIMIT, encodeRequest(request), options, (bytes) =>
        done(decoded(bytes, (message) => toDecision(decodeReply(message)))),
      ),
    sendAll: (requests, options, done) =>
      call(BATCH, encodeBatch(requests), options, (bytes) =>
        done(decoded(bytes, (message) => toOutcomes(decodeBatch(message), requests.length))),
      ),
    callHolds: (method, message, { timeoutMs, signal }) =>
      promiseCall(
        (done) =>
          call(`${HOLDS}/${method}`, encodeHold(message), { timeoutMs, isBounded: true }, (bytes) =>
            done(decoded(bytes, decodeHold[method])),
          ),
        signal,
      ),
    isReady: (timeoutMs) =>
      new Promise((resolve) => {
        call(HEALTH, encodeHealthCheck(''), { timeoutMs, isBounded: true }, (outcome) => {
          if (outcome instanceof WeirUnavailable) resolve(outcome.kind === 'unimplemented');
          else resolve(decodeServing(outcome));
        });
      }),
    close: () => client.close(),
  };
}

/** @param isBounded  the call has its own deadline; else its caller cancels it */
type UnaryCall = (
  path: string,
  message: Buffer,
  options: SendOptions & { readonly isBounded?: boolean },
  done: (outcome: Buffer | WeirUnavailable) => void,
) => Cancel;

type CreateMetadata = (options: SendOptions) => Metadata;

/** Creates the function that makes the metadata of a call. Calls with the same timeout share it. */
function createMetadataCache(grpc: GrpcJs): CreateMetadata {
  const kept = new BoundedMap<number, Metadata>(MAX_KEPT);
  const create = (timeoutMs: number): Metadata => {
    const metadata = new grpc.Metadata();
    metadata.set(DETAIL_HEADER, '1');
    metadata.set(TIMEOUT_HEADER, `${Math.min(Math.ceil(timeoutMs), MAX_TIMEOUT)}m`);
    return metadata;
  };
  return ({ timeoutMs, headers }) => {
    if (headers) {
      const metadata = create(timeoutMs);
      for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
      return metadata;
    }
    const found = kept.get(timeoutMs);
    if (found) return found;
    const metadata = create(timeoutMs);
    kept.set(timeoutMs, metadata);
    return metadata;
  };
}

function createUnaryCall(client: Client, metadata: CreateMetadata): UnaryCall {
  return (path, message, options, done) => {
    let isCancelled = false;
    // biome-ignore lint/style/noRestrictedGlobals: grpc-js compares deadlines with the system's clock, which may change
    const callOptions = options.isBounded ? { deadline: Date.now() + options.timeoutMs } : {};
    const onAnswer = (error: ServiceError | null, answer?: Buffer) => {
      if (isCancelled) return;
      if (answer) done(answer);
      else done(toFailure(error?.code ?? 2, error?.details ?? 'no answer', error ?? undefined));
    };
    try {
      const stream = client.makeUnaryRequest(path, same, same, message, metadata(options), callOptions, onAnswer);
      return () => {
        isCancelled = true;
        stream.cancel();
      };
    } catch (cause) {
      queueMicrotask(() => done(new WeirUnavailable('closed', 'the channel is closed', { cause })));
      return () => {};
    }
  };
}

const same = (message: Buffer): Buffer => message;

function decoded<T>(bytes: Buffer | WeirUnavailable, decode: (bytes: Buffer) => T): T | WeirUnavailable {
  if (bytes instanceof WeirUnavailable) return bytes;
  try {
    return decode(bytes);
  } catch (cause) {
    return new WeirUnavailable('unavailable', 'the answer is malformed', { cause });
  }
}

/** Throws if their number differs from that of the requests. */
function toOutcomes(items: readonly BatchItem[], count: number): readonly Outcome[] {
  if (items.length !== count) throw new RangeError(`expected ${count} answers, got ${items.length}`);
  return items.map((item) => ('reply' in item ? toDecision(item.reply) : toFailure(item.status, item.message)));
}

const octets = (pem: string | Buffer | undefined): Buffer | undefined =>
  typeof pem === 'string' ? Buffer.from(pem) : pem;
