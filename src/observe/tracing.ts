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
import type { Clock } from '../clock.ts';
import { createTraced, type Traced } from './traced.ts';

export interface TracingOptions {
  /** How spans travel: OTLP over HTTP (in protobuf) or over gRPC. */
  readonly protocol: 'http' | 'grpc';
  /** Which part of the traces that begin here is sent, 0 to 1. A trace that came with a call is sent where its beginner said so. */
  readonly samplingRate: number;
  readonly serviceName: string;
  /** Empty: none. */
  readonly serviceNamespace: string;
  /** Empty: a random UUID. */
  readonly serviceInstanceId: string;
}

/** Traces of what the service does, by OpenTelemetry. */
export interface Tracing extends Traced {
  /** Sends what has not been sent yet; waits for at most five seconds. */
  close(): Promise<void>;
}

const MAX_FLUSH_MS = 5_000;

/** A collector that is away would else be complained about every few seconds. */
const PROBLEM_INTERVAL_MS = 60_000;

/**
 * Starts tracing. Where spans are sent, and how, the exporters read from `OTEL_EXPORTER_OTLP_*`. Nothing global is touched.
 *
 * This module is what loads OpenTelemetry: import it only where traces are wanted.
 *
 * @param onProblem  is told that spans could not be sent, at most once a minute; they are lost
 * @see https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
export function startTracing(options: TracingOptions, clock: Clock, onProblem: (problem: string) => void): Tracing {
  const exporter = options.protocol === 'grpc' ? new GrpcExporter() : new HttpExporter();
  const provider = new BasicTracerProvider({
    resource: resourceOf(options),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.samplingRate) }),
    spanProcessors: [new BatchSpanProcessor(watched(exporter, clock, onProblem))],
  });
  return {
    ...createTraced(provider.getTracer('weir')),
    async close() {
      const flushed = provider.shutdown().catch(() => {}); // onProblem has been told
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

/** The exporter, but it tells when it fails. */
function watched(exporter: SpanExporter, clock: Clock, onProblem: (problem: string) => void): SpanExporter {
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

/** A connection that was refused at each address of a name has a code, but no message. */
function reasonOf(error: (Error & { readonly code?: string | number }) | undefined): string {
  return error?.message || String(error?.code ?? 'for no reason given');
}
