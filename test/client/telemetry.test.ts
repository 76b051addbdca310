import { createServer } from 'node:http';
import * as opentelemetry from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { freePort } from '../helpers/process.ts';
import { closeAll, listen, openClient, RULES, startService } from './service.ts';

const exporter = new InMemorySpanExporter();

beforeAll(() => {
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.register({ propagator: new W3CTraceContextPropagator() });
});
afterEach(() => {
  exporter.reset();
  return closeAll();
});
afterAll(() => {
  opentelemetry.trace.disable();
  opentelemetry.context.disable();
  opentelemetry.propagation.disable();
});

/** The metrics recorded while the function runs. */
async function metricsOf(run: () => Promise<void>) {
  const recorded: [name: string, value: number, attributes: object | undefined][] = [];
  const instrument = (name: string) => ({
    add: (value: number, attributes?: object) => void recorded.push([name, value, attributes]),
    record: (value: number, attributes?: object) => void recorded.push([name, value, attributes]),
  });
  const meter = { createCounter: instrument, createHistogram: instrument };
  opentelemetry.metrics.setGlobalMeterProvider({ getMeter: () => meter as never }); // the used part of a meter
  await run();
  opentelemetry.metrics.disable();
  return recorded;
}

test.each(['grpc', 'http'] as const)(
  'calls over %s are spans and metrics, with the rule and the outcome',
  async (protocol) => {
    const service = await startService(RULES);
    const metrics = await metricsOf(async () => {
      const client = await openClient({ target: service[protocol], opentelemetry });
      await client.limit('demo', { user: 'a' }, { hits: 5 });
      await client.limit('demo', { user: 'a' });
    });
    const spans = exporter.getFinishedSpans();
    expect(spans.map(({ name, attributes }) => [name, attributes])).toEqual([
      [
        'weir limit',
        { 'weir.domain': 'demo', 'weir.outcome': 'allowed', 'weir.rule': 'demo.user', 'weir.source': 'backend' },
      ],
      [
        'weir limit',
        { 'weir.domain': 'demo', 'weir.outcome': 'refused', 'weir.rule': 'demo.user', 'weir.source': 'backend' },
      ],
    ]);
    expect(
      metrics.filter(([name]) => name === 'weir.client.decisions').map(([, value, attributes]) => [value, attributes]),
    ).toEqual([
      [1, { 'weir.domain': 'demo', 'weir.outcome': 'allowed' }],
      [1, { 'weir.domain': 'demo', 'weir.outcome': 'refused' }],
    ]);
    expect(metrics.filter(([name]) => name === 'weir.client.duration')).toHaveLength(2);
  },
);

test('a call carries the trace to the service', async () => {
  const traceparents: unknown[] = [];
  const server = createServer(({ headers }, response) => {
    traceparents.push(headers.traceparent);
    response.end('{"overallCode":"OK"}');
  });
  const port = await listen(server);
  const client = await openClient({ target: `http://127.0.0.1:${port}`, opentelemetry });
  traceparents.length = 0;
  await client.limit('demo', { user: 'a' });
  const { traceId, spanId } = exporter.getFinishedSpans()[0]?.spanContext() ?? {};
  expect(traceparents).toEqual([`00-${traceId}-${spanId}-01`]);
});

test('a call without an answer is a span with an error', async () => {
  const target = `127.0.0.1:${await freePort()}`;
  const client = await openClient({ target, opentelemetry }, { isUp: false });
  await client.limit('demo', { user: 'a' });
  const [span] = exporter.getFinishedSpans();
  expect(span?.status.code).toBe(opentelemetry.SpanStatusCode.ERROR);
  expect(span?.events).toMatchObject([{ name: 'exception' }]);
});
