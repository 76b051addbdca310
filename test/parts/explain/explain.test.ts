import '../../helpers/realm.ts';
import { createResponse, toStatus } from '../../../src/edge/rls/service.ts';
import { decodeRequest, encodeAnswer } from '../../../src/edge/wire/codec.ts';
import { responseToJson } from '../../../src/edge/wire/json.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { NEVER_MS, unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { failedSnapshot, forkFrom } from '../../../src/engine/backends/fork.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Decider, decide } from '../../../src/engine/decide/decide.ts';
import { Overrides } from '../../../src/engine/decide/overrides.ts';
import { createEstimates } from '../../../src/engine/ledger/estimates.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { passesInMs } from '../../../src/operate/admin/shown.ts';
import { explain } from '../../../src/parts/explain/explain.ts';
import { renderExplanation } from '../../../src/parts/explain/render.ts';
import type { Explanation } from '../../../src/parts/lab/answers/explain.ts';
import { paintFor } from '../../../src/parts/lab/commands/paint.ts';
import { leasesWithin } from '../../../src/parts/leases/leases.ts';
import { MemcachedBackend } from '../../../src/parts/memcached/backend.ts';
import { openServers } from '../../../src/parts/memcached/servers.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import type { RedisConnection } from '../../../src/parts/redis/connect.ts';
import { type FakeClock, fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { anyLikelyRequest, anyRequest, anyRules, anyRulesWithoutShares } from '../../helpers/explained.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { anyEffect, anyFeaturedRequest, anyFeaturedText, overrideOf, treeOf } from '../../helpers/featured.ts';
import { onStillClock } from '../../helpers/lasting-counters.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { type Memcached, startMemcached } from '../../helpers/memcached.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';

type LedgerOptions = ConstructorParameters<typeof Ledger>[1];

/** Rule sets with a few requests each; `EXPLAIN_RUNS` makes a longer search. */
const RUNS = Number(process.env.EXPLAIN_RUNS ?? 500);
/**
 * Fewer by default: memcached expires counters in real time, while the test's clock stands still. A case whose counters
 * expire within milliseconds may fail without a defect.
 */
const RUNS_OVER_NETWORK = process.env.EXPLAIN_RUNS === undefined ? 100 : Math.ceil(RUNS / 4);
/** Long, since the machine may be busy. */
const TIMEOUT_MS = 300_000 + RUNS * 20;

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
  storeBudget: () => 5_000,
  shadowMode: false,
  quotaMode: false,
  spend: 'each',
});

/** The service's answer, without its delay. */
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

const told = ({ answer, error }: Explanation) => (answer ? { answer } : { error });

interface Step {
  readonly request: WireRequest;
  readonly advanceMs: number;
  readonly isAway: boolean;
}

const anySteps = fc.array(
  fc.record({
    request: fc.oneof({ weight: 4, arbitrary: anyLikelyRequest }, { weight: 1, arbitrary: anyRequest }),
    advanceMs: fc.constantFrom(0, 0, 1, 400, 1_000, 61_000),
    isAway: fc.integer({ min: 0, max: 5 }).map((drawn) => drawn === 0),
  }),
  { minLength: 1, maxLength: 8 },
);

/** Explains each request, sends it, and compares the answers. */
async function compare(
  steps: readonly Step[],
  decider: ExplainingDecider,
  move: (step: Step) => void,
): Promise<readonly object[]> {
  const answers: object[] = [];
  for (const step of steps) {
    move(step);
    const explained = told(await explain(step.request, { decider, extras }));
    const answered = await answerOf(step.request, decider);
    expect(explained).toEqual(answered);
    answers.push(answered);
  }
  return answers;
}

/** Counters in memory that can become unreachable. */
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

/** Returns a function that makes a connection report that it is lost and refuse commands. */
function awayOf(connection: RedisConnection): (isAway: boolean) => void {
  const ready = connection.status;
  return (isAway) => {
    connection.status = isAway ? 'reconnecting' : ready;
  };
}

const remembering = (clock: FakeClock): Partial<LedgerOptions> => ({
  clock,
  monotonicMs: () => clock(),
  denyCacheBytes: 1_000_000,
  leases: leasesWithin({ maxLeases: 100, idleMs: 250 }),
  local: { maxCounters: 1_000, maxBytes: 1_000_000, instances: () => 1 },
});

test(
  'explain predicts the next answer, on counters in memory, with leases, cached refusals and failure policies',
  async () => {
    let [requests, limited] = [0, 0];
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
        const answers = await run(true);
        expect(answers).toEqual(await run(false)); // explaining has charged nothing
        requests += answers.length;
        limited += answers.filter((answer) => JSON.stringify(answer).includes('"currentLimit"')).length;
      }),
      { numRuns: RUNS },
    );
    expect(limited / requests).toBeGreaterThan(0.15); // enough requests are limited
  },
  TIMEOUT_MS,
);

