import { AsyncLocalStorage } from 'node:async_hooks';
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
import { CompositePropagator, W3CTraceContextPropagator } from '@opentelemetry/core';
import { B3Propagator } from '@opentelemetry/propagator-b3';
import { after } from '../../base/later.ts';
import { callerOf } from '../../edge/http/api.ts';
import type { Route } from '../../edge/http/server.ts';
import type { Caller, CallOutcome, RlsService } from '../../edge/rls/service.ts';
import type { Replies } from '../../engine/backends/backend.ts';
import type { Trace } from '../../engine/ledger/ledger.ts';
import { codeNumbers, nameOf } from '../../engine/wire/wire.ts';

/** Wraps parts of the service in spans, with envoyproxy/ratelimit's span names. */
export interface Traced {
  /** A span for each call, in the caller's trace if there is one. */
  service(inner: RlsService): RlsService;
  /** A span for each backend operation, below that of the request. */
  backend(spanName: 'Redis Pipeline Execution' | 'Memcached Fetch Execution'): Trace;
  /** A span for each call of `/json`, above that of its request. */
  routes(inner: ReadonlyMap<string, Route>): ReadonlyMap<string, Route>;
}

/**
 * Runs a function in a span: below the current span, else in the trace of the caller's headers, else in a new trace.
 */
type Within = <T>(name: string, kind: SpanKind, caller: Caller | undefined, run: (span: Span) => T) => T;

export function createTraced(tracer: Tracer): Traced {
  const current = new AsyncLocalStorage<Context>();
  const within: Within = (name, kind, caller, run) => {
    const parent = current.getStore() ?? contextOf(caller);
    const span = tracer.startSpan(name, { kind }, parent);
    return current.run(trace.setSpan(parent, span), () => run(span));
  };
  return {
    service: (inner) => tracedService(inner, within),
    backend: (spanName) => tracedBackend(spanName, within),
    routes: (inner) =>
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

const contextOf = (caller: Caller | undefined): Context =>
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
  } else span.setAttribute('overall_code', nameOf(codeNumbers, outcome.response.overall_code) ?? 'UNKNOWN');
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
    within('NewJsonHandler Remaining Execution', SpanKind.SERVER, callerOf(request), async (span) => {
      try {
        const page = await inner.answer(request);
        span.setAttribute('http.response.status_code', page.status);
        return page;
      } finally {
        span.end();
      }
    }),
});
