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
import { type GrpcServerIdentity, serverIdentity } from '../../h2/identity/grpc-tls.ts';
import { systemCas } from '../../h2/identity/system-cas.ts';
import { toStruct, type WireStruct } from '../../protobuf/struct.ts';
import {
  CONFIG_TYPE_URL,
  streamAggregatedResources,
  type WireDiscoveryRequest,
  type WireDiscoveryResponse,
} from './proto.ts';

/** A control plane, and how to connect to it. */
export interface ControlPlane {
  /** `host:port` */
  readonly serverUrl: string;
  readonly nodeId: string;
  readonly nodeMetadata: ReadonlyMap<string, string>;
  /** Headers sent as gRPC metadata with each stream. */
  readonly additionalHeaders: ReadonlyMap<string, string>;
  /** TLS options. Default: plain text. */
  readonly tls: ControlPlaneTls | undefined;
  readonly backOff: BackOff;
  /** Maximum message size; larger messages end the stream. */
  readonly maxMessageBytes: number;
}

/** PEM files, reread for each connection. */
interface ControlPlaneTls {
  /** CA certificates. Default: the system's CAs. */
  readonly caFile: string | undefined;
  /** Client certificate and key, both or neither. */
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
  /** Name required in the control plane's certificate. Default: its host. */
  readonly serverName: string | undefined;
}

interface Subscriber {
  /** Accepts an answer, or returns the reason for a refusal. */
  onResponse(response: WireDiscoveryResponse): { readonly refusal: string } | undefined;
  /** Called when the stream was established. */
  onUp(): void;
  /** Called once per reason when the stream was lost, until it is established again. */
  onDown(reason: string): void;
}

/**
 * Idle time before a keepalive ping, since Go's gRPC servers by default end connections that ping more often than every
 * 5 minutes.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/keepalive.md
 */
const KEEPALIVE_TIME_MS = 330_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;

/** Time after which a stream without messages counts as established: a control plane without updates is silent. */
const ESTABLISHED_AFTER_MS = 1_000;

/**
 * Delay of a repeated refusal of the same version. Some control planes, such as go-control-plane, answer a refusal
 * immediately with the same resources, and send nothing newer before they receive it.
 */
const REPEATED_REFUSAL: BackOff = { initialMs: 1_000, maxMs: 10_000, jitter: false };

/**
 * Subscribes to all RateLimitConfig resources of a control plane (aggregated discovery, state of the world), and
 * acknowledges or refuses each answer. When the stream ends, opens another one on a new connection with exponential
 * back-off.
 *
 * @throws Error if a header is not valid for gRPC, or a certificate file cannot be used
 * @see https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 */
export class DiscoveryClient {
  private readonly controlPlane: ControlPlane;
  private readonly subscriber: Subscriber;
  private readonly headers = new Metadata();
  private readonly identity: GrpcServerIdentity;
  private readonly node: { readonly id: string; readonly metadata: WireStruct };
  private stream: DiscoveryStream | undefined;
  private client: Client | undefined;
  private retry: NodeJS.Timeout | undefined;
  private establishing: NodeJS.Timeout | undefined;
  private delayedRefusal: NodeJS.Timeout | undefined;
  private ackedVersion = '';
  private refused: { readonly version: string; readonly times: number } | undefined;
  private failures = 0;
  private newest: { readonly stream: DiscoveryStream; readonly nonce: string } | undefined;
  private state: 'new' | 'up' | 'down' = 'new';
  /** Last reason passed to `onDown`. */
  private downReason = '';

  constructor(controlPlane: ControlPlane, subscriber: Subscriber) {
    this.controlPlane = controlPlane;
    this.subscriber = subscriber;
    for (const [name, value] of controlPlane.additionalHeaders) this.headers.set(name, value);
    this.node = { id: controlPlane.nodeId, metadata: toStruct(Object.fromEntries(controlPlane.nodeMetadata)) };
    this.identity = serverIdentity(controlPlane.serverUrl, controlPlane.tls?.serverName);
    this.open();
  }

  /** Ends the stream without notifying the subscriber. */
  close(): void {
    clearTimeout(this.retry);
    this.disconnect();
  }

  /** Acknowledges an answer that was refused before and has now been applied. */
  acknowledge({ version_info: version, nonce }: WireDiscoveryResponse): void {
    this.ackedVersion = version;
    this.refused = undefined;
    clearTimeout(this.delayedRefusal);
    const { stream } = this;
    if (stream && this.newest?.stream === stream && this.newest.nonce === nonce) stream.write(this.request(nonce));
  }