const anyFeaturedSteps = fc.array(
  fc.record({
    request: anyFeaturedRequest,
    advanceMs: fc.constantFrom(0, 0, 1, 400, 1_000, 31_000, 61_000),
    override: fc.oneof({ weight: 12, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: anyEffect }),
  }),
  { minLength: 1, maxLength: 12 },
);

test(
  'explain predicts the next answer, its codes and its wait, of rules with several features and under overrides',
  async () => {
    await fc.assert(
      fc.asyncProperty(anyFeaturedText, anyFeaturedSteps, fc.boolean(), async (text, steps, remembers) => {
        const clock = fakeClock();
        const overrides = new Overrides(clock, (unit) => unitMs[unit]);
        const memory = createMemoryBackend(clock, { maxCounters: 10_000 });
        const ledger = ledgerOf(memory, remembers ? remembering(clock) : { clock });
        const decider = { ...deciderOn(treeOf(text), ledger), clock, overrides, estimates: createEstimates() };
        for (const { request, advanceMs, override } of steps) {
          clock.advance(advanceMs);
          if (override) overrides.replace([overrideOf(override, clock() + 50_000)]);
          const explained = await explain(request, { decider, extras });
          renderExplanation(explained, paintFor(false, undefined));
          const answer = await decide(decodeRequest(request), decider, Number.POSITIVE_INFINITY);
          expect(explained.answer).toEqual(responseToJson(createResponse(request, answer, extras)));
          expect(explained.decision?.passesInMs).toBe(passesInMs(answer.retryAfterMs));
          const isRefused = answer.overallCode === 'OVER_LIMIT';
          expect((explained.decision?.decidedBy.length ?? 0) > 0).toBe(isRefused);
          const over = explained.descriptors.map(({ limits }) =>
            limits.some(({ code, shadow }) => code === 'OVER_LIMIT' && !shadow),
          );
          if (!answer.unmet)
            expect(over).toEqual(answer.verdicts.map((one) => one.kind === 'limited' && one.code === 'OVER_LIMIT'));
          // others are estimates, or end with what other limits apply
          const { retryAfterMs } = answer;
          const isExact = !remembers && overrides.size === 0 && !/in_flight|reserve|share|leased|active/.test(text);
          if (!isExact || !isRefused || retryAfterMs === undefined || retryAfterMs === NEVER_MS) continue;
          const nowMs = clock();
          const codes: (string | undefined)[] = [];
          for (const atMs of [nowMs + retryAfterMs - 1, nowMs + retryAfterMs]) {
            clock.set(atMs);
            codes.push((await explain(request, { decider, extras })).decision?.code);
          }
          clock.set(nowMs);
          expect(codes).toEqual(['OVER_LIMIT', 'OK']);
        }
      }),
      { numRuns: Math.ceil(RUNS / 3) },
    );
  },
  TIMEOUT_MS,
);

describe('over the network', () => {
  let redis: Redis;
  let memcached: Memcached;
  const clock = fakeClock();
  beforeAll(async () => {
    [redis, memcached] = await Promise.all([startRedis(), startMemcached()]);
  });
  afterAll(() => Promise.all([redis.stop(), memcached.stop()]));

  const backends = {
    Redis: async () => {
      const connection = await openReady(redis);
      const backend = new RedisBackend(connection, clock, onStillClock);
      return { backend, setAway: awayOf(connection), rules: anyRules };
    },
    memcached: async () => {
      const servers = await openServers({
        servers: [memcached.address],
        onDown: () => {},
        onUp: () => {},
        tls: undefined,
        monotonicMs: () => performance.now(),
      });
      await until('memcached is connected', () => servers.health().ready);
      const clocks = { clock, dateClock: Date.now, monotonicMs: () => performance.now() };
      return { backend: new MemcachedBackend(servers, clocks), setAway: () => {}, rules: anyRulesWithoutShares }; // always reachable
    },
  };

  test.each(Object.keys(backends) as (keyof typeof backends)[])(
    'predicts the next answer, on counters in %s',
    async (name) => {
      const { backend, setAway, rules: trees } = await backends[name]();
      const { local } = remembering(clock);
      let run = 0;
      await fc.assert(
        fc.asyncProperty(trees, anySteps, async (rules, steps) => {
          const once = async (): Promise<void> => {
            clock.set(fakeClock()());
            const ledger = ledgerOf(backend, { clock, monotonicMs: () => clock(), denyCacheBytes: 1_000_000, local });
            await compare(steps, deciderOn(rules, ledger, `run ${run++} `), ({ advanceMs, isAway }) => {
              clock.advance(advanceMs);
              setAway(isAway);
            });
          };
          // memcached expires counters by its own clock: one of a few milliseconds may expire in between
          await once().catch(once).catch(once);
        }),
        { numRuns: RUNS_OVER_NETWORK },
      );
      setAway(false);
      await backend.close();
    },
    TIMEOUT_MS,
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
  return { clock, decider, explain: (request: WireRequest) => explain(request, { decider, extras }) };
};

test('explain names the rule, position, counter and arithmetic of each limit', async () => {
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
    { algorithm: 'token_bucket', before: { used: 3, remaining: 1 }, arithmetic: '2.56 + 1 = 3.56 ≤ burst of 4' },
  ]);
  expect(decision).toMatchObject({ code: 'OK', why: 'every limit has room', decidedBy: [], passesInMs: 0 });
});

