import type { Decision } from './decision.ts';

/** The part of `@opentelemetry/api` that is used; pass the module. */
export interface OpenTelemetryApi {
  readonly trace: {
    getTracer(name: string): { startSpan(name: string, options?: object): OpenTelemetrySpan };
    setSpan(context: never, span: never): unknown;
  };
  readonly metrics: {
    getMeter(name: string): {
      createCounter(name: string, options?: object): { add(value: number, attributes?: object): void };
      createHistogram(name: string, options?: object): { record(value: number, attributes?: object): void };
    };
  };
  readonly context: { active(): unknown };
  readonly propagation: { inject(context: never, carrier: object): void };
}

/** The part of a span that is used. */
export interface OpenTelemetrySpan {
  setAttribute(name: string, value: string | number | boolean): unknown;
  recordException(error: Error): void;
  setStatus(status: { readonly code: number }): unknown;
  end(): void;
}

/** OpenTelemetry's numbers for a client's span and for an error. */
const CLIENT_SPAN = 2;
const ERROR_STATUS = 2;

const NAME = 'weir-client';

/** The record of one call. */
export interface CallRecord {
  /** Headers that carry the trace to the service. */
  readonly headers: Readonly<Record<string, string>>;
  end(decision: Decision | undefined): void;
}

/** Records a span, and the metrics `weir.client.decisions` and `weir.client.duration`, for every call. */
export function createTelemetry(api: OpenTelemetryApi, now: () => number): (domain: string) => CallRecord {
  const tracer = api.trace.getTracer(NAME);
  const meter = api.metrics.getMeter(NAME);
  const decisions = meter.createCounter('weir.client.decisions', { description: 'Decisions by outcome' });
  const duration = meter.createHistogram('weir.client.duration', { description: 'Time to a decision', unit: 'ms' });
  return (domain) => {
    const startMs = now();
    const span = tracer.startSpan('weir limit', { kind: CLIENT_SPAN, attributes: { 'weir.domain': domain } });
    const headers: Record<string, string> = {};
    // Values of the module itself, which are only passed on.
    const context = api.trace.setSpan(api.context.active() as never, span as never);
    api.propagation.inject(context as never, headers);
    return {
      headers,
      end(decision) {
        const outcome = nameOutcome(decision);
        const attributes = { 'weir.domain': domain, 'weir.outcome': outcome };
        decisions.add(1, attributes);
        duration.record(now() - startMs, attributes);
        span.setAttribute('weir.outcome', outcome);
        if (decision?.rule !== undefined) span.setAttribute('weir.rule', decision.rule);
        if (decision?.source !== undefined) span.setAttribute('weir.source', decision.source);
        if (decision?.error) {
          span.recordException(decision.error);
          span.setStatus({ code: ERROR_STATUS });
        }
        span.end();
      },
    };
  };
}

function nameOutcome(decision: Decision | undefined): string {
  if (!decision) return 'aborted';
  return decision.ok ? 'allowed' : 'refused';
}
