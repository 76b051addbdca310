import '../../helpers/realm.ts';
import fc from 'fast-check';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { spends, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { Overrides, type StandingOverride } from '../../../src/engine/decide/overrides.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { anyRequest, anyRules } from '../../helpers/explained.ts';
import { anyFeaturedRequest, anyFeaturedText, treeOf } from '../../helpers/featured.ts';
import { onStillClock } from '../../helpers/lasting-counters.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { plainAnswer, requestOf, serviceWith, tryCandidate } from '../../helpers/trial.ts';
import { until } from '../../helpers/until.ts';

/** Requests that are answered twice in all; `CANDIDATE_REQUESTS=1000000` for the long form. */
const REQUESTS = Number(process.env.CANDIDATE_REQUESTS ?? 20_000);
const REQUESTS_PER_RUN = 200;
const SEED = 46;
const MAX_COUNTERS = 50; // few, so that some are evicted

const anyModes = fc.record({
  shadowMode: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
  quotaMode: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
  spend: fc.constantFrom(...spends),
});

const anyStepOf = (request: fc.Arbitrary<WireRequest>) =>
  fc.record({
    request,
    advanceMs: fc.constantFrom(0, 0, 0, 1, 7, 400, 1_000, 61_000, -1, -900),
    timeoutMs: fc.constantFrom(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 20.5, 1_000),
    /** The candidate decides what waits now. */
    isFlushed: fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0),
    override: fc.oneof(
      { weight: 40, arbitrary: fc.constant(undefined) },
      {
        weight: 1,
        arbitrary: fc.constantFrom<StandingOverride['effect']>(
          { kind: 'block' },
          { kind: 'exempt' },
          { kind: 'limit', requestsPerUnit: 2, unit: 'SECOND' },
        ),
      },
    ),
  });

const anyStep = anyStepOf(anyRequest);

const anyRunOf = (rules: fc.Arbitrary<RuleTree>, step: typeof anyStep) =>
  fc.record({
    live: rules,
    candidate: rules,
    modes: anyModes,
    steps: fc.array(step, { minLength: REQUESTS_PER_RUN, maxLength: REQUESTS_PER_RUN }),
  });

test.each([
  ['any rules', REQUESTS, anyRunOf(anyRules, anyStep)],
  ['rules with several features', REQUESTS / 4, anyRunOf(anyFeaturedText.map(treeOf), anyStepOf(anyFeaturedRequest))],
] as const)(
  `a candidate answers as a service does that has its rules: %s, in %i requests`,
  async (_, requests, anyRun) => {
    let all = 0;
    await fc.assert(
      fc.asyncProperty(anyRun, async ({ live, candidate, modes, steps }) => {
        const time = fakeClock();
        const overrides = new Overrides(time, (unit) => unitMs[unit]);
        const { tried, ask, flush } = tryCandidate({
          time,
          live,
          candidate,
          modes,
          overrides,
          maxCounters: MAX_COUNTERS,
        });
        const backend = createMemoryBackend(time, { maxCounters: MAX_COUNTERS });
        const other = serviceWith(candidate, { modes, overrides, backend, clock: time });
        for (const { request, advanceMs, timeoutMs, isFlushed, override } of steps) {
          time.advance(advanceMs);
          if (isFlushed || override) flush();
          if (override) overrides.replace([{ ...alice, effect: override }]);
          await ask(request, timeoutMs);
          if (request.domain === 'd') await other.ask(request, timeoutMs);
        }
        flush();
        expect(tried.map((one) => plainAnswer(one.candidate))).toEqual(other.answers.map(plainAnswer));
        all += tried.length;
      }),
      { seed: SEED, numRuns: Math.ceil(requests / REQUESTS_PER_RUN), endOnFailure: true },
    );
    expect(all).toBeGreaterThan(requests / 4);
  },
);

const alice: Omit<StandingOverride, 'effect'> = {
  ...{ domain: 'd', entries: [{ key: 'a', value: 'x' }], untilMs: 1e15, by: 'anna', reason: 'a test' },
};

const holds = (slots: number, tokens: number): string => `
domain: demo
descriptors:
  - key: tenant
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: ${slots}, ttl: 2s } }
  - key: model
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { unit: minute, requests_per_unit: ${tokens}, reserve: { ttl: 2s } }
        descriptors:
          - { key: used, not_counted: commit }
  - key: plain
    rate_limit: { algorithm: in_flight, requests_per_unit: ${slots}, ttl: 2s }
`;

