import { Client, type ClientDuplexStream, credentials, Metadata, Server, ServerCredentials } from '@grpc/grpc-js';
import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../../src/protobuf/load.ts';

/** The messages of rlqs.proto, as proto-loader decodes them. */
export interface UsageReports {
  readonly domain?: string;
  readonly bucket_quota_usages: readonly {
    readonly bucket_id: { readonly bucket: Readonly<Record<string, string>> };
    readonly time_elapsed: { readonly seconds: number; readonly nanos?: number };
    readonly num_requests_allowed: number;
    readonly num_requests_denied: number;
  }[];
}
export interface QuotaResponse {
  readonly bucket_action: readonly SentAction[];
}
export interface SentAction {
  readonly bucket_id: { readonly bucket: Readonly<Record<string, string>> };
  readonly bucket_action?: string;
  readonly quota_assignment_action?: {
    readonly assignment_time_to_live?: { readonly seconds: number } | null;
    readonly rate_limit_strategy?: {
      readonly blanket_rule?: string;
      readonly token_bucket?: {
        readonly max_tokens: number;
        readonly tokens_per_fill: { readonly value: number } | null;
        readonly fill_interval: { readonly seconds: number; readonly nanos?: number };
      };
      readonly requests_per_time_unit?: { readonly requests_per_time_unit: number; readonly time_unit: string };
    } | null;
  };
  readonly abandon_action?: object;
}

const definition = loadProtos(['envoy/service/rate_limit_quota/v3/rlqs.proto'], 'names');
const service = definition['envoy.service.rate_limit_quota.v3.RateLimitQuotaService'] as ServiceDefinition; // the file defines it
export const streamQuotas = service.StreamRateLimitQuotas as MethodDefinition<UsageReports, QuotaResponse>; // the file defines it

/** One proxy's stream. */
export interface QuotaStreamClient {
  /** Reports one bucket. */
  report(bucket: Readonly<Record<string, string>>, requests: number, elapsedSeconds?: number): void;
  send(reports: UsageReports): void;
  /** Resolves with the next actions that the service sends. */
  next(): Promise<readonly SentAction[]>;
  /** The number of received messages that `next` has not returned yet. */
  readonly waiting: number;
  /** The status that the stream ends with. */
  readonly ended: Promise<{ readonly code: number; readonly details: string }>;
  close(): void;
}

/** Opens a stream on a new connection. */
export function openQuotaStream(target: string, domain = 'edge', proxy?: string): QuotaStreamClient {
  const client = new Client(target, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  const metadata = new Metadata();
  if (proxy !== undefined) metadata.set('x-weir-proxy', proxy);
  const stream: ClientDuplexStream<UsageReports, QuotaResponse> = client.makeBidiStreamRequest(
    streamQuotas.path,
    streamQuotas.requestSerialize,
    streamQuotas.responseDeserialize,
    metadata,
  );
  const arrived: (readonly SentAction[])[] = [];
  let wake = (): void => {};
  stream.on('data', ({ bucket_action }: QuotaResponse) => {
    arrived.push(bucket_action);
    wake();
  });
  const ended = new Promise<{ readonly code: number; readonly details: string }>((resolve) => {
    stream.on('status', resolve);
  });
  stream.on('error', () => {}); // reported by `ended`
  return {
    report: (bucket, requests, elapsedSeconds = 0) =>
      stream.write({
        domain,
        bucket_quota_usages: [
          {
            bucket_id: { bucket },
            time_elapsed: { seconds: elapsedSeconds },
            num_requests_allowed: requests,
            num_requests_denied: 0,
          },
        ],
      }),
    send: (reports) => void stream.write(reports),
    async next() {
      while (arrived.length === 0)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      return arrived.shift() ?? [];
    },
    get waiting() {
      return arrived.length;
    },
    ended,
    close: () => {
      stream.cancel();
      client.close();
    },
  };
}

/** A quota service controlled by a test, which reads the reports and writes the responses. */
export interface FakeQuotaService {
  readonly port: number;
  /** The reports of all streams, with their times of arrival. */
  readonly reports: (UsageReports & { readonly atMs: number; readonly stream: number })[];
  /** The x-weir-proxy of each stream. */
  readonly names: string[];
  /** The number of streams opened so far. */
  readonly streams: () => number;
  /** Sends an action for the bucket of the newest stream. */
  send(action: Omit<SentAction, 'bucket_id'>): void;
  /** Ends the newest stream with OK. */
  end(): void;
  close(): void;
}

export async function startFakeQuotaService(bucket: Readonly<Record<string, string>>): Promise<FakeQuotaService> {
  const server = new Server();
  const reports: FakeQuotaService['reports'] = [];
  const names: string[] = [];
  let streams = 0;
  let newest: { write(message: QuotaResponse): void; end(): void } | undefined;
  server.addService(service, {
    StreamRateLimitQuotas(call: {
      readonly metadata: Metadata;
      on(event: string, listener: (message: UsageReports) => void): void;
      write(message: QuotaResponse): void;
      end(): void;
    }) {
      const stream = ++streams;
      newest = call;
      names.push(call.metadata.get('x-weir-proxy').join());
      call.on('data', (message) => reports.push({ ...message, atMs: Date.now(), stream }));
      call.on('error', () => {});
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    port,
    reports,
    names,
    streams: () => streams,
    send: (action) => newest?.write({ bucket_action: [{ bucket_id: { bucket }, ...action }] }),
    end: () => newest?.end(),
    close: () => server.forceShutdown(),
  };
}

/** The strategy of the first of these assignments, which a proxy follows. */
export const strategyOf = ([action]: readonly SentAction[]) => action?.quota_assignment_action?.rate_limit_strategy;
