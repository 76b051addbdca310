import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { createRequire } from 'node:module';
import { env } from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { CompositePropagator, ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as HttpExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { B3Propagator } from '@opentelemetry/propagator-b3';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-node';
import { after } from '../../base/later.ts';
import { identifyCaller } from '../../edge/http/api.ts';
import type { Route } from '../../edge/http/server.ts';
import type { Caller, CallOutcome, RlsService } from '../../edge/rls/service.ts';
import { codeNumbers, findName } from '../../edge/wire/wire.ts';
import type { Replies } from '../../engine/backends/backend.ts';
import type { Trace } from '../../engine/ledger/ledger.ts';
import { systemCas } from '../../h2/identity/system-cas.ts';
import type { WorkState } from '../../operate/observe/work-state.ts';

export interface TracingOptions {
  /** OTLP over HTTP (protobuf) or over gRPC. */
  readonly protocol: 'http' | 'grpc';
  /** Fraction of the traces started here that are sent, 0 to 1. A caller's trace follows the caller's decision. */
  readonly samplingRate: number;
  readonly serviceName: string;
  /** Empty: none. */
  readonly serviceNamespace: string;
  /** Empty: a random UUID. */
  readonly serviceInstanceId: string;
}

const MAX_FLUSH_MS = 5_000;

/**
 * Starts tracing. The exporters read their configuration from `OTEL_EXPORTER_OTLP_*`. Registers nothing globally.
 *
 * Importing this module loads OpenTelemetry: do so only if tracing is enabled.
 *
 * @param state  of sending spans: those that cannot be sent are lost
 * @throws Error if the system's CAs are needed and cannot be read
 * @see https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
export function startTracing(options: TracingOptions, state: Pick<WorkState, 'works' | 'failed'>) {
  const exporter = createExporter(options.protocol);
  const provider = new BasicTracerProvider({
    resource: createResource(options),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.samplingRate) }),
    spanProcessors: [new BatchSpanProcessor(reportFailures(exporter, state))],
  });
  return {
    ...createTraced(provider.getTracer('weir')),
    /** Sends remaining spans; waits up to five seconds. */
    async close(): Promise<void> {
      const flushed = provider.shutdown().catch(() => {}); // already reported
      await Promise.race([flushed, sleep(MAX_FLUSH_MS, undefined, { ref: false })]);
    },
  };
}

/** An exporter that trusts the system's CAs, unless `OTEL_EXPORTER_OTLP_CERTIFICATE` names others. */
function createExporter(protocol: TracingOptions['protocol']): SpanExporter {
  if (otlp('CERTIFICATE') !== undefined) return protocol === 'grpc' ? new GrpcExporter() : new HttpExporter();
  const cert = readOptionalFile(otlp('CLIENT_CERTIFICATE'));
  const key = readOptionalFile(otlp('CLIENT_KEY'));
  if (protocol === 'grpc') {
    const isChain = cert !== undefined && key !== undefined;
    const roots = (): Buffer | null => systemCas() ?? null;
    return new GrpcExporter(
      isGrpcOverTls()
        ? { credentials: exporterGrpc().credentials.createSsl(roots(), isChain ? key : null, isChain ? cert : null) }
        : {},
    );
  }
  const httpAgentOptions = (scheme: string): HttpAgent | HttpsAgent =>
    scheme === 'https:'
      ? new HttpsAgent({ keepAlive: true, ca: systemCas(), cert, key })
      : new HttpAgent({ keepAlive: true });
  return new HttpExporter({ httpAgentOptions });
}

/** A variable of the exporters, which may be for traces only. */
const otlp = (name: string): string | undefined =>
  env[`OTEL_EXPORTER_OTLP_TRACES_${name}`]?.trim() || env[`OTEL_EXPORTER_OTLP_${name}`]?.trim() || undefined;

/** Whether the gRPC exporter uses TLS, by its own rule. */
function isGrpcOverTls(): boolean {
  const endpoint = otlp('ENDPOINT') ?? 'http://localhost:4317';
  if (/^https?:/.test(endpoint)) return endpoint.startsWith('https:');
  return otlp('INSECURE')?.toLowerCase() !== 'true';
}

/** The exporter's own copy of gRPC, which accepts no credentials of another copy. */
function exporterGrpc(): typeof import('@grpc/grpc-js') {
  const resolveFrom = (from: string, name: string): string => createRequire(from).resolve(name);
  const exporter = resolveFrom(import.meta.url, '@opentelemetry/exporter-trace-otlp-grpc');
  return createRequire(resolveFrom(exporter, '@opentelemetry/otlp-grpc-exporter-base'))('@grpc/grpc-js');
}