test('explain names the limit that refuses, and when the request would pass', async () => {
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

test('explain shows the sum of each of two descriptors that spend on the same counter', async () => {
  const { explain: explainHere } = explainingHere();
  const { descriptors } = await explainHere(requestOf(['user=alice'], ['user=alice'], ['user=alice']));
  expect(descriptors.map(({ limits }) => limits[0]?.arithmetic)).toEqual([
    '0 + 1 = 1 ≤ 2',
    '1 + 1 = 2 ≤ 2, after the descriptors above',
    '2 + 1 = 3 > 2, after the descriptors above',
  ]);
  const states = descriptors.map(({ limits }) => [limits[0]?.before?.used, limits[0]?.after?.used]);
  expect(states).toEqual([
    [0, 3], // of the whole request
    [undefined, undefined],
    [undefined, undefined],
  ]);
});

test('explain names the rule that replaces a limit', async () => {
  const { explain: explainHere } = explainingHere();
  const { descriptors } = await explainHere(requestOf(['user=alice'], ['plan=gold']));
  expect(descriptors).toMatchObject([
    { outcome: 'replaced', limits: [{ name: 'per-user', replacedBy: ['demo.plan_gold'] }] },
    { outcome: 'unlimited', rule: 'demo.plan_gold' },
  ]);
});

test('explain reports why a request is invalid', async () => {
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

describe('of a store that answers later than a call waits', () => {
  const STORE_TIMEOUT_MS = 15;
  const denied = rulesFrom(
    'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 2, on_store_failure: deny}}]',
  );

  /** @param reads  the number of reads that time out */
  const explainedAfter = (reads: number) => {
    const clock = fakeClock();
    const memory = createMemoryBackend(clock, { maxCounters: 100 });
    let left = reads;
    const slow: Backend = {
      ...memory,
      fork(counters, timeoutMs) {
        if (timeoutMs > STORE_TIMEOUT_MS || left-- <= 0) return memory.fork(counters);
        const keys = counters.map(({ key }) => key);
        return forkFrom(new Map([[0, failedSnapshot(clock(), keys, 'late')]]), { original: memory, partOf: () => 0 });
      },
    };
    const decider = { ...deciderOn(denied, ledgerOf(slow, remembering(clock))), storeBudget: () => STORE_TIMEOUT_MS };
    return explain(requestOf(['user=alice']), { decider, extras });
  };

  test('explain has the state of a store that was slow for a moment', async () => {
    const { status, descriptors } = await explainedAfter(1);
    expect(status).toBe(200);
    expect(descriptors[0]?.limits).toMatchObject([{ source: 'backend', before: { used: 0 }, after: { used: 1 } }]);
  });

  test('explain has the answer of the failure policy if the store is always slow', async () => {
    const explained = await explainedAfter(Number.POSITIVE_INFINITY);
    expect(explained).toMatchObject({
      status: 429,
      descriptors: [{ limits: [{ source: 'deny', failure: 'late' }] }],
      decision: { why: 'the counters cannot be reached, and on_store_failure is deny' },
    });
    const printed = renderExplanation(explained, paintFor(false, undefined));
    expect(printed).toContain('late');
    expect(printed).not.toContain('used');
  });
});

test('explain says when other limits apply by a schedule, unless an override takes their place', async () => {
  const clock = fakeClock(Date.parse('2026-12-24T12:00Z'));
  const rules = rulesFrom(
    'domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 2, active: { until: 2026-12-25T00:00 } } }]',
  );
  const overrides = new Overrides(clock, (unit) => unitMs[unit]);
  const memory = createMemoryBackend(clock, { maxCounters: 10 });
  const decider = { ...deciderOn(rules, ledgerOf(memory, { clock })), clock, overrides };
  const request = { ...requestOf(['a=x']), domain: 'd' };
  const changesAt = async () => (await explain(request, { decider, extras })).descriptors[0]?.changesAt;
  expect(await changesAt()).toBe('2026-12-25T00:00:00.000Z');
  overrides.replace([overrideOf({ kind: 'exempt' }, clock() + 1_000)]);
  expect(await changesAt()).toBeUndefined();
  expect((await explain(request, { decider, extras })).decision?.why).toBe('an override exempts it');
  overrides.replace([overrideOf({ kind: 'limit', requestsPerUnit: 5, unit: 'DAY' }, clock() + 1_000)]);
  expect(await changesAt()).toBeUndefined();
});
