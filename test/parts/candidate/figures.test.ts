import '../../helpers/realm.ts';
import { type Spend, spends } from '../../../src/engine/algorithms/limit.ts';
import { CountersUnavailable } from '../../../src/engine/decide/decide.ts';
import { match } from '../../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { areIndependent } from '../../../src/parts/candidate/exact.ts';
import type { TrialReport } from '../../../src/parts/candidate/report.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { numbers } from '../../helpers/numbers.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { noModes, requestOf, tryCandidate } from '../../helpers/trial.ts';

const RUNS = 30;
const REQUESTS = 800;

/** A rule for each kind of limit, all with the same number of requests. */
const rulesOf = (requests: number, spend: Spend = 'each'): RuleTree =>
  rulesFrom(`
domain: demo
spend: ${spend}
descriptors:
  - { key: fixed, rate_limit: { unit: second, unit_multiplier: 2, requests_per_unit: ${requests} } }
  - { key: first, rate_limit: { unit: second, requests_per_unit: ${requests}, alignment: first_hit } }
  - { key: day, rate_limit: { unit: day, requests_per_unit: ${requests * 4} } }
  - { key: log, rate_limit: { unit: second, requests_per_unit: ${requests}, algorithm: sliding_window_log } }
  - { key: counter, rate_limit: { unit: second, requests_per_unit: ${requests}, algorithm: sliding_window_counter } }
  - { key: token, rate_limit: { unit: second, requests_per_unit: ${requests}, algorithm: token_bucket } }
  - { key: leaky, rate_limit: { unit: second, requests_per_unit: ${requests}, algorithm: leaky_bucket } }
  - key: both
    rate_limits:
      - { unit: second, requests_per_unit: ${requests} }
      - { unit: minute, requests_per_unit: ${requests * 5} }
`);

/** Limits that count refused hits: a tighter one never admits what the other refuses. */
const countingKeys = ['fixed', 'first', 'day', 'both'];
const allKeys = [...countingKeys, 'log', 'counter', 'token', 'leaky'];

interface Compared {
  readonly live: RuleTree;
  readonly candidate: RuleTree;
  readonly keys: readonly string[];
  readonly spend?: Spend;
}

/**
 * Starts a trial when the live rules have counted for some time, and returns its figures. There are about 40 requests a
 * second; in spells the process is late, or the candidate is behind.
 */