/** The content of a file; undefined: there is none, and the collector reports what it lacks. */
function readOptionalFile(path: string | undefined): Buffer | undefined {
  try {
    return path === undefined ? undefined : readFileSync(path);
  } catch {
    return undefined;
  }
}

const createResource = ({ serviceName, serviceNamespace, serviceInstanceId }: TracingOptions) =>
  defaultResource().merge(
    resourceFromAttributes({
      'service.name': serviceName,
      ...(serviceNamespace !== '' && { 'service.namespace': serviceNamespace }),
      'service.instance.id': serviceInstanceId || randomUUID(),
    }),
  );

/** Wraps an exporter to report whether it works. */
const reportFailures = (exporter: SpanExporter, state: Parameters<typeof startTracing>[1]): SpanExporter => ({
  export(spans, done) {
    exporter.export(spans, (result) => {
      if (result.code === ExportResultCode.FAILED) state.failed(errorText(result.error));
      else state.works();
      done(result);
    });
  },
  shutdown: () => exporter.shutdown(),
});

/** Connection errors at all addresses of a name have a code, but no message. */
function errorText(error: (Error & { readonly code?: string | number }) | undefined): string {
  return error?.message || String(error?.code ?? 'no reason given');
}

/** Runs a function in a span: below the current one, else in the trace of the caller's headers, else in a new trace. */
type Within = <T>(name: string, kind: SpanKind, caller: Caller | undefined, run: (span: Span) => T) => T;

/** Wraps parts of the service in spans, with envoyproxy/ratelimit's span names. */
function createTraced(tracer: Tracer) {
  const current = new AsyncLocalStorage<Context>();
  const within: Within = (name, kind, caller, run) => {
    const parent = current.getStore() ?? callerContext(caller);
    const span = tracer.startSpan(name, { kind }, parent);
    return current.run(trace.setSpan(parent, span), () => run(span));
  };
  return {
    /** A span for each call, in the caller's trace if there is one. */
    service: (inner: RlsService) => tracedService(inner, within),
    /** A span for each backend operation, below that of the request. */
    backend: (spanName: 'Redis Pipeline Execution' | 'Memcached Fetch Execution') => tracedBackend(spanName, within),
    /** A span for each call of `/json`, above that of its request. */
    routes: (inner: ReadonlyMap<string, Route>): ReadonlyMap<string, Route> =>
      new Map([...inner].map(([path, route]) => [path, path === '/json' ? tracedJson(route, within) : route])),
  };
}

/**
 * W3C headers, and B3 headers (single or multiple), which take precedence.
 *
 * @see https://www.w3.org/TR/trace-context/
 * @see https://github.com/openzipkin/b3-propagation
 */
const propagator = new CompositePropagator({ propagators: [new W3CTraceContextPropagator(), new B3Propagator()] });
const getter: TextMapGetter<Caller> = { get: (caller, name) => caller.header(name), keys: () => [] };

const callerContext = (caller: Caller | undefined): Context =>
  caller ? propagator.extract(ROOT_CONTEXT, caller, getter) : ROOT_CONTEXT;

const tracedService = (inner: RlsService, within: Within): RlsService => ({
  shouldRateLimit: (request, caller, reply) =>
    within('ShouldRateLimit Execution', SpanKind.SERVER, caller, (span) => {
      span.setAttribute('domain', request.domain);
      return inner.shouldRateLimit(request, caller, (outcome) => {
        reply(outcome);
        describeOutcome(span, outcome);
        span.end();
      });
    }),
});

function describeOutcome(span: Span, outcome: CallOutcome): void {
  if ('error' in outcome) {
    span.setAttribute('rpc.grpc.status_code', outcome.error.code);
    span.setStatus({ code: SpanStatusCode.ERROR, message: outcome.error.details });
  } else span.setAttribute('overall_code', findName(codeNumbers, outcome.response.overall_code) ?? 'UNKNOWN');
}

const tracedBackend =
  (spanName: string, within: Within): Trace =>
  (run) =>
    within(spanName, SpanKind.CLIENT, undefined, (span) => {
      const end = (replies: Replies): Replies => {
        const unavailable = replies.find((reply) => reply.code === 'UNAVAILABLE');
        if (unavailable) span.setStatus({ code: SpanStatusCode.ERROR, message: unavailable.reason });
        span.end();
        return replies;
      };
      const replies = run();
      return after(replies, end);
    });

const tracedJson = (inner: Route, within: Within): Route => ({
  ...inner,
  answer: (request) =>
    within('NewJsonHandler Remaining Execution', SpanKind.SERVER, identifyCaller(request), async (span) => {
      try {
        const page = await inner.answer(request);
        span.setAttribute('http.response.status_code', page.status);
        return page;
      } finally {
        span.end();
      }
    }),
});
