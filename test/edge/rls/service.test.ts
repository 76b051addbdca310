import { backendThat, ledgerOf } from '../../helpers/ledger.ts';
import '../../helpers/realm.ts';
import { once } from 'node:events';
import { type CallOptions, Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { Clock } from '../../../src/base/clock.ts';
import { Health, type Readiness } from '../../../src/edge/rls/health.ts';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import { type CallOutcome, createRlsService, type Observer } from '../../../src/edge/rls/service.ts';
import type { WireDescriptor, WireRequest, WireResponse } from '../../../src/edge/wire/wire.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Decider } from '../../../src/engine/decide/decide.ts';
import { createStoreBudget } from '../../../src/engine/ledger/store-budget.ts';
import type { GrpcServer } from '../../../src/h2/server.ts';
import { fromStruct } from '../../../src/protobuf/struct.ts';
import { callerWith } from '../../helpers/caller.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { gate } from '../../helpers/gate.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { startGrpcServer } from '../../helpers/grpc-server.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { accepts } from '../../helpers/process.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: minute, requests_per_unit: 2}}
  - {key: user, value: admin, rate_limit: {unlimited: true}}
`);

const noHeaders = extrasOf();
const clock = fakeClock(); // 40 s to the end of its minute
const memory = (): Backend => createMemoryBackend(clock, { maxCounters: 1_000 });

let server: GrpcServer;
let health: Health;
let client: Client;
let readiness: Readiness;
/** The observer's notifications: `answered OK`, or the status and its cause. */
let observed: unknown[];
/** Called right after an answer. */
let onAnswer: () => void;

const observer: Observer = {
  answered(_request, answer) {
    observed.push(`answered ${answer.overallCode}`);
    onAnswer();
  },
  failed: ({ code }, cause) => observed.push({ code, cause }),
};

async function start(changes: Partial<Decider> = {}, now: Clock = clock): Promise<void> {
  const decider = deciderOf(rules, { ledger: ledgerOf(memory()), ...changes });
  health = new Health(() => readiness);
  const service = createRlsService(decider, noHeaders, observer);
  server = await startGrpcServer({
    address: { host: '127.0.0.1', port: 0 },
    service,
    health,
    clock: now,
    overload: overloadOf(),
  });
  client = new Client(server.target, credentials.createInsecure());
}

const port = (): number => Number(server.target.split(':').at(-1));

beforeEach(() => {
  readiness = { ready: true, reasons: [] };
  observed = [];
  onAnswer = () => {};
});
afterEach(async () => {
  client.close();
  health.close();
  await server.close(0);
});

type Reply<R> = { readonly response: R } | { readonly code: status; readonly details: string };

function unary<Q, R>(method: MethodDefinition<Q, R>, request: Q, options: CallOptions = {}): Promise<Reply<R>> {
  return new Promise((resolve) => {
    const done = (error: ServiceError | null, response?: R) =>
      resolve(error ? { code: error.code, details: error.details } : { response: response as R }); // one of them is set
    client.makeUnaryRequest(method.path, method.requestSerialize, method.responseDeserialize, request, options, done);
  });
}

const descriptorOf = (key: string, value: string, fields: Partial<WireDescriptor> = {}): WireDescriptor => ({
  entries: [{ key, value }],
  limit: null,
  hits_addend: null,
  is_negative_hits: false,
  ...fields,
});

const ask = (request: Partial<WireRequest> = {}, options: CallOptions = {}): Promise<Reply<WireResponse>> => {
  const whole = { domain: 'demo', descriptors: [descriptorOf('user', 'alice')], hits_addend: 0, ...request };
  return unary(shouldRateLimit, whole, options);
};

/** Sends these bytes as a request. */
const sendBytes = (bytes: Buffer): Promise<Reply<WireResponse>> =>
  unary({ ...shouldRateLimit, requestSerialize: (): Buffer => bytes } as typeof shouldRateLimit, {} as WireRequest);

describe('ShouldRateLimit', () => {
  test('answers a call, then the next one with the hits left by the first', async () => {
    await start();
    const descriptors = [
      descriptorOf('user', 'alice'),
      descriptorOf('user', 'admin'),
      descriptorOf('user', 'bob', { hits_addend: { value: 0 } }),
      descriptorOf('path', '/'),
    ];
    const current_limit = expect.objectContaining({ name: 'per-user', requests_per_unit: 2, unit: 2 });
    const duration_until_reset = { seconds: 40, nanos: 0 };
    expect(await ask({ descriptors, hits_addend: 2 })).toMatchObject({
      response: {
        overall_code: 1,
        statuses: [
          { code: 1, current_limit, limit_remaining: 0, duration_until_reset },
          { code: 1, current_limit: null, limit_remaining: 4_294_967_295, duration_until_reset: null },
          { code: 1, current_limit, limit_remaining: 2, duration_until_reset },
          { code: 1, current_limit: null, limit_remaining: 0, duration_until_reset: null },
        ],
        response_headers_to_add: [],
      },
    });
    expect(await ask()).toMatchObject({ response: { overall_code: 2, statuses: [{ code: 2, limit_remaining: 0 }] } });
    expect(observed).toEqual(['answered OK', 'answered OVER_LIMIT']);
  });

  test('returns the fields of the API, and other facts in the metadata', async () => {
    const newRules = rulesFrom(`
