import '../helpers/realm.ts';
import fc from 'fast-check';
import type { ExplainAnswer } from '../../src/admin/explain.ts';
import { explain } from '../../src/admin/explain.ts';
import type { Backend } from '../../src/backends/backend.ts';
import { failedSnapshot, forkFrom } from '../../src/backends/fork.ts';
import { createCounterKeys, ownCounters } from '../../src/backends/key.ts';
import { MemcachedBackend } from '../../src/backends/memcached/backend.ts';
import { openServers } from '../../src/backends/memcached/servers.ts';
import { createMemoryBackend } from '../../src/backends/memory/backend.ts';
import { RedisBackend } from '../../src/backends/redis/backend.ts';
import { type Decider, decide } from '../../src/decide.ts';
import type { Ledger, LedgerOptions } from '../../src/ledger/ledger.ts';
import { decodeRequest, encodeAnswer } from '../../src/rls/codec.ts';
import { responseToJson } from '../../src/rls/json.ts';
import { toStatus } from '../../src/rls/service.ts';
import type { WireRequest } from '../../src/rls/wire.ts';
import type { RuleTree } from '../../src/rules/tree.ts';
import { type FakeClock, fakeClock } from '../helpers/clock.ts';
import { openReady } from '../helpers/connection.ts';
import { anyRequest, anyRules } from '../helpers/explained.ts';
import { extrasOf } from '../helpers/extras.ts';
import { ledgerOf } from '../helpers/ledger.ts';
import { type Memcached, startMemcached } from '../helpers/memcached.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { rulesFrom } from '../helpers/rules.ts';

/** Rule sets with a few requests each; `EXPLAIN_RUNS` makes a longer search. */
const RUNS = Number(process.env.EXPLAIN_RUNS ?? 1_500);
const RUNS_OVER_NETWORK = Math.ceil(RUNS / 15);
const SEED = 19;

const extras = extrasOf(
  { limits: { limit: 'l', remaining: 'r', reset: 's' }, retryAfter: ['retry-after'] },
  { ofRequest: true },
);

type ExplainingDecider = Decider & { readonly ledger: Ledger };

const deciderOn = (rules: RuleTree, ledger: Ledger, prefix = ''): ExplainingDecider => ({
  rules: () => rules,
  ledger,
  counters: ownCounters(createCounterKeys(prefix)),
  clock: fakeClock(),
  storeTimeoutMs: 5_000,
  shadowMode: false,
  quotaMode: false,
  spend: 'each',
});

/** What the service answers, without holding it. */
async function answerOf(
  wire: WireRequest,
  decider: Decider,
): Promise<{ readonly answer?: object; readonly error?: string }> {
  try {
    const answer = await decide(decodeRequest(wire), decider, Number.POSITIVE_INFINITY);
    return { answer: responseToJson(encodeAnswer(answer, extras.headers(answer), extras.metadata(wire, answer))) };
  } catch (cause) {
    return { error: toStatus(cause).details };
  }
}

const told = ({ answer, error }: ExplainAnswer) => (answer ? { answer } : { error });

interface Step {
  readonly request: WireRequest;
  readonly advanceMs: number;
  readonly isAway: boolean;
}

const anySteps = fc.array(
  fc.record({
    request: anyRequest,
    advanceMs: fc.constantFrom(0, 0, 1, 400, 1_000, 61_000),
    isAway: fc.integer({ min: 0, max: 5 }).map((drawn) => drawn === 0),
  }),
  { minLength: 1, maxLength: 8 },
);

/** Explains each request, then sends it, and compares. */
async function compare(
  steps: readonly Step[],
  decider: ExplainingDecider,
  move: (step: Step) => void,
): Promise<readonly object[]> {
  const answers: object[] = [];
  for (const step of steps) {
    move(step);
    const explained = told(await explain(step.request, { decider, extras, source: 'test' }));
    const answered = await answerOf(step.request, decider);
    expect(explained).toEqual(answered);
    answers.push(answered);
  }
  return answers;
}

