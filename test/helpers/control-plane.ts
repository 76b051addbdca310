import { EventEmitter, once } from 'node:events';
import { promisify } from 'node:util';
import { type Metadata, Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import type { JsonObject } from '../../src/json.ts';
import { fromStruct, toStruct } from '../../src/protobuf/struct.ts';
import {
  CONFIG_TYPE_URL,
  configMessage,
  discoveryService,
  type WireAny,
  type WireConfig,
  type WireDiscoveryRequest,
  type WireDiscoveryResponse,
} from '../../src/xds/proto.ts';
import type { Authority, Certificate } from './certificates.ts';
import { freePort } from './process.ts';

/** A resource to hand out: rules, as the JSON of protobuf has them; or bytes in base64, of any type. */
export type Resource =
  | { readonly name?: string; readonly domain?: string; readonly descriptors?: readonly Descriptor[] }
  | { readonly raw: string; readonly type_url?: string };

export interface Descriptor {
  readonly key?: string;
  readonly value?: string;
  /** Its unit by name or number. */
  readonly rate_limit?: Readonly<Record<string, unknown>>;
  readonly descriptors?: readonly Descriptor[];
  readonly shadow_mode?: boolean;
  readonly detailed_metric?: boolean;
  readonly quota_mode?: boolean;
  readonly metadata?: JsonObject;
}

/** What a client made of a snapshot: the version that it took, or why it refused and the version that it has instead. */
export type Verdict = { readonly ack: string } | { readonly nack: string; readonly version: string };

/** What the first request of a stream said. */
export interface FirstRequest {
  readonly node_id: string;
  readonly node_metadata: JsonObject;
  readonly type_url: string;
  readonly version: string;
  readonly nonce: string;
  readonly resource_names: readonly string[];
}

export interface ControlPlaneOptions {
  /** A free one where absent. */
  readonly port?: number;
  /** Plain text where absent; with an authority, clients must have a certificate of it. */
  readonly tls?: { readonly certificate: Certificate; readonly clientAuthority?: Authority };
  /** Ends every stream as soon as it is opened. */
  readonly hangsUp?: boolean;
}

/** A control plane on 127.0.0.1 controlled by a test, for one client. */
export interface ControlPlane {
  readonly port: number;
  /** Hands out a snapshot, once there is a stream, and waits for the verdict on it. */
  serve(version: string, resources: readonly Resource[], typeUrl?: string): Promise<Verdict>;
  /** What the first request of the newest stream said, once it has come. */
  first(): Promise<FirstRequest>;
  /** What came with the newest stream. */
  headers(): Promise<Metadata>;
  /** How many streams there have been. */
  streamCount(): number;
  /** Ends the stream. */
  hangUp(): Promise<void>;
  /** Ends the stream, and waits until another one has asked. */
  drop(): Promise<void>;
  /** Is gone, with all its connections. */
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
  server.addService(discoveryService, {
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

  /** Checks after each change until `check` returns a value. */
  async function find<T>(check: () => T | undefined): Promise<T> {
    for (;;) {
      const found = check();
      if (found !== undefined) return found;
      await once(changes, 'change');
    }
  }
  /** The newest stream that has asked and stands. */
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
    async first() {
      const { requests } = await newest();
      const [{ node, type_url, version_info: version, response_nonce: nonce, resource_names }] = requests as [
        WireDiscoveryRequest, // there is one in the newest that has asked
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

function credentialsOf(tls: ControlPlaneOptions['tls']): ServerCredentials {
  if (!tls) return ServerCredentials.createInsecure();
  const { certificate, clientAuthority } = tls;
  const pair = { cert_chain: Buffer.from(certificate.cert), private_key: Buffer.from(certificate.key) };
  const authority = clientAuthority ? Buffer.from(clientAuthority.cert) : null;
  return ServerCredentials.createSsl(authority, [pair], clientAuthority !== undefined);
}

function anyOf(resource: Resource): WireAny {
  if ('raw' in resource)
    return { type_url: resource.type_url ?? CONFIG_TYPE_URL, value: Buffer.from(resource.raw, 'base64') };
  const config = { ...resource, descriptors: resource.descriptors?.map(withStruct) };
  return { type_url: CONFIG_TYPE_URL, value: configMessage.serialize(config as WireConfig) }; // the encoder takes names of enums, and does without what is absent
}

const withStruct = ({ metadata, descriptors, ...others }: Descriptor): object => ({
  ...others,
  ...(descriptors && { descriptors: descriptors.map(withStruct) }),
  ...(metadata && { metadata: toStruct(metadata) }),
});
