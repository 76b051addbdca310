import '../../helpers/realm.ts';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import { createBatch, type WireBatchResponse } from '../../../src/edge/rls/batch.ts';
import { Health } from '../../../src/edge/rls/health.ts';
import { decideBatch, shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import {
  type Caller,
  createRlsService,
  type GrpcStatus,
  type Observer,
  type RlsService,
} from '../../../src/edge/rls/service.ts';
import type { WireDescriptor, WireRequest, WireResponse } from '../../../src/edge/wire/wire.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Answer } from '../../../src/engine/decide/decide.ts';
import type { GrpcServer } from '../../../src/h2/server.ts';
import { fromStruct } from '../../../src/protobuf/struct.ts';
import { callerWith } from '../../helpers/caller.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { OK, startGrpcServer } from '../../helpers/grpc-server.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { crossedRules, crossing } from '../../helpers/patterns.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: minute, requests_per_unit: 2}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, max_delay: 1s}}
  - {key: slow, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, max_delay: 1s}}
${crossedRules}
`);

let server: GrpcServer;
let client: Client;
/** Answers and failures that observers receive. */
let observed: (Answer | status)[];
/** The method and status of finished calls. */
let finished: string[];

const observer: Observer = {
  answered: (_request, answer) => observed.push(answer),
  failed: ({ code }) => observed.push(code),
};

function serviceOn(clock = fakeClock()): RlsService {
  const ledger = ledgerOf(createMemoryBackend(clock, { maxCounters: 1_000 }));
  return createRlsService(deciderOf(rules, { ledger }), extrasOf(), observer);
}

async function start(overload = overloadOf()): Promise<void> {
  server = await startGrpcServer({
    address: { host: '127.0.0.1', port: 0 },
    service: overload.counting(serviceOn()),
    health: new Health(() => ({ ready: true, reasons: [] })),
    clock: Date.now,
    overload,
    onCallFinished: (method, code) => finished.push(`${method} ${code}`),
  });
  client = new Client(server.target, credentials.createInsecure());
}

async function stop(): Promise<void> {
  client.close();
  await server.close(0);
}

beforeEach(async () => {
  observed = [];
  finished = [];
  await start();
});
afterEach(stop);

const requestOf = (value: string, changes: Partial<WireRequest> = {}): WireRequest => ({
  domain: 'demo',
  descriptors: [descriptorOf('user', value)],
  hits_addend: 0,
  ...changes,
});
const descriptorOf = (key: string, value: string): WireDescriptor => ({
  ...{ entries: [{ key, value }], limit: null, hits_addend: null, is_negative_hits: false },
});

const detailed = new Metadata();
detailed.set('x-weir-detail', '1');

function unary<Q, R>(method: MethodDefinition<Q, R>, request: Q, metadata = new Metadata()): Promise<R> {
  return new Promise((resolve, reject) => {
    const { path, requestSerialize, responseDeserialize } = method;
    client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadata,
      (error: ServiceError | null, response?: R) => (response === undefined ? reject(error) : resolve(response)),
    );
  });
}

const decide = (requests: readonly WireRequest[], metadata?: Metadata): Promise<WireBatchResponse> =>
  unary(decideBatch, { requests }, metadata);

const weirOf = ({ dynamic_metadata }: WireResponse) => dynamic_metadata && fromStruct(dynamic_metadata).weir;

describe('a batch', () => {
  test('is answered in the order of its requests, each like a separate call', async () => {
    const requests = ['alice', 'bob', 'alice', 'alice'].map((user) => requestOf(user));
    const { answers } = await decide(requests);
    expect(answers).toMatchObject([
      { response: { overall_code: 1, statuses: [{ limit_remaining: 1 }] } },
      { response: { overall_code: 1, statuses: [{ limit_remaining: 1 }] } },
      { response: { overall_code: 1, statuses: [{ limit_remaining: 0 }] } },
      { response: { overall_code: 2, statuses: [{ limit_remaining: 0 }] } },
    ]);
    expect(await unary(shouldRateLimit, requestOf('bob'))).toMatchObject({ statuses: [{ limit_remaining: 0 }] });
  });

  test('answers a broken request with its own status, and the others as usual', async () => {
    const { answers } = await decide([
      requestOf('alice'),
      requestOf('alice', { domain: '' }),
      requestOf('alice', { descriptors: [] }),
      requestOf('bob', { domain: 'x'.repeat(20_000) }),
      requestOf('alice'),
    ]);
    const broken = (message: string) => ({ status: { code: status.INVALID_ARGUMENT, message } });
    expect(answers).toMatchObject([
      { response: { overall_code: 1 } },
      broken('rate limit domain must not be empty'),
      broken('rate limit descriptor list must not be empty'),
      broken('domain must have at most 16384 characters, got more'),
      { response: { overall_code: 1, statuses: [{ limit_remaining: 0 }] } },
    ]);
  });

  test('is recorded like its separate requests, and as one call of its own method', async () => {
    const requests = [requestOf('alice', { hits_addend: 3 }), requestOf('', { domain: '' }), requestOf('bob')];
    await decide(requests);
    const together = observed.splice(0);
    expect(finished).toEqual(['Decide 0']);
    const single = serviceOn();
    for (const request of requests) await single.shouldRateLimit(request, callerWith(), () => {});
    expect(together).toHaveLength(3);
    expect(together).toEqual(observed);
  });

  test('that is too large fails as a whole, and nothing is counted', async () => {
    const tooMany = decide(Array(257).fill(requestOf('alice')));
    await expect(tooMany).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    const long = 'x'.repeat(16_000);
    const tooLong = decide(Array.from({ length: 20 }, () => requestOf(long)));
    await expect(tooLong).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect(observed).toEqual([]);
    expect(finished).toEqual([`Decide ${status.INVALID_ARGUMENT}`, `Decide ${status.RESOURCE_EXHAUSTED}`]);
    expect((await decide([requestOf('alice')])).answers).toMatchObject([
      { response: { statuses: [{ limit_remaining: 1 }] } },
    ]);
  });

  test('is refused as one call under overload, and its requests are in flight until it is answered', async () => {
    await stop();
    const overload = overloadOf();
    let refusal: GrpcStatus | undefined = { code: status.RESOURCE_EXHAUSTED, details: 'overloaded, try again' };
    await start({ ...overload, refusal: () => refusal });
    await expect(decide([requestOf('alice'), requestOf('bob')])).rejects.toMatchObject(refusal);
    expect(observed).toEqual([]);
    refusal = undefined;
    const held = { descriptors: [descriptorOf('slow', 's')] };
    const answered = decide([requestOf('', held), requestOf('', held), requestOf('', held)]);
    await until('two requests are held', () => overload.inFlight() === 2);
    expect((await answered).answers).toHaveLength(3);
    expect(overload.inFlight()).toBe(0);
  });

  test('without requests has no answers', async () => {
    expect(await decide([])).toEqual({ answers: [] });
  });

  test('is answered completely at its limits, even if the answer is larger than the windows of a client', async () => {
    const requests = Array.from({ length: 256 }, (_, at) => ({
      ...requestOf(''),
      descriptors: [descriptorOf('user', `a${at}`), descriptorOf('user', `b${at}`)],
    }));
    const { answers } = await decide(requests, detailed);
    expect(answers).toHaveLength(256);
    expect(decideBatch.responseSerialize({ answers }).length).toBeGreaterThan(65_535);
    for (const answer of answers)
      expect('response' in answer && weirOf(answer.response)).toMatchObject({ descriptors: [{}, {}] });
  });

  test('waits for its delayed requests, and no longer', async () => {
    const held = { descriptors: [descriptorOf('queue', 'q')] };
    const { answers } = await decide([requestOf('', held), requestOf('alice'), requestOf('', held)], detailed);
    const delays = answers.map((answer) => 'response' in answer && weirOf(answer.response));
    expect(delays).toMatchObject([{ delay_ms: 0 }, { delay_ms: 0 }, { delay_ms: 20 }]);
  });
});

describe('`x-weir-detail: 1`', () => {
  const facts = { rule: 'demo.user', limit: 2, source: 'backend', delay_ms: 0, reset_ms: 40_000, unspent_ms: 40_000 };

  test('adds the detail to an answer', async () => {
    const response = await unary(shouldRateLimit, requestOf('alice'), detailed);
    const numbers = { ...facts, remaining: 1, retry_after_ms: 0 };
    expect(weirOf(response)).toEqual({ ...numbers, descriptors: [numbers] });
    const { answers } = await decide([requestOf('alice'), requestOf('alice')], detailed);
    expect(answers.map((answer) => 'response' in answer && weirOf(answer.response))).toMatchObject([
      { remaining: 0, retry_after_ms: 0 },
      { remaining: 0, retry_after_ms: 40_000, descriptors: [{ retry_after_ms: 40_000 }] },
    ]);
  });

  test.each([undefined, '0', 'true'])('is not in effect if its value is %s', async (value) => {
    const metadata = new Metadata();
    if (value !== undefined) metadata.set('x-weir-detail', value);
    expect((await unary(shouldRateLimit, requestOf('alice'), metadata)).dynamic_metadata).toBeNull();
    const { answers } = await decide([requestOf('alice')], metadata);
    expect(answers).toMatchObject([{ response: { dynamic_metadata: null } }]);
  });
});

test('every delayed request of a batch ends when the caller goes away', () => {
  let gone = 0;
  let leave = (): void => {};
  const holding: RlsService = {
    async shouldRateLimit(_request, caller, reply) {
      caller.onGone?.(() => {
        gone++;
        reply({ response: OK });
      });
    },
  };
  let replies = 0;
  const caller: Caller = {
    ...callerWith(),
    onGone(listener) {
      leave = listener;
    },
  };
  createBatch(holding)({ requests: [requestOf('a'), requestOf('b')] }, caller, () => replies++);
  expect(replies).toBe(0);
  leave();
  expect([gone, replies]).toEqual([2, 1]);
});

test("every request of a batch has the batch's time of arrival, and its remaining deadline at that time", () => {
  const callers: Caller[] = [];
  const keeping: RlsService = { shouldRateLimit: async (_request, caller) => void callers.push(caller) };
  const caller: Caller = { ...callerWith(700), startedMs: 12 };
  createBatch(keeping)({ requests: [requestOf('a'), requestOf('b')] }, caller, () => {});
  expect(callers).toMatchObject(Array(2).fill({ timeoutMs: 700, startedMs: 12 }));
});

test('the requests of a batch share the search for patterns that one request may cause', async () => {
  const costly = requestOf('', { descriptors: [descriptorOf('path', crossing(10))] }); // 200 units
  const { answers } = await decide(Array.from({ length: 5 }, () => costly));
  const codes = answers.map((answer) => ('status' in answer && answer.status ? answer.status.code : status.OK));
  expect(codes).toEqual([status.OK, status.OK, ...Array(3).fill(status.RESOURCE_EXHAUSTED)]);
});