/** Counters in memory that can be out of reach. */
function parted(clock: FakeClock): { readonly backend: Backend; isAway: boolean } {
  const memory = createMemoryBackend(clock, { maxCounters: 10_000 });
  const unavailable = { code: 'UNAVAILABLE', reason: 'away' } as const;
  const world: { isAway: boolean; readonly backend: Backend } = {
    isAway: false,
    backend: {
      ...memory,
      run: (operations, how) => (world.isAway ? operations.map(() => unavailable) : memory.run(operations, how)),
      fork(counters) {
        if (!world.isAway) return memory.fork(counters);
        const keys = counters.map(({ key }) => key);
        return forkFrom(new Map([[0, failedSnapshot(clock(), keys, 'away')]]), { original: memory, partOf: () => 0 });
      },
    },
  };
  return world;
}

const remembering = (clock: FakeClock): Partial<LedgerOptions> => ({
  clock,
  monotonicMs: () => clock(),
  denyCacheBytes: 1_000_000,
  leases: { maxLeases: 100, idleMs: 250 },
  local: { maxCounters: 1_000, maxBytes: 1_000_000, timeoutMs: 100 },
});

test('says what the next call is answered with, on counters in memory, with leases, remembered refusals and failure policies', async () => {
  await fc.assert(
    fc.asyncProperty(anyRules, anySteps, async (rules, steps) => {
      const run = async (isExplained: boolean): Promise<readonly object[]> => {
        const clock = fakeClock();
        const world = parted(clock);
        const decider = deciderOn(rules, ledgerOf(world.backend, remembering(clock)));
        const move = ({ advanceMs, isAway }: Step): void => {
          clock.advance(advanceMs);
          world.isAway = isAway;
        };
        if (isExplained) return compare(steps, decider, move);
        const answers: object[] = [];
        for (const step of steps) {
          move(step);
          answers.push(await answerOf(step.request, decider));
        }
        return answers;
      };
      expect(await run(true)).toEqual(await run(false)); // so explaining has charged nothing
    }),
    { seed: SEED, numRuns: RUNS },
  );
});

describe('over the network', () => {
  let redis: Redis;
  let memcached: Memcached;
  const clock = fakeClock();
  beforeAll(async () => {
    [redis, memcached] = await Promise.all([startRedis(), startMemcached()]);
  });
  afterAll(() => Promise.all([redis.stop(), memcached.stop()]));

  const backends = {
    Redis: async () => new RedisBackend(await openReady(redis), clock, { replay: true }),
    memcached: async () => {
      const servers = await openServers({
        servers: [memcached.address],
        onDown: () => {},
        onUp: () => {},
        tls: undefined,
        monotonicMs: () => performance.now(),
      });
      return new MemcachedBackend(servers, { clock, dateClock: Date.now, monotonicMs: () => performance.now() });
    },
  };

  test.each(Object.keys(backends) as (keyof typeof backends)[])(
    'says what the next call is answered with, on counters in %s',
    async (name) => {
      const backend = await backends[name]();
      let run = 0;
      await fc.assert(
        fc.asyncProperty(anyRules, anySteps, async (rules, steps) => {
          clock.set(fakeClock()());
          const ledger = ledgerOf(backend, { clock, monotonicMs: () => clock(), denyCacheBytes: 1_000_000 });
          await compare(steps, deciderOn(rules, ledger, `run ${run++} `), ({ advanceMs }) => clock.advance(advanceMs));
        }),
        { seed: SEED, numRuns: RUNS_OVER_NETWORK },
      );
      await backend.close();
    },
  );
});

