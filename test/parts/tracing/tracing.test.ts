import { backendThat, ledgerOf } from '../../helpers/ledger.ts';
import '../../helpers/realm.ts';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Metadata, status } from '@grpc/grpc-js';
import { apiRoutes } from '../../../src/edge/http/api.ts';
import { startHttpServer } from '../../../src/edge/http/server.ts';
import { createRlsService, type RlsService } from '../../../src/edge/rls/service.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { startTracing, type TracingOptions } from '../../../src/parts/tracing/tracing.ts';
import { callerWith } from '../../helpers/caller.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { type Collector, type ReceivedSpan, startGrpcCollector, startHttpCollector } from '../../helpers/collector.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { agreeable, startServer } from '../../helpers/grpc-server.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { freePort, type Running, start as startProcess } from '../../helpers/process.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { eventually } from '../../helpers/until.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
`);

const options: TracingOptions = {
  protocol: 'grpc',
  samplingRate: 1,
  serviceName: 'RateLimit',
  serviceNamespace: '',
  serviceInstanceId: '',
};

const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const TIMEOUT = 'OTEL_EXPORTER_OTLP_TIMEOUT';

/** A process whose collector is down, and which waits for it while other tests run. */
let withoutCollector: Promise<Running>;
beforeAll(async () => {
  // it is tried again while there is time; of an attempt that takes longer, only the time is reported
  withoutCollector = traceOverHttp(`http://localhost:${await freePort()}`, { [TIMEOUT]: '8000' });
});

let collector: Collector;
let tracing: ReturnType<typeof startTracing>;
let problems: string[];
beforeEach(async () => {
  problems = [];
  collector = await startGrpcCollector();
});
afterEach(async () => {
  delete process.env[ENDPOINT];
  delete process.env[TIMEOUT];
  await tracing.close();
  await collector.close();
});

function start(changes: Partial<TracingOptions> = {}): void {
  process.env[ENDPOINT] ??= collector.endpoint;
  const failed = (error: unknown): void => void problems.push(String(error));
  tracing = startTracing({ ...options, ...changes }, { failed, works: () => problems.push('works') });
}

/** The service with tracing, and counters in memory that are reported as Redis. */
function serviceOn(store: Backend = createMemoryBackend(fakeClock(), { maxCounters: 10 })): RlsService {
  const ledger = ledgerOf(store);
  ledger.traceWith(tracing.backend('Redis Pipeline Execution'));
  const decider = deciderOf(rules, { ledger });
  const observer = { answered() {}, failed() {} };
  const extras = extrasOf();
  return tracing.service(createRlsService(decider, extras, observer));
}

/** Sends one request per list of headers, then returns the spans, request by request. */
async function spansOf(
  ...calls: readonly (readonly (readonly [string, string])[])[]
): Promise<readonly ReceivedSpan[]> {
  const server = await startServer({ service: serviceOn() });
  const client = createClient(server.target);
  for (const headers of calls) {
    const metadata = new Metadata();
    for (const [name, value] of headers) metadata.add(name, value);
    await client.ask('demo', metadata);
  }
  client.close();
  await server.close(1_000);
  await tracing.close();
  expect(problems.filter((problem) => problem !== 'works')).toEqual([]);
  return collector.spans;
}

const execution = 'ShouldRateLimit Execution';
const traceId = '0af7651916cd43dd8448eb211c80319c';
const parentId = 'b7ad6b7169203331';

test('a request is a span, with its store call as a child', async () => {
  start();
  const spans = await spansOf([], []);
  expect(spans.map(({ name, kind }) => [name, kind])).toEqual([
    ['Redis Pipeline Execution', 'CLIENT'],
    [execution, 'SERVER'],
    ['Redis Pipeline Execution', 'CLIENT'],
    [execution, 'SERVER'],
  ]);
  const [store, request, , second] = spans;
  expect(request).toMatchObject({
    parentId: '',
    attributes: { domain: 'demo', overall_code: 'OK' },
    status: 'UNSET',
  });
  expect(second).toMatchObject({ parentId: '', attributes: { domain: 'demo', overall_code: 'OVER_LIMIT' } });
  expect(store).toMatchObject({ parentId: request?.spanId, traceId: request?.traceId, status: 'UNSET' });
  expect(second?.traceId).not.toBe(request?.traceId);
});

test.each<[string, readonly (readonly [string, string])[]]>([
  ['W3C', [['traceparent', `00-${traceId}-${parentId}-01`]]],
  ['B3 in one header', [['b3', `${traceId}-${parentId}-1`]]],
  [
    'B3 in several headers',
    [
      ['X-B3-TraceId', traceId],
      ['X-B3-SpanId', parentId],
      ['X-B3-Sampled', '1'],
    ],
  ],
  [
    'both',
    [
      ['traceparent', `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`],
      ['b3', `${traceId}-${parentId}-1`],
    ],
  ],
])("a request belongs to its caller's trace: %s", async (_, headers) => {
  start({ samplingRate: 0 }); // the origin of the trace decides about sampling
  const [store, request] = await spansOf(headers);
  expect(request).toMatchObject({ name: execution, traceId, parentId });
  expect(store).toMatchObject({ traceId, parentId: request?.spanId });
});

test.each<[string, readonly (readonly [string, string])[], number]>([
  ['begins here, at the rate of 0', [], 0],
  ['came unsampled', [['traceparent', `00-${traceId}-${parentId}-00`]], 1],
])('a trace is not sent if it %s', async (_, headers, samplingRate) => {
  start({ samplingRate });
  expect(await spansOf(headers)).toEqual([]);
});

