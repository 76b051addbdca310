import { ledgerOf } from '../../helpers/ledger.ts';
import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CallOptions, Client, type ClientUnaryCall, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { Health } from '../../../src/edge/rls/health.ts';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import { type CallOutcome, createRlsService, type Observer, type RlsService } from '../../../src/edge/rls/service.ts';
import type { WireRequest, WireResponse } from '../../../src/edge/wire/wire.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Answer } from '../../../src/engine/decide/decide.ts';
import type { GrpcServer } from '../../../src/h2/server.ts';
import { fromStruct } from '../../../src/protobuf/struct.ts';
import { callerWith } from '../../helpers/caller.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { gate } from '../../helpers/gate.ts';
import { startGrpcServer } from '../../helpers/grpc-server.ts';
import { heapBytes } from '../../helpers/heap.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const OK = 1;
const OVER_LIMIT = 2;

const HOUR_MS = 3_600_000;
/** The time of a turn of the rule `steady`: longer than a process stalls. */
const TURN_MS = 3_000;

/** A queue with this rate per second and a burst of one, which delays requests by up to ten seconds. */
const queueOf = (requestsPerSecond: number, more = '') =>
  `{unit: second, requests_per_unit: ${requestsPerSecond}, algorithm: leaky_bucket, max_delay: 10s${more}}`;

const rules = rulesFrom(`
domain: demo
descriptors:
  - {key: fast, rate_limit: ${queueOf(50)}}
  - {key: slow, rate_limit: ${queueOf(2)}}
  - {key: steady, rate_limit: {unit: minute, requests_per_unit: 20, algorithm: leaky_bucket, max_delay: 10s}}
  - {key: rare, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 1h}}
  - {key: crowd, rate_limit: ${queueOf(5_000, ', burst: 10000')}}
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 50, algorithm: token_bucket, burst: 2, max_delay: 10s}}
  - {key: short, rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, max_delay: 500ms}}
`);

/** A stopped clock: delays depend only on the order of the calls, not on when they arrive. */
const clock = fakeClock();

let server: GrpcServer;
let health: Health;
let client: Client;
/** Called when a call is decided, which is at once, even if its answer is delayed. */
let onDecision: (answer?: Answer) => void;

const observer: Observer = { answered: (_request, answer) => onDecision(answer), failed: () => onDecision() };

function serviceWith(): RlsService {
  const ledger = ledgerOf(createMemoryBackend(clock, { maxCounters: 1_000 }));
  return createRlsService(deciderOf(rules, { ledger }), extrasOf(), observer);
}

beforeEach(async () => {
  onDecision = () => {};
  health = new Health(() => ({ ready: true, reasons: [] }));
  server = await startGrpcServer({
    address: { host: '127.0.0.1', port: 0 },
    service: serviceWith(),
    health,
    clock: Date.now,
    overload: overloadOf(),
  });
  client = new Client(server.target, credentials.createInsecure());
});
afterEach(async () => {
  client.close();
  health.close();
  await server.close(0);
});

const asking = (keys: readonly string[], hits_addend = 1): WireRequest => ({
  domain: 'demo',
  descriptors: keys.map((key) => ({
    entries: [{ key, value: '' }],
    limit: null,
    hits_addend: null,
    is_negative_hits: false,
  })),
  hits_addend,
});

type Reply = { readonly overallCode: number; readonly delayMs: number } | { readonly error: status };

/** The delay of a call, according to its metadata. */
function delayOf({ dynamic_metadata }: WireResponse): number {
  const { weir } = (dynamic_metadata ? fromStruct(dynamic_metadata) : {}) as { weir?: { delay_ms?: number } }; // written by codec.ts
  return weir?.delay_ms ?? 0;
}

function call(keys: readonly string[], done: (reply: Reply) => void, hits = 1, options: CallOptions = {}) {
  const { path, requestSerialize, responseDeserialize } = shouldRateLimit;
  const answered = (error: ServiceError | null, response?: WireResponse): void => {
    if (response) done({ overallCode: response.overall_code, delayMs: delayOf(response) });
    else done({ error: error?.code ?? status.UNKNOWN });
  };
  return client.makeUnaryRequest(path, requestSerialize, responseDeserialize, asking(keys, hits), options, answered);
}

const ask = (key: string | readonly string[], { hits = 1, ...options }: CallOptions & { hits?: number } = {}) =>
  new Promise<Reply>((resolve) => call([key].flat(), resolve, hits, options));

/** Resolves when this number of further calls has been decided. */
function decided(calls: number): Promise<void> {
  const all = gate();
  let left = calls;
  onDecision = () => --left === 0 && all.open();
  return all.passed;
}

const passed = (delayMs: number): Reply => ({ overallCode: OK, delayMs });

