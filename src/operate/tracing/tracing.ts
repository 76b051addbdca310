import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ExportResultCode } from '@opentelemetry/core';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as HttpExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-node';
import type { Clock } from '../../base/clock.ts';
import { createTraced, type Traced } from './traced.ts';

export interface TracingOptions {
  /** OTLP over HTTP (protobuf) or over gRPC. */
  readonly protocol: 'http' | 'grpc';
  /**
   * Fraction of the traces started here that are sent, 0 to 1. A caller's trace follows the caller's sampling decision.
   */
  readonly samplingRate: number;
  readonly serviceName: string;
  /** Empty: none. */
  readonly serviceNamespace: string;
  /** Empty: a random UUID. */
  readonly serviceInstanceId: string;
}

/** OpenTelemetry tracing of the service. */
export interface Tracing extends Traced {
  /** Sends remaining spans; waits up to five seconds. */
  close(): Promise<void>;
}

const MAX_FLUSH_MS = 5_000;

/** Limits log lines while the collector is unreachable. */
const PROBLEM_INTERVAL_MS = 60_000;

/**
 * Starts tracing. The exporters read their configuration from `OTEL_EXPORTER_OTLP_*`. Registers nothing globally.
 *
 * Importing this module loads OpenTelemetry: do so only if tracing is enabled.
 *
 * @param onProblem  called when spans could not be sent and are lost, at most once a minute
 * @see https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
export function startTracing(options: TracingOptions, clock: Clock, onProblem: (problem: string) => void): Tracing {
  const exporter = options.protocol === 'grpc' ? new GrpcExporter() : new HttpExporter();
  const provider = new BasicTracerProvider({
    resource: resourceOf(options),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.samplingRate) }),
    spanProcessors: [new BatchSpanProcessor(reportFailures(exporter, clock, onProblem))],
  });
  return {
    ...createTraced(provider.getTracer('weir')),
    async close() {
      const flushed = provider.shutdown().catch(() => {}); // already reported by onProblem
      await Promise.race([flushed, sleep(MAX_FLUSH_MS, undefined, { ref: false })]);
    },
  };
}

const resourceOf = ({ serviceName, serviceNamespace, serviceInstanceId }: TracingOptions) =>
  defaultResource().merge(
    resourceFromAttributes({
      'service.name': serviceName,
      ...(serviceNamespace !== '' && { 'service.namespace': serviceNamespace }),
      'service.instance.id': serviceInstanceId || randomUUID(),
    }),
  );

/** Wraps an exporter to report failures. */
function reportFailures(exporter: SpanExporter, clock: Clock, onProblem: (problem: string) => void): SpanExporter {
  let nextProblemMs = Number.NEGATIVE_INFINITY;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        if (result.code === ExportResultCode.FAILED && clock() >= nextProblemMs) {
          nextProblemMs = clock() + PROBLEM_INTERVAL_MS;
          onProblem(`${spans.length} span(s) could not be sent: ${reasonOf(result.error)}`);
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}

/** Connection errors at all addresses of a name have a code, but no message. */
function reasonOf(error: (Error & { readonly code?: string | number }) | undefined): string {
  return error?.message || String(error?.code ?? 'no reason given');
}