test('traces are sampled at the configured rate', async () => {
  start({ samplingRate: 0.5 });
  const spans = await spansOf(...Array<[]>(200).fill([]));
  const requests = spans.filter(({ name }) => name === execution).length;
  expect(requests).toBeGreaterThan(30); // by chance, once in 10^24 runs
  expect(requests).toBeLessThan(170);
  expect(spans).toHaveLength(2 * requests);
});

test("a request over HTTP is a child of the /json span, in the caller's trace", async () => {
  start();
  const routes = tracing.routes(apiRoutes(serviceOn(), () => ({ ready: true, reasons: [] }), overloadOf()));
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, () => {});
  const request = { domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] };
  const headers = { traceparent: `00-${traceId}-${parentId}-01` };
  const url = `http://127.0.0.1:${server.port}`;
  const answers = [
    await fetch(`${url}/json`, { method: 'POST', headers, body: JSON.stringify(request) }),
    await fetch(`${url}/healthcheck`),
  ];
  expect(answers.map(({ status: code }) => code)).toEqual([200, 200]);
  await server.close(0);
  await tracing.close();
  const [store, decision, json] = collector.spans;
  expect(collector.spans).toHaveLength(3);
  expect(json).toMatchObject({ name: 'NewJsonHandler Remaining Execution', kind: 'SERVER', traceId, parentId });
  expect(json?.attributes).toEqual({ 'http.response.status_code': '200' });
  expect(decision).toMatchObject({ name: execution, traceId, parentId: json?.spanId });
  expect(store).toMatchObject({ name: 'Redis Pipeline Execution', traceId, parentId: decision?.spanId });
});

test('concurrent requests have separate spans', async () => {
  start();
  const service = serviceOn();
  const request = { domain: 'demo', descriptors: [], hits_addend: 1 };
  const descriptors = [
    { entries: [{ key: 'user', value: 'alice' }], limit: null, hits_addend: null, is_negative_hits: false },
  ];
  await Promise.all(
    Array.from({ length: 20 }, () => service.shouldRateLimit({ ...request, descriptors }, callerWith(), () => {})),
  );
  await tracing.close();
  const requests = collector.spans.filter(({ name }) => name === execution);
  const stores = collector.spans.filter(({ name }) => name !== execution);
  expect(new Set(requests.map(({ traceId: id }) => id)).size).toBe(20);
  expect(stores.map(({ parentId: id }) => id).sort()).toEqual(requests.map(({ spanId }) => spanId).sort());
});

test('a failure is recorded in its span', async () => {
  start();
  const service = serviceOn(
    backendThat(async (hits) => hits.map(() => ({ code: 'UNAVAILABLE', reason: 'no connection' }))),
  );
  const server = await startServer({ service });
  const client = createClient(server.target);
  await expect(client.ask()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  client.close();
  await server.close(0);
  await tracing.close();
  expect(collector.spans).toMatchObject([
    { name: 'Redis Pipeline Execution', status: 'ERROR', message: 'no connection' },
    {
      name: execution,
      status: 'ERROR',
      message: 'rate limit store unavailable: no connection',
      attributes: { domain: 'demo', 'rpc.grpc.status_code': '14' },
    },
  ]);
});

test("spans have the service's names", async () => {
  start({ serviceName: 'limiter', serviceNamespace: 'edge', serviceInstanceId: 'one' });
  const [span] = await spansOf([]);
  expect(span?.resource).toMatchObject({
    'service.name': 'limiter',
    'service.namespace': 'edge',
    'service.instance.id': 'one',
  });
});

test('spans of a service without names have a random instance and no namespace', async () => {
  start();
  const [span] = await spansOf([]);
  expect(span?.resource).toMatchObject({
    'service.name': 'RateLimit',
    'service.instance.id': expect.stringMatching(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/),
  });
  expect(span?.resource).not.toHaveProperty(['service.namespace']);
});

test('spans are sent over HTTP as well', async () => {
  const http = await startHttpCollector();
  const run = await traceOverHttp(http.endpoint);
  expect(await run.exited).toEqual({ code: 0, signal: null });
  expect(run.output()).toBe('');
  expect(http.spans).toMatchObject([
    { name: execution, kind: 'SERVER', attributes: { domain: 'demo', overall_code: 'OK' } },
  ]);
  await http.close();
});

describe('a collector that', () => {
  const ask = (): PromiseLike<void> =>
    tracing
      .service(agreeable)
      .shouldRateLimit({ domain: 'demo', descriptors: [], hits_addend: 1 }, callerWith(), () => {});

  test('is down is logged, and has no other effect, over gRPC', async () => {
    process.env[ENDPOINT] = `http://127.0.0.1:${await freePort()}`;
    process.env[TIMEOUT] = '1000';
    start();
    await ask();
    await tracing.close();
    await eventually(() => problems.length > 0);
    expect(problems).toEqual([expect.stringMatching(/./)]);
    expect(problems).not.toContain('works');
  });

  test('never answers does not delay close forever', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo; // it listens on a TCP port
    process.env[ENDPOINT] = `http://127.0.0.1:${port}`;
    process.env[TIMEOUT] = '3600000';
    start();
    await ask();
    await tracing.close(); // otherwise it would outlast the test's timeout
    for (const socket of sockets) socket.destroy();
    silent.close();
  });

  test('is down is logged, and has no other effect, over HTTP', async () => {
    const run = await withoutCollector;
    expect(await run.exited).toEqual({ code: 0, signal: null });
    expect(run.output()).toMatch(/^sending traces is failing: .*ECONNREFUSED/);
  });
});

const traceOverHttp = (endpoint: string, env: Readonly<Record<string, string>> = {}): Promise<Running> => {
  const program = fileURLToPath(new URL('../../helpers/trace-over-http.ts', import.meta.url));
  const args = ['--import', 'tsx', program];
  return startProcess(process.execPath, args, { env: { ...process.env, [ENDPOINT]: endpoint, ...env } });
};