const rules = rulesFrom(`
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 2, name: per-user }
  - key: path
    value: /login*
    descriptors:
      - key: remote_address
        rate_limits:
          - { unit: minute, requests_per_unit: 10, algorithm: sliding_window_counter }
          - { unit: hour, requests_per_unit: 20, algorithm: token_bucket, burst: 4 }
  - key: plan
    value: gold
    rate_limit: { unlimited: true, replaces: [{ name: per-user }] }
`);

const requestOf = (...descriptors: readonly (readonly string[])[]): WireRequest => ({
  domain: 'demo',
  descriptors: descriptors.map((texts) => ({
    entries: texts.map((text) => ({ key: text.split('=')[0] ?? '', value: text.split('=')[1] ?? '' })),
    limit: null,
    hits_addend: null,
    is_negative_hits: false,
  })),
  hits_addend: 0,
});

const explainingHere = () => {
  const clock = fakeClock();
  const decider = deciderOn(rules, ledgerOf(createMemoryBackend(clock, { maxCounters: 100 })));
  return { clock, decider, explain: (request: WireRequest) => explain(request, { decider, extras, source: 'test' }) };
};

test('names rule, place, counter and arithmetic of each limit', async () => {
  const { clock, decider, explain: explainHere } = explainingHere();
  const request = requestOf(['path=/login', 'remote_address=10.0.0.1']);
  for (let hits = 0; hits < 3; hits++) await answerOf(request, decider);
  clock.advance(40_000 + 39_000); // into the next minute
  const { descriptors, decision } = await explainHere(request);
  expect(descriptors[0]?.limits).toMatchObject([
    {
      rule: 'demo.path_/login*.remote_address',
      file: 'rules.yaml',
      line: 9,
      limit: '10 per minute by sliding_window_counter',
      counter: expect.stringContaining('remote_address'),
      before: { used: 1 },
      arithmetic: '3 × 0.35 + 0 + 1 = 2.05 ≤ 10',
    },
    { algorithm: 'token_bucket', before: { used: 3, remaining: 1 }, arithmetic: '2.56 + 1 = 3.56 ≤ 4' },
  ]);
  expect(decision).toMatchObject({ code: 'OK', why: 'every limit has room', decidedBy: [], passesInMs: 0 });
});

test('says which limit refuses, and when the request would pass', async () => {
  const { decider, explain: explainHere } = explainingHere();
  const request = requestOf(['user=alice'], ['user=bob']);
  for (let hits = 0; hits < 2; hits++) await answerOf(requestOf(['user=alice']), decider);
  const { status, decision } = await explainHere(request);
  expect(status).toBe(429);
  expect(decision).toMatchObject({
    decidedBy: [{ descriptor: 0, rule: 'demo.user' }],
    why: 'a limit is exceeded',
    passesInMs: 40_000,
    spend: 'each',
  });
});

test('says what replaces a limit', async () => {
  const { explain: explainHere } = explainingHere();
  const { descriptors } = await explainHere(requestOf(['user=alice'], ['plan=gold']));
  expect(descriptors).toMatchObject([
    { outcome: 'replaced', limits: [{ name: 'per-user', replacedBy: ['demo.plan_gold'] }] },
    { outcome: 'unlimited', rule: 'demo.plan_gold' },
  ]);
});

test('explains a request that is not valid', async () => {
  const { explain: explainHere } = explainingHere();
  const request = requestOf(['user=alice']);
  const withLimit = { ...request.descriptors[0], limit: { requests_per_unit: 1, unit: 9, unit_multiplier: null } };
  const explained = await explainHere({ ...request, descriptors: [withLimit as WireRequest['descriptors'][number]] });
  expect(explained).toMatchObject({
    status: 400,
    error: 'descriptors[0].limit.unit must be a unit from SECOND (1) to WEEK (7), got 9',
    descriptors: [{ outcome: 'invalid_limit', stopped: { reason: 'invalid_limit' } }],
  });
  expect(await explainHere({ ...request, domain: '' })).toMatchObject({
    status: 400,
    error: 'rate limit domain must not be empty',
  });
});