  /** @throws Error  a file of TLS cannot be read or used */
  private open(): void {
    const { serverUrl, maxMessageBytes, tls } = this.controlPlane;
    const client = new Client(serverUrl, createCredentials(tls, this.identity), {
      'grpc.max_receive_message_length': maxMessageBytes,
      'grpc.keepalive_time_ms': KEEPALIVE_TIME_MS,
      'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
      'grpc.use_local_subchannel_pool': 1, // a new connection, without grpc-js's own back-off
      ...this.identity.channel,
    });
    const { path, requestSerialize, responseDeserialize } = streamAggregatedResources;
    const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, this.headers);
    this.client = client;
    this.stream = stream;
    stream.on('data', (response: WireDiscoveryResponse) => {
      if (stream !== this.stream) return;
      this.markUp();
      this.receive(stream, response);
    });
    stream.on('error', () => {}); // 'status' follows
    stream.on('status', (ended: StatusObject) => {
      if (stream === this.stream) this.onLost(describeEnd(ended));
    });
    stream.write(this.request(''));
    client.waitForReady(Number.POSITIVE_INFINITY, (error) => {
      if (error || stream !== this.stream) return;
      this.establishing = setTimeout(() => this.markUp(), ESTABLISHED_AFTER_MS).unref();
    });
  }

  private receive(stream: DiscoveryStream, response: WireDiscoveryResponse): void {
    clearTimeout(this.delayedRefusal); // outdated by this answer
    const { version_info: version, nonce } = response;
    this.newest = { stream, nonce };
    const refused = this.subscriber.onResponse(response);
    if (!refused) {
      this.ackedVersion = version;
      this.refused = undefined;
      stream.write(this.request(nonce));
      return;
    }
    const refuse = (): void => void stream.write(this.request(nonce, refused.refusal));
    const times = this.refused?.version === version ? this.refused.times : 0;
    this.refused = { version, times: times + 1 };
    if (times === 0) refuse();
    else this.delayedRefusal = setTimeout(refuse, retryDelayMs(REPEATED_REFUSAL, times)).unref();
  }

  /** @param nonce  nonce of the answer to acknowledge or refuse; empty in a stream's first request */
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

  private markUp(): void {
    clearTimeout(this.establishing);
    this.failures = 0;
    if (this.state === 'up') return;
    this.state = 'up';
    this.subscriber.onUp();
  }

  private onLost(reason: string): void {
    this.disconnect();
    this.failures++;
    this.retry = setTimeout(() => this.reopen(), retryDelayMs(this.controlPlane.backOff, this.failures)).unref();
    if (this.state === 'down' && this.downReason === reason) return;
    this.state = 'down';
    this.downReason = reason;
    this.subscriber.onDown(reason);
  }

  private reopen(): void {
    try {
      this.open();
    } catch (error) {
      this.onLost(error instanceof Error ? error.message : String(error));
    }
  }

  private disconnect(): void {
    const { stream, client } = this;
    this.stream = undefined; // its later events are ignored
    this.client = undefined;
    clearTimeout(this.establishing);
    clearTimeout(this.delayedRefusal);
    stream?.cancel();
    client?.close();
  }
}

type DiscoveryStream = ClientDuplexStream<WireDiscoveryRequest, WireDiscoveryResponse>;

/** @throws Error if a file cannot be read or used */
function createCredentials(tls: ControlPlaneTls | undefined, { verify }: GrpcServerIdentity): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  const read = (file: string | undefined) => (file === undefined ? null : readFileSync(file));
  const roots = read(tls.caFile) ?? systemCas() ?? null;
  return credentials.createSsl(roots, read(tls.keyFile), read(tls.certFile), verify);
}

function describeEnd({ code, details }: StatusObject): string {
  if (code === status.OK) return 'it ended the stream';
  return `${status[code]}${details === '' ? '' : `: ${details}`}`;
}

/** Exponential back-off between retries. */
interface BackOff {
  readonly initialMs: number;
  /** Maximum delay. */
  readonly maxMs: number;
  /** Whether to shorten each delay at random by up to half, so that a fleet does not reconnect simultaneously. */
  readonly jitter: boolean;
}

/** Minimum delay for all settings, so that a control plane that ends every stream does not keep a core busy. */
const MIN_INTERVAL_MS = 100;

/**
 * The delay before the next attempt in whole milliseconds, which is `initialMs` after the first failure and doubles
 * with each further one, up to `maxMs`.
 *
 * @example 10 s and 60 s without jitter: 10, 20, 40, 60, 60 …
 *
 * @param failures  consecutive failures, at least 1
 * @param random    0 to below 1
 */
export function retryDelayMs({ initialMs, maxMs, jitter }: BackOff, failures: number, random = Math.random): number {
  const maxDelayMs = Math.max(maxMs, MIN_INTERVAL_MS);
  const intervalMs = Math.min(Math.max(initialMs, MIN_INTERVAL_MS) * 2 ** (failures - 1), maxDelayMs);
  return Math.ceil(jitter ? intervalMs * (1 - random() / 2) : intervalMs);
}
