import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type handleUnaryCall, Server, ServerCredentials } from '@grpc/grpc-js';
import { loadSync, type MethodDefinition, type ServiceDefinition } from '@grpc/proto-loader';

/** A span as it was received; ids in hexadecimal, '' for no parent. */
export interface ReceivedSpan {
  readonly name: string;
  readonly kind: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly status: string;
  readonly message: string;
  readonly resource: Readonly<Record<string, string>>;
}

/** An OpenTelemetry collector for a test. */
export interface Collector {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly endpoint: string;
  readonly spans: readonly ReceivedSpan[];
  close(): Promise<void>;
}

interface Attribute {
  readonly key: string;
  readonly value: { readonly text?: string; readonly integer?: string };
}
interface ExportRequest {
  readonly resource_spans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scope_spans: readonly { readonly spans: readonly WireSpan[] }[];
  }[];
}
interface WireSpan {
  readonly trace_id: Buffer;
  readonly span_id: Buffer;
  readonly parent_span_id: Buffer;
  readonly name: string;
  readonly kind: string;
  readonly attributes: readonly Attribute[];
  readonly status: { readonly message: string; readonly code: string } | null;
}

const definition = loadSync(fileURLToPath(new URL('otlp.proto', import.meta.url)), {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const service = definition['opentelemetry.proto.collector.trace.v1.TraceService'] as ServiceDefinition; // the file defines this service
const method = service.Export as MethodDefinition<ExportRequest, object>; // the types that the file defines

const values = (attributes: readonly Attribute[]): Readonly<Record<string, string>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.text ?? value.integer ?? '']));

const received = ({ resource_spans }: ExportRequest): readonly ReceivedSpan[] =>
  resource_spans.flatMap(({ resource, scope_spans }) =>
    scope_spans
      .flatMap(({ spans }) => spans)
      .map(({ name, kind, trace_id, span_id, parent_span_id, attributes, status }) => ({
        name,
        kind,
        traceId: trace_id.toString('hex'),
        spanId: span_id.toString('hex'),
        parentId: parent_span_id.toString('hex'),
        attributes: values(attributes),
        status: status?.code ?? 'UNSET',
        message: status?.message ?? '',
        resource: values(resource.attributes),
      })),
  );

/** Collects spans sent to `/v1/traces` over HTTP, in protobuf. */
export async function startHttpCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const isTraces = request.url === '/v1/traces' && request.headers['content-type'] === 'application/x-protobuf';
    if (isTraces) spans.push(...received(method.requestDeserialize(body)));
    response.writeHead(isTraces ? 200 : 404, { 'content-type': 'application/x-protobuf' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on a TCP port
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Collects spans sent over gRPC. */
export async function startGrpcCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const server = new Server();
  const collect: handleUnaryCall<ExportRequest, object> = ({ request }, callback) => {
    spans.push(...received(request));
    callback(null, {});
  };
  server.addService(service, { Export: collect });
  const port = await new Promise<number>((resolve, reject) => {
    const bound = (error: Error | null, found: number) => (error ? reject(error) : resolve(found));
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), bound);
  });
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans,
    async close() {
      server.forceShutdown();
    },
  };
}
