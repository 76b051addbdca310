import { readFileSync } from 'node:fs';
import {
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { toStruct, type WireStruct } from '../protobuf/struct.ts';
import { type BackOff, waitMs } from './back-off.ts';
import {
  CONFIG_TYPE_URL,
  streamAggregatedResources,
  type WireDiscoveryRequest,
  type WireDiscoveryResponse,
} from './proto.ts';

/** Which control plane, who asks it, and how. */
export interface ControlPlane {
  /** `host:port` */
  readonly serverUrl: string;
  readonly nodeId: string;
  readonly nodeMetadata: ReadonlyMap<string, string>;
  /** Sent with each stream as metadata of gRPC, under these names. */
  readonly additionalHeaders: ReadonlyMap<string, string>;
  /** Undefined: plain text. */
  readonly tls: ControlPlaneTls | undefined;
  readonly backOff: BackOff;
  /** A larger message ends the stream. */
  readonly maxMessageBytes: number;
}

/** Files in PEM, read anew for each connection. */
export interface ControlPlaneTls {
  /** Undefined: the authorities that Node knows. */
  readonly caFile: string | undefined;
  /** Both or neither. */
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
  /** The name that the control plane's certificate must have; undefined: its host. */
  readonly serverName: string | undefined;
}

export interface Subscriber {
  /** Takes an answer, or says why not. The next one is given when this one has been dealt with. */
  onResponse(response: WireDiscoveryResponse): Promise<{ readonly refusal: string } | undefined>;
  /** The stream stands: for the first time, or again. */
  onUp(): void;
  /** There is no stream, and why: once for each reason, until it stands again. */
  onDown(reason: string): void;
}

/**
 * After how much silence a connection is asked whether it still is one. Go's gRPC servers end connections that ask more often than
 * every 5 minutes, unless told otherwise.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/keepalive.md
 */
const KEEPALIVE_TIME_MS = 330_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;

/** How long a connected stream must last to count as standing before its first message: a control plane with no news is silent. */
const SETTLED_AFTER_MS = 1_000;

/**
 * How long to hold a refusal back that is not the first of its version. Some control planes, go-control-plane among them, answer
 * a refusal with what was refused, at once; and have nothing newer to say before they hear of it.
 */
const REPEATED_REFUSAL: BackOff = { initialMs: 1_000, maxMs: 10_000, jitter: false };

/**
 * Subscribes to all RateLimitConfig resources of a control plane: aggregated discovery, state of the world. Each answer is
 * acknowledged or refused; a stream that ends is opened anew, on a new connection, after a wait that grows.
 *
 * @throws Error  a header that gRPC does not take; a certificate file that cannot be read or used
 * @see https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 */
export class DiscoveryClient {
  private readonly controlPlane: ControlPlane;
  private readonly subscriber: Subscriber;
  private readonly headers = new Metadata();
  private readonly node: { readonly id: string; readonly metadata: WireStruct };
  private stream: DiscoveryStream | undefined;
  private client: Client | undefined;
  private retry: NodeJS.Timeout | undefined;
  private settling: NodeJS.Timeout | undefined;
  private heldBack: NodeJS.Timeout | undefined;
  private ackedVersion = '';
  private refused: { readonly version: string; readonly times: number } | undefined;
  private failures = 0;
  private received: Promise<void> = Promise.resolve();
  private state: 'new' | 'up' | 'down' = 'new';
  /** The newest reason that was told. */
  private lostFor = '';

  constructor(controlPlane: ControlPlane, subscriber: Subscriber) {
    this.controlPlane = controlPlane;
    this.subscriber = subscriber;
    for (const [name, value] of controlPlane.additionalHeaders) this.headers.set(name, value);
    this.node = { id: controlPlane.nodeId, metadata: toStruct(Object.fromEntries(controlPlane.nodeMetadata)) };
    this.open(credentialsOf(controlPlane.tls));
  }

  /** Ends the stream; nobody is told. */
  close(): void {
    clearTimeout(this.retry);
    this.hangUp();
  }

  private open(channelCredentials: ChannelCredentials): void {
    const { serverUrl, tls, maxMessageBytes } = this.controlPlane;
    const client = new Client(serverUrl, channelCredentials, {
      'grpc.max_receive_message_length': maxMessageBytes,
      'grpc.keepalive_time_ms': KEEPALIVE_TIME_MS,
      'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
      'grpc.use_local_subchannel_pool': 1, // a new connection, not one that waits out a back-off of its own
      ...(tls?.serverName !== undefined && { 'grpc.ssl_target_name_override': tls.serverName }),
    });
    const { path, requestSerialize, responseDeserialize } = streamAggregatedResources;
    const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, this.headers);
    this.client = client;
    this.stream = stream;
    stream.on('data', (response: WireDiscoveryResponse) => {
      if (stream !== this.stream) return;
      this.settle();
      this.received = this.received.then(() => this.receive(stream, response));
    });
    stream.on('error', () => {}); // its status says the same
    stream.on('status', (ended: StatusObject) => {
      if (stream === this.stream) this.lost(reasonOf(ended));
    });
    stream.write(this.request(''));
    client.waitForReady(Number.POSITIVE_INFINITY, (error) => {
      if (error || stream !== this.stream) return;
      this.settling = setTimeout(() => this.settle(), SETTLED_AFTER_MS).unref();
    });
  }

  private async receive(stream: DiscoveryStream, response: WireDiscoveryResponse): Promise<void> {
    if (stream !== this.stream) return;
    clearTimeout(this.heldBack); // what it was about is past
    const { version_info: version, nonce } = response;
    const refused = await this.subscriber.onResponse(response);
    if (!refused) {
      this.ackedVersion = version;
      this.refused = undefined;
    }
    if (stream !== this.stream) return;
    if (!refused) {
      stream.write(this.request(nonce));
      return;
    }
    const refuse = (): void => void stream.write(this.request(nonce, refused.refusal));
    const times = this.refused?.version === version ? this.refused.times : 0;
    this.refused = { version, times: times + 1 };
    if (times === 0) refuse();
    else this.heldBack = setTimeout(refuse, waitMs(REPEATED_REFUSAL, times, Math.random)).unref();
  }

  /** @param nonce  of the answer that the request is about; empty in the first of a stream, which is about none */
  private request(nonce: string, refusal?: string): WireDiscoveryRequest {
    return {
      version_info: this.ackedVersion,
      node: this.node,
      resource_names: [],
      type_url: CONFIG_TYPE_URL,
      response_nonce: nonce,
      error_detail: refusal === undefined ? null : { code: status.INVALID_ARGUMENT, message: refusal },
    };
  }

  private settle(): void {
    clearTimeout(this.settling);
    this.failures = 0;
    if (this.state === 'up') return;
    this.state = 'up';
    this.subscriber.onUp();
  }

  private lost(reason: string): void {
    this.hangUp();
    this.failures++;
    this.retry = setTimeout(() => this.reopen(), waitMs(this.controlPlane.backOff, this.failures, Math.random)).unref();
    if (this.state === 'down' && this.lostFor === reason) return;
    this.state = 'down';
    this.lostFor = reason;
    this.subscriber.onDown(reason);
  }

  private reopen(): void {
    let channelCredentials: ChannelCredentials;
    try {
      channelCredentials = credentialsOf(this.controlPlane.tls);
    } catch (error) {
      this.lost(error instanceof Error ? error.message : String(error));
      return;
    }
    this.open(channelCredentials);
  }

  private hangUp(): void {
    const { stream, client } = this;
    this.stream = undefined; // what it still says is not heard
    this.client = undefined;
    clearTimeout(this.settling);
    clearTimeout(this.heldBack);
    stream?.cancel();
    client?.close();
  }
}

type DiscoveryStream = ClientDuplexStream<WireDiscoveryRequest, WireDiscoveryResponse>;

/** @throws Error  of the file system, or of OpenSSL */
function credentialsOf(tls: ControlPlaneTls | undefined): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  const read = (file: string | undefined) => (file === undefined ? null : readFileSync(file));
  return credentials.createSsl(read(tls.caFile), read(tls.keyFile), read(tls.certFile));
}

function reasonOf({ code, details }: StatusObject): string {
  if (code === status.OK) return 'it ended the stream';
  return `${status[code]}${details === '' ? '' : `: ${details}`}`;
}