async function figuresOf(seed: number, { live, candidate, keys, spend = 'each' }: Compared): Promise<TrialReport> {
  const time = fakeClock();
  const random = numbers(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const anyDescriptor = (): string => `${keys[below(keys.length)]}=${below(3)}*${1 + below(2)}`;
  let isLate = false;
  const { trial, ask, flush } = tryCandidate({
    ...{ time, live, modes: { ...noModes, spend } },
    options: { isBehind: () => isLate, maxInFlight: 8 },
  });
  for (let at = 0; at < REQUESTS; at++) {
    if (at === REQUESTS / 8) trial.follow(candidate, 'candidate');
    time.advance(below(50));
    if (below(40) === 0) isLate = below(4) === 0;
    await ask(requestOf(...Array.from({ length: 1 + below(2) }, anyDescriptor)));
    if (below(4) > 0) flush();
  }
  flush();
  return trial.report(1);
}

const seeds = Array.from({ length: RUNS }, (_, at) => at);

test.each(spends)('unchanged rules change no answer, even if requests are not tried, with spend: %s', async (spend) => {
  let compared = 0;
  for (const seed of seeds) {
    const rules = rulesOf(4, spend);
    const report = await figuresOf(seed, { live: rules, candidate: rules, keys: allKeys, spend });
    for (const { newlyRefused, newlyPassed, ...figures } of [report.totals, ...report.rules])
      expect({ seed, newlyRefused, newlyPassed, figures }).toMatchObject({ newlyRefused: 0, newlyPassed: 0 });
    compared += report.totals.requests;
  }
  expect(compared).toBeGreaterThan(RUNS * 10);
});

test('a tighter limit passes nothing that was refused, even if requests are not tried', async () => {
  let newlyRefused = 0;
  for (const seed of seeds) {
    const report = await figuresOf(seed, { live: rulesOf(5), candidate: rulesOf(3), keys: countingKeys });
    for (const { newlyPassed, ...figures } of [report.totals, ...report.rules])
      expect({ seed, newlyPassed, figures }).toMatchObject({ newlyPassed: 0 });
    newlyRefused += report.totals.newlyRefused;
  }
  expect(newlyRefused).toBeGreaterThan(RUNS);
});

const daily = (requests: number): RuleTree =>
  rulesFrom(`
domain: demo
descriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: ${requests} } }]
`);

test('a counter that was in use when the trial began is withheld until its window is over', async () => {
  const time = fakeClock();
  const { trial, ask, flush } = tryCandidate({ time, live: daily(5) });
  for (let times = 0; times < 4; times++) await ask(requestOf('user=alice'));
  trial.follow(daily(3), 'candidate');
  for (let times = 0; times < 4; times++) {
    await ask(requestOf('user=alice'));
    await ask(requestOf('user=bob'));
  }
  flush();
  expect(trial.report(1)).toMatchObject({ withheld: 4, totals: { requests: 4, newlyRefused: 1, newlyPassed: 0 } });
  time.advance(86_400_000 * 2);
  for (let times = 0; times < 4; times++) await ask(requestOf('user=alice'));
  flush();
  expect(trial.report(1)).toMatchObject({ withheld: 4, totals: { requests: 8, newlyRefused: 2, newlyPassed: 0 } });
});

/** A bucket for each user. */
const bucket = (burst: number): RuleTree =>
  rulesFrom(`
domain: demo
descriptors: [{ key: user, rate_limit: { unit: second, requests_per_unit: ${burst}, algorithm: token_bucket } }]
`);

test('a counter is withheld after a call for which the store gave no answer', async () => {
  const time = fakeClock();
  const [live, candidate] = [bucket(5), bucket(3)];
  const { trial, ask, flush } = tryCandidate({ time, live, candidate });
  time.advance(60_000);
  await ask(requestOf('user=alice'));
  const entries = [{ key: 'user', value: 'alice' }];
  const found = match(live, 'demo', { entries, requestLimit: undefined });
  if (found.kind !== 'limited') throw new TypeError(`expected a limit, got ${found.kind}`);
  flush();
  trial.failed(new CountersUnavailable('gone', 'demo', [{ found, hits: 1 }]));
  time.advance(1);
  for (const user of ['alice', 'bob']) await ask(requestOf(`user=${user}`));
  flush();
  expect(trial.report(1)).toMatchObject({ withheld: 1, totals: { requests: 2 } });
});

test('a counter is withheld after a call that was answered without the store', async () => {
  const time = fakeClock();
  const { trial, tried, ask, flush } = tryCandidate({ time, live: bucket(5), candidate: bucket(3) });
  time.advance(60_000);
  await ask(requestOf('user=alice'));
  flush();
  const answer = tried[0]?.live;
  if (!answer) throw new TypeError('expected a decided request');
  const verdicts = answer.verdicts.map((verdict) =>
    verdict.kind === 'limited'
      ? { ...verdict, decision: { ...verdict.decision, degraded: 'allow' as const } }
      : verdict,
  );
  trial.answered(requestOf('user=alice'), { ...answer, verdicts }, Number.POSITIVE_INFINITY);
  time.advance(1);
  for (const user of ['alice', 'bob']) await ask(requestOf(`user=${user}`));
  flush();
  expect(trial.report(1)).toMatchObject({ withheld: 2, totals: { requests: 2 } });
});

test.each([
  ['the candidate requires a key', 'require: [tenant]', {}, false],
  [
    'the request lacks one that the live rules require',
    '',
    { unmet: { missing: [], descriptors: [], onlyAt: undefined } },
    false,
  ],
  ['no key is required', '', {}, true],
] as const)('whether descriptors are independent if %s', (_, requirement, more, isIndependent) => {
  const rules = rulesFrom(`
domain: demo
${requirement}
descriptors: [{ key: user, rate_limit: { unit: second, requests_per_unit: 1 } }]
`);
  const live = {
    overallCode: 'OK',
    verdicts: [],
    shadowed: false,
    delayMs: 0,
    retryAfterMs: undefined,
    ...more,
  } as const;
  expect(areIndependent(requestOf('user=alice', 'user=bob'), live, rules, noModes)).toBe(isIndependent);
});

test('a process that is late tries half of the counters, fewer every second, and all again after it', async () => {
  const time = fakeClock();
  let isLate = true;
  const { trial, tried, ask, flush } = tryCandidate({
    ...{ time, live: daily(5), candidate: daily(5) },
    options: { isBehind: () => isLate },
  });
  /** Sends two requests of each of 200 users. @returns the users whose requests were tried */
  const triedUsers = async (): Promise<number> => {
    flush();
    tried.splice(0);
    for (let at = 0; at < 400; at++) await ask(requestOf(`user=${at % 200}`));
    flush();
    const users = new Set(tried.map(({ descriptors }) => descriptors[0]?.entries[0]?.value));
    expect(tried).toHaveLength(users.size * 2); // both requests of a user, or none
    return users.size;
  };
  const half = await triedUsers();
  expect(half).toBeGreaterThan(60);
  expect(half).toBeLessThan(140);
  expect(trial.report(1)).toMatchObject({ dropped: { behind: 0, overload: 400 - half * 2 } });
  for (let seconds = 0; seconds < 8; seconds++) {
    time.advance(1_000);
    await ask(requestOf('user=alice'));
  }
  expect(await triedUsers()).toBe(0);
  isLate = false;
  for (let spells = 0; spells < 8; spells++) {
    time.advance(10_000);
    await ask(requestOf('user=alice'));
  }
  expect(await triedUsers()).toBe(200);
});