describe('a delayed call', () => {
  test.each([
    ['fast', [0, 20, 40, 60, 80, 100]],
    ['bucket', [0, 0, 20, 40, 60, 80]],
  ])('is answered in the order of arrival: %s', async (key, delays) => {
    const order: number[] = [];
    const replies = delays.map(async (_, at) => {
      const reply = await ask(key);
      order.push(at);
      return reply;
    });
    expect(await Promise.all(replies)).toEqual(delays.map(passed));
    expect(order).toEqual([...delays.keys()]);
  });

  test('is not answered before its turn', async () => {
    await ask('slow');
    const startedMs = performance.now();
    expect(await ask('slow')).toEqual(passed(500));
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(498); // timers count whole milliseconds
  });

  test("is refused if its caller's deadline is earlier, and takes no turn in the queue", async () => {
    await ask('rare');
    expect(await ask('rare', { deadline: Date.now() + 60_000 })).toEqual({ overallCode: OVER_LIMIT, delayMs: 0 });
    const next = new Promise<Answer | undefined>((resolve) => {
      onDecision = resolve;
    });
    const held = call(['rare'], () => {}, 1, { deadline: Date.now() + 2 * HOUR_MS });
    expect((await next)?.delayMs).toBe(HOUR_MS); // the next turn, not the one after
    held.cancel();
  });

  test('is answered by the end of the deadline if the decision took most of its time', async () => {
    const service = serviceWith();
    await service.shouldRateLimit(asking(['rare']), callerWith(), () => {});
    const late = { ...callerWith(2 * HOUR_MS), startedMs: performance.now() - 2 * HOUR_MS + 10 };
    const outcome = await new Promise<CallOutcome>((resolve) => {
      void service.shouldRateLimit(asking(['rare']), late, resolve);
    });
    expect(outcome).toMatchObject({ response: { overall_code: OK } }); // an hour before its turn
  });

  test('is refused if the queue is full', async () => {
    const replies = await Promise.all(Array.from({ length: 10 }, () => ask('short')));
    expect(replies).toEqual([
      ...[0, 100, 200, 300, 400, 500].map(passed),
      ...Array(4).fill({ overallCode: OVER_LIMIT, delayMs: 0 }),
    ]);
  });
});

describe('a closing server', () => {
  test('answers delayed calls, each in turn', async () => {
    const order: number[] = [];
    const allDecided = decided(4);
    const replies = [0, 1, 2, 3].map(async (at) => {
      const reply = await ask('fast');
      order.push(at);
      return reply;
    });
    await allDecided;
    await server.close(60_000);
    expect(await Promise.all(replies)).toEqual([0, 20, 40, 60].map(passed));
    expect(order).toEqual([0, 1, 2, 3]);
  });
});

test('a caller that cancels a delayed call does not delay those behind it', async () => {
  await ask('steady');
  const allDecided = decided(2);
  let second: Promise<Reply> | undefined;
  const gone = await new Promise<Reply>((resolve) => {
    const first: ClientUnaryCall = call(['steady'], resolve);
    allDecided.then(() => first.cancel());
    second = ask('steady');
  });
  expect(gone).toEqual({ error: status.CANCELLED });
  expect(await Promise.all([second, ask('steady')])).toEqual([passed(2 * TURN_MS), passed(3 * TURN_MS)]);
});

// The order of calls is up to the client, which may send an earlier call after a later one.
test('1,000 concurrently delayed calls on one connection are all answered, each in turn', async () => {
  const CALLS = 1_000;
  const FIRST_MS = 2_000;
  await ask('crowd', { hits: 10_000 }); // fills the bucket
  const before = ask('crowd', { hits: (FIRST_MS / 1_000) * 5_000 }); // so that all arrive before the first one's turn
  const replies = await Promise.all(Array.from({ length: CALLS }, () => ask('crowd')));
  expect(await before).toEqual(passed(FIRST_MS));
  const delaysMs = replies
    .map((reply) => ('error' in reply ? reply.error : reply.delayMs))
    .sort((one, other) => one - other);
  expect(delaysMs).toEqual(Array.from({ length: CALLS }, (_, at) => FIRST_MS + Math.ceil((at + 1) / 5)));
});

describe('a caller that cancels a delayed call', () => {
  /** A caller that can go away, even repeatedly. */
  function caller() {
    const listeners: (() => void)[] = [];
    const onGone = (listener: () => void): void => void listeners.push(listener);
    return { caller: { ...callerWith(), onGone }, listeners };
  }

  /** A call that is delayed by half a second, of a service that has answered one before. */
  async function holdOne(service: RlsService) {
    const outcomes: CallOutcome[] = [];
    const { caller: one, listeners } = caller();
    await service.shouldRateLimit(asking(['slow']), callerWith(), () => {});
    await service.shouldRateLimit(asking(['slow']), one, (outcome) => outcomes.push(outcome));
    const go = (): void => {
      for (const listener of listeners) listener();
    };
    return { outcomes, go };
  }

  const gone: CallOutcome = { error: { code: status.CANCELLED, details: 'the caller cancelled' } };

  test('is answered with CANCELLED at once, so that its call is no longer in flight', async () => {
    const overload = overloadOf();
    const { outcomes, go } = await holdOne(overload.counting(serviceWith()));
    expect(outcomes).toEqual([]);
    expect(overload.inFlight()).toBe(1);
    go();
    expect(outcomes).toEqual([gone]);
    expect(overload.inFlight()).toBe(0);
  });

  test('is answered once, whenever it cancels', async () => {
    const first = await holdOne(serviceWith());
    first.go();
    first.go();
    const second = await holdOne(serviceWith());
    await sleep(600); // after the turns of both
    second.go();
    expect(first.outcomes).toEqual([gone]);
    expect(second.outcomes).toEqual([{ response: expect.objectContaining({ overall_code: OK }) }]);
  });

  test('leaves no timer behind', async () => {
    const clearing = jest.spyOn(globalThis, 'clearTimeout');
    const setting = jest.spyOn(globalThis, 'setTimeout');
    const { go } = await holdOne(serviceWith());
    const [timer] = setting.mock.results.map(({ value }) => value);
    go();
    expect(clearing).toHaveBeenCalledWith(timer);
    jest.restoreAllMocks();
  });
});

test('a delayed call keeps its response alive, but not its request', async () => {
  const service = serviceWith();
  const hold = async (): Promise<WeakRef<WireRequest>> => {
    const request = asking(['slow']);
    await service.shouldRateLimit(request, { ...callerWith(), onGone: () => {} }, () => {});
    return new WeakRef(request);
  };
  await hold();
  const held = await hold();
  await new Promise(setImmediate); // a WeakRef keeps its target until the end of the turn
  heapBytes(); // collects garbage
  expect(held.deref()).toBeUndefined();
});