domain: demo
descriptors:
  - {key: soft, rate_limit: {unit: minute, unit_multiplier: 2, requests_per_unit: 1, soft: 1}}
  - {key: odd, rate_limit: {window: 1500ms, requests_per_unit: 5, algorithm: sliding_window_log}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, max_delay: 1s}}
`);
    await start({ rules: () => newRules });
    const descriptors = ['path', 'soft', 'odd', 'queue'].map((key) => descriptorOf(key, ''));
    const replies = [await ask({ descriptors }), await ask({ descriptors })];
    const [first, second] = replies.map((reply) => {
      if (!('response' in reply)) throw new Error(reply.details);
      const { statuses, dynamic_metadata, response_headers_to_add } = reply.response;
      const limits = statuses.map(({ current_limit }) => current_limit);
      return { limits, metadata: dynamic_metadata && fromStruct(dynamic_metadata), headers: response_headers_to_add };
    });
    const limits = [
      null,
      { name: '', requests_per_unit: 1, unit: 2, unit_multiplier: { value: 2 } },
      { name: '', requests_per_unit: 5, unit: 0, unit_multiplier: null },
      { name: '', requests_per_unit: 50, unit: 1, unit_multiplier: null },
    ];
    const odd = { index: 2, rule: 'demo.odd', window_ms: 1_500 };
    expect(first).toEqual({ limits, metadata: { weir: { statuses: [odd] } }, headers: [] });
    expect(second).toEqual({
      limits,
      metadata: {
        weir: {
          delay_ms: 20,
          statuses: [{ index: 1, rule: 'demo.soft', soft: true }, odd, { index: 3, rule: 'demo.queue', delay_ms: 20 }],
        },
      },
      headers: [expect.objectContaining({ key: 'soft', value: 'demo.soft' })],
    });
  });

  test('counts different keys and values separately', async () => {
    await start();
    for (const value of ['', '__proto__', 'é', '\u0000', '😀'.repeat(1_000)])
      expect(await ask({ descriptors: [descriptorOf('user', value)] })).toMatchObject({
        response: { statuses: [{ limit_remaining: 1 }] },
      });
  });

  test.each<[string, Partial<WireRequest>, string]>([
    ['no domain', { domain: '' }, 'rate limit domain must not be empty'],
    ['no descriptors', { descriptors: [] }, 'rate limit descriptor list must not be empty'],
    [
      'too many descriptors',
      { descriptors: Array(257).fill(descriptorOf('user', 'x')) },
      'descriptors must have at most 256 descriptors, got more',
    ],
    [
      'a limit without a unit',
      {
        descriptors: [
          descriptorOf('user', 'x'),
          descriptorOf('user', 'x', { limit: { requests_per_unit: 5, unit: 0, unit_multiplier: null } }),
        ],
      },
      'descriptors[1].limit.unit must be a unit from SECOND (1) to WEEK (7), got 0',
    ],
  ])('fails with INVALID_ARGUMENT for a request with %s', async (_, request, details) => {
    await start();
    expect(await ask(request)).toEqual({ code: status.INVALID_ARGUMENT, details });
    expect(observed).toEqual([{ code: status.INVALID_ARGUMENT, cause: expect.objectContaining({ message: details }) }]);
    expect(await ask()).toMatchObject({ response: { statuses: [{ limit_remaining: 1 }] } }); // nothing was spent
  });

  test('fails with UNAVAILABLE before rules are loaded', async () => {
    await start({ rules: () => undefined });
    const details = 'no rate limit configuration loaded';
    expect(await ask()).toEqual({ code: status.UNAVAILABLE, details });
  });

  test('fails with UNAVAILABLE without its counters, unless none are needed', async () => {
    const apply: Backend['run'] = async (hits) => hits.map(() => ({ code: 'UNAVAILABLE', reason: 'no connection' }));
    await start({ ledger: ledgerOf(backendThat(apply)) });
    const details = 'rate limit store unavailable: no connection';
    expect(await ask()).toEqual({ code: status.UNAVAILABLE, details });
    expect(await ask({ descriptors: [descriptorOf('user', 'admin')] })).toMatchObject({
      response: { overall_code: 1 },
    });
  });

  test('fails with INTERNAL after a bug, and passes the cause only to the observer', async () => {
    const bug = new Error('secret cause');
    await start({ ledger: ledgerOf(backendThat(() => Promise.reject(bug))) });
    expect(await ask()).toEqual({ code: status.INTERNAL, details: 'internal error' });
    expect(observed).toEqual([{ code: status.INTERNAL, cause: bug }]);
  });

  test.each([
    ['no message at all', Buffer.from([0xff, 0xff, 0xff])],
    ['a message cut short', Buffer.from([0x12])],
    ['a message in a message cut short', Buffer.from([0x12, 0x05, 0x0a])],
  ])('fails for bytes that are %s, and the server survives', async (_, bytes) => {
    await start();
    expect(await sendBytes(bytes)).toMatchObject({ code: status.INTERNAL });
    expect(await ask()).toMatchObject({ response: { overall_code: 1 } });
  });

  test('fails with RESOURCE_EXHAUSTED for more than 4 MiB, and the server survives', async () => {
    await start();
    const domain = 'x'.repeat(4 * 1024 * 1024);
    expect(await ask({ domain })).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect(await ask()).toMatchObject({ response: { overall_code: 1 } });
  });

  test("gives its store a part of the caller's deadline", async () => {
    const waited: number[] = [];
    const store = backendThat(async (hits, { timeoutMs }) => {
      waited.push(timeoutMs);
      return hits.map(() => ({ code: 'UNAVAILABLE', reason: 'not asked' }));
    });
    await start({ ledger: ledgerOf(store), storeBudget: createStoreBudget(() => 0, undefined) }, Date.now);
    await ask();
    await ask({}, { deadline: Date.now() + 60_000 });
    expect(waited).toEqual([250, 1_000]);
  });
});

test('a decision completes even if the observer throws', async () => {
  const service = createRlsService(deciderOf(rules, { ledger: ledgerOf(memory()) }), noHeaders, {
    answered() {
      throw new Error('a bug in the statistics');
    },
    failed() {
      throw new Error('a bug in the log');
    },
  });
  const outcomes: CallOutcome[] = [];
  for (const domain of ['demo', '']) {
    const request = { domain, descriptors: [descriptorOf('user', 'alice')], hits_addend: 1 };
    await service.shouldRateLimit(request, callerWith(1_000), (outcome) => outcomes.push(outcome)); // never rejects, as promised
  }
  expect(outcomes).toEqual([{ response: expect.anything() }, { error: expect.anything() }]);
});

describe('closing', () => {
  /** How often a closing server checks for calls in flight. */
  const CHECK_INTERVAL_MS = 50;

  test('waits for a call in flight, and accepts no more', async () => {
    const asked = gate();
    const answered = gate();
    const store = memory();
    const slow = backendThat(async (hits, how) => {
      asked.open();
      await answered.passed;
      return store.run(hits, how);
    });
    await start({ ledger: ledgerOf(slow) });
    const reply = ask();
    await asked.passed;
    jest.useFakeTimers({
      doNotFake: ['Date', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate', 'setTimeout'],
    });
    try {
      let closed = false;
      server.close(60_000).then(() => {
        closed = true;
      });
      expect(await accepts(port())).toBe(false);
      onAnswer = () => jest.advanceTimersByTime(CHECK_INTERVAL_MS); // a check at the worst moment: answered, but not yet sent
      answered.open();
      expect(await reply).toMatchObject({ response: { overall_code: 1 } });
      while (!closed) {
        jest.advanceTimersByTime(CHECK_INTERVAL_MS);
        await new Promise(setImmediate);
      }
    } finally {
      jest.useRealTimers();
    }
  });

  test('ends calls still in flight after the grace period', async () => {
    const asked = gate();
    await start({
      ledger: ledgerOf(
        backendThat(() => {
          asked.open();
          return new Promise(() => {});
        }),
      ),
    });
    const reply = ask();
    await asked.passed;
    await server.close(1);
    expect(await reply).toMatchObject({ code: expect.any(Number) });
  });

  test('does not wait for streams', async () => {
    await start();
    const watching = createClient(server.target);
    const stream = watching.watch().on('error', () => {});
    await once(stream, 'data');
    await ask();
    await ask({ domain: '' });
    await server.close(60_000);
    watching.close();
  });
});

test('listening on an address in use fails', async () => {
  await start();
  const service = createRlsService({} as Decider, noHeaders, observer);
  const address = { host: '127.0.0.1', port: port() };
  await expect(startGrpcServer({ address, service, health, clock, overload: overloadOf() })).rejects.toThrow(
    /EADDRINUSE/,
  );
});