/** A few ids, so that the same are taken, given back, committed and repeated. */
const anyHold: fc.Arbitrary<WireRequest> = fc
  .record({
    what: fc.constantFrom('take', 'give back', 'reserve', 'commit', 'plain', 'give back plain'),
    id: fc.integer({ min: 0, max: 7 }),
    hits: fc.integer({ min: 1, max: 30 }),
  })
  .map(({ what, id, hits }) => {
    switch (what) {
      case 'take':
        return requestOf(`tenant=a,id=${id}`);
      case 'give back':
        return requestOf(`tenant=a,id=${id}*-1`);
      case 'reserve':
        return requestOf(`model=m,id=${id}*${hits}`);
      case 'commit':
        return requestOf(`model=m,id=${id},used*${hits}`);
      case 'plain':
        return requestOf('plain');
      default:
        return requestOf('plain*-1');
    }
  });

const anyHoldSteps = fc.array(
  fc.record({ request: anyHold, advanceMs: fc.constantFrom(0, 10, 300, 1_900), isFlushed: fc.boolean() }),
  { minLength: 60, maxLength: 60 },
);

test('a candidate takes, releases, reserves and commits as a service does that has its rules', async () => {
  const [live, candidate] = [rulesFrom(holds(3, 200)), rulesFrom(holds(1, 60))];
  let newlyRefused = 0;
  await fc.assert(
    fc.asyncProperty(anyHoldSteps, fc.constantFrom(...spends), async (steps, spend) => {
      const time = fakeClock();
      const modes = { shadowMode: false, quotaMode: false, spend };
      const { trial, tried, ask, flush } = tryCandidate({ time, live, candidate, modes });
      const other = serviceWith(candidate, {
        ...{ modes, clock: time, backend: createMemoryBackend(time, { maxCounters: 1_000 }) },
      });
      for (const { request, advanceMs, isFlushed } of steps) {
        time.advance(advanceMs);
        if (isFlushed) flush();
        await ask(request);
        await other.ask(request);
      }
      flush();
      expect(tried.map((one) => plainAnswer(one.candidate))).toEqual(other.answers.map(plainAnswer));
      newlyRefused += trial.report(1).totals.newlyRefused;
    }),
    { seed: SEED, numRuns: 50, endOnFailure: true },
  );
  expect(newlyRefused).toBeGreaterThan(0);
});

describe('with counters in Redis', () => {
  let redis: Redis;
  let one: Awaited<ReturnType<typeof openReady>>;
  let another: typeof one;
  beforeAll(async () => {
    redis = await startRedis();
    [one, another] = await Promise.all([openReady(redis), openReady(redis)]);
    for (const connection of [one, another]) connection.setMaxListeners(0); // each run has its own backends on them
  });
  afterAll(async () => {
    for (const connection of [one, another]) connection.disconnect();
    await redis.stop();
  });

  const anyRemoteRun = fc.record({
    live: anyRules,
    candidate: anyRules,
    modes: anyModes,
    steps: fc.array(anyStep, { minLength: 30, maxLength: 30 }),
  });

  test('a candidate answers as a service does that has its rules, on a clock that both are given', async () => {
    let all = 0;
    await fc.assert(
      fc.asyncProperty(anyRemoteRun, async ({ live, candidate, modes, steps }) => {
        await one.call('FLUSHALL');
        const time = fakeClock();
        const open = (clock: () => number) => new RedisBackend(one, clock, onStillClock);
        const { tried, ask, flush } = tryCandidate({ time, live, candidate, modes, open });
        const backend = new RedisBackend(another, time, onStillClock);
        const other = serviceWith(candidate, { modes, backend, clock: time });
        for (const { request, advanceMs, timeoutMs } of steps) {
          time.advance(advanceMs);
          const before = other.answers.length;
          await ask(request, timeoutMs);
          flush(); // a call to Redis has one clock
          if (request.domain === 'd') await other.ask(request, timeoutMs);
          if (other.answers.length > before)
            await until('the candidate answers', () => tried.length === other.answers.length);
        }
        expect(tried.map(({ candidate: said }) => plainAnswer(said))).toEqual(other.answers.map(plainAnswer));
        all += tried.length;
      }),
      { seed: SEED, numRuns: 40, endOnFailure: true },
    );
    expect(all).toBeGreaterThan(300);
  });
});
