import {
  type ChannelCredentials,
  Client,
  type ClientReadableStream,
  credentials,
  type Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { WireBatchResponse } from '../../src/edge/rls/batch.ts';
import { decideBatch, shouldRateLimit } from '../../src/edge/rls/proto.ts';
import type { WireRequest, WireResponse } from '../../src/edge/wire/wire.ts';
import { serverIdentity } from '../../src/h2/identity/grpc-tls.ts';
import { healthMethods } from './health-methods.ts';

/** A client of a gRPC server, with its own connection. */
export interface GrpcClient {
  /** Requests one hit for `user=alice` in the domain `demo`; rejects with the status of a failed call. */
  ask(domain?: string, metadata?: Metadata): Promise<WireResponse>;
  send(request: WireRequest): Promise<WireResponse>;
  /** Requests decisions on several requests with one call. */
  decide(requests: readonly WireRequest[]): Promise<WireBatchResponse>;
  /** Calls a method with an empty message. @returns the bytes of the response */
  call(path: string): Promise<Buffer>;
  /** The health of `ratelimit`. */
  check(service?: string): Promise<object>;
  /** The health of all services. */
  list(): Promise<object>;
  watch(service?: string): ClientReadableStream<{ readonly status: string }>;
  close(): void;
}

const { Check: check, List: list, Watch: watch } = healthMethods;

export function createClient(target: string, channel: ChannelCredentials = credentials.createInsecure()): GrpcClient {
  const client = new Client(target, channel, {
    'grpc.use_local_subchannel_pool': 1,
    ...serverIdentity(target).channel,
  });
  const unary = <Q, R>(
    method: Pick<MethodDefinition<Q, R>, 'path' | 'requestSerialize' | 'responseDeserialize'>,
    request: Q,
    metadata?: Metadata,
  ): Promise<R> =>
    new Promise((resolve, reject) => {
      const { path, requestSerialize, responseDeserialize } = method;
      const done = (error: ServiceError | null, response?: R) =>
        response === undefined ? reject(error) : resolve(response);
      if (metadata) client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadata, done);
      else client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, done);
    });
  const descriptors = [
    { entries: [{ key: 'user', value: 'alice' }], limit: null, hits_addend: null, is_negative_hits: false },
  ];
  return {
    ask: (domain = 'demo', metadata) => unary(shouldRateLimit, { domain, descriptors, hits_addend: 1 }, metadata),
    send: (request) => unary(shouldRateLimit, request),
    decide: (requests) => unary(decideBatch, { requests }),
    call: (path) => {
      const method = { path, requestSerialize: () => Buffer.alloc(0), responseDeserialize: (reply: Buffer) => reply };
      return unary(method, {});
    },
    check: (service = 'ratelimit') => unary(check, { service }),
    list: () => unary(list, {}),
    watch: (service = 'ratelimit') =>
      client
        .makeServerStreamRequest(watch.path, watch.requestSerialize, watch.responseDeserialize, { service })
        .on('error', () => {}), // the stream fails when its connection closes
    close: () => client.close(),
  };
}
