import { EventEmitter, once } from 'node:events';
import { promisify } from 'node:util';
import { type Metadata, Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import type { MessageTypeDefinition } from '@grpc/proto-loader';
import type { JsonObject } from '../../src/base/json.ts';
import {
  CONFIG_TYPE_URL,
  streamAggregatedResources,
  type WireDiscoveryRequest,
  type WireDiscoveryResponse,
} from '../../src/parts/xds/proto.ts';
import { loadProtos } from '../../src/protobuf/load.ts';
import { fromStruct, toStruct } from '../../src/protobuf/struct.ts';
import type { Authority, Certificate } from './certificates.ts';
import { freePort } from './process.ts';

/** A resource to serve: rules in protobuf's JSON form, or base64 bytes of any type. */
export type Resource =
  | { readonly name?: string; readonly domain?: string; readonly descriptors?: readonly Descriptor[] }
  | { readonly raw: string; readonly type_url?: string };

export interface Descriptor {
  readonly key?: string;
  readonly value?: string;
  /** The unit is a name or number. */
  readonly rate_limit?: Readonly<Record<string, unknown>>;
  readonly descriptors?: readonly Descriptor[];
  readonly shadow_mode?: boolean;
  readonly detailed_metric?: boolean;
  readonly quota_mode?: boolean;
  readonly metadata?: JsonObject;
}

/**
 * A client's reply to a snapshot: the version that it accepted, or why it rejected it and the version that it keeps.
 */
export type Verdict = { readonly ack: string } | { readonly nack: string; readonly version: string };

/** The contents of the first request of a stream. */
export interface FirstRequest {
  readonly node_id: string;
  readonly node_metadata: JsonObject;
  readonly type_url: string;
  readonly version: string;
  readonly nonce: string;
  readonly resource_names: readonly string[];
}

export interface ControlPlaneOptions {
  /** Absent: a free port. */
  readonly port?: number;
  /** Absent: plain text. With an authority, clients need a certificate that it issued. */
  readonly tls?: { readonly certificate: Certificate; readonly clientAuthority?: Authority };
  /** Ends every stream as soon as it is opened. */
  readonly hangsUp?: boolean;
}

/** A control plane on 127.0.0.1 for one client, controlled by a test. */
export interface ControlPlane {
  readonly port: number;
  /** Sends a snapshot once there is a stream, and waits for the client's reply. */
  serve(version: string, resources: readonly Resource[], typeUrl?: string): Promise<Verdict>;
  /** Resolves when the client has accepted this version, even if it rejected it before. */
  taken(version: string): Promise<void>;
  /** The contents of the newest stream's first request, once it has arrived. */
  first(): Promise<FirstRequest>;
  /** The metadata of the newest stream. */
  headers(): Promise<Metadata>;
  /** The number of streams opened so far. */
  streamCount(): number;
  /** Ends the stream. */
  hangUp(): Promise<void>;
  /** Ends the stream, and waits for the first request of the next one. */
  drop(): Promise<void>;
  /** Shuts down and closes all connections. */
  stop(): void;
}

interface Stream {
  readonly call: ServerDuplexStream<WireDiscoveryRequest, WireDiscoveryResponse>;
  readonly requests: WireDiscoveryRequest[];
  isOver: boolean;
}

export async function startControlPlane({
  port,
  tls,
  hangsUp = false,
}: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const streams: Stream[] = [];
  const changes = new EventEmitter();
  const server = new Server();
  const service = { StreamAggregatedResources: streamAggregatedResources };
  server.addService(service, {
    StreamAggregatedResources(call: Stream['call']) {
      const stream: Stream = { call, requests: [], isOver: hangsUp };
      streams.push(stream);
      call.on('data', (request: WireDiscoveryRequest) => {
        stream.requests.push(request);
        changes.emit('change');
      });
      call.on('error', () => {}); // the client has gone
      call.on('cancelled', () => {
        stream.isOver = true;
      });
      if (hangsUp) call.end();
      changes.emit('change');
    },
  });
  const bind = promisify(server.bindAsync.bind(server));
  const boundPort = await bind(`127.0.0.1:${port ?? (await freePort())}`, credentialsOf(tls));

  /** Calls `check` after each change until it returns a value. */
  async function find<T>(check: () => T | undefined): Promise<T> {
    for (;;) {
      const found = check();
      if (found !== undefined) return found;
      await once(changes, 'change');
    }
  }
  /** The newest open stream with a request. */
  const newest = (): Promise<Stream> =>
    find(() => streams.findLast(({ requests, isOver }) => requests.length > 0 && !isOver));
  const hangUp = async (): Promise<void> => {
    const stream = await newest();
    stream.isOver = true;
    stream.call.end();
  };
  let responses = 0;
  return {
    port: boundPort,
    async serve(version, resources, typeUrl = CONFIG_TYPE_URL) {
      const { call, requests } = await newest();
      const nonce = `n${++responses}`;
      call.write({ version_info: version, resources: resources.map(anyOf), type_url: typeUrl, nonce });
      const answer = await find(() => requests.find(({ response_nonce }) => response_nonce === nonce));
      const { version_info: inForce, error_detail: error } = answer;
      return error ? { nack: error.message, version: inForce } : { ack: inForce };
    },
    async taken(version) {
      const { requests } = await newest();
      await find(() => requests.find((one) => one.version_info === version && one.response_nonce && !one.error_detail));
    },
    async first() {
      const { requests } = await newest();
      const [{ node, type_url, version_info: version, response_nonce: nonce, resource_names }] = requests as [
        WireDiscoveryRequest, // `newest` has a request
      ];
      const node_metadata = node?.metadata ? fromStruct(node.metadata) : {};
      return { node_id: node?.id ?? '', node_metadata, type_url, version, nonce, resource_names };
    },
    headers: async () => (await newest()).call.metadata,
    streamCount: () => streams.length,
    hangUp,
    async drop() {
      await hangUp();
      await newest();
    },
    stop: () => server.forceShutdown(),
  };
}

const definitions = loadProtos(['ratelimit/config/ratelimit/v3/rls_conf.proto'], 'names');
// a message in the file
const configMessage = definitions['ratelimit.config.ratelimit.v3.RateLimitConfig'] as MessageTypeDefinition<
  object,
  object
>;

/** Encodes one domain's rules; units may be names, and fields may be absent. */
export const encodedConfig = (config: object): Buffer => configMessage.serialize(config);

function credentialsOf(tls: ControlPlaneOptions['tls']): ServerCredentials {
  if (!tls) return ServerCredentials.createInsecure();
  const { certificate, clientAuthority } = tls;
  const pair = { cert_chain: Buffer.from(certificate.cert), private_key: Buffer.from(certificate.key) };
  const authority = clientAuthority ? Buffer.from(clientAuthority.cert) : null;
  return ServerCredentials.createSsl(authority, [pair], clientAuthority !== undefined);
}

function anyOf(resource: Resource): WireDiscoveryResponse['resources'][number] {
  if ('raw' in resource)
    return { type_url: resource.type_url ?? CONFIG_TYPE_URL, value: Buffer.from(resource.raw, 'base64') };
  const config = { ...resource, descriptors: resource.descriptors?.map(withStruct) };
  return { type_url: CONFIG_TYPE_URL, value: encodedConfig(config) };
}

const withStruct = ({ metadata, descriptors, ...others }: Descriptor): object => ({
  ...others,
  ...(descriptors && { descriptors: descriptors.map(withStruct) }),
  ...(metadata && { metadata: toStruct(metadata) }),
});
