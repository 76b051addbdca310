import '../../helpers/realm.ts';
import type { Backend, Replies } from '../../../src/engine/backends/backend.ts';
import { Overrides } from '../../../src/engine/decide/overrides.ts';
import { mergeReports } from '../../../src/parts/candidate/report.ts';
import { sampledPositions } from '../../../src/parts/lab/record/sampling.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { backendThat } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { requestOf, tryCandidate } from '../../helpers/trial.ts';
import { until } from '../../helpers/until.ts';

const rulesWith = (users: number, more = ''): ReturnType<typeof rulesFrom> =>
  rulesFrom(`
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: ${users} } }
${more}`);

const PATH = '  - { key: path, rate_limit: { unit: minute, requests_per_unit: 1 } }\n';

/** @param changes  differences from a candidate of 1 per minute beside a live limit of 3 per minute */
const started = (changes: Partial<Parameters<typeof tryCandidate>[0]> = {}) =>
  tryCandidate({ time: fakeClock(), live: rulesWith(3), candidate: rulesWith(1), ...changes });

async function askTimes(ask: ReturnType<typeof started>['ask'], count: number, descriptor: string): Promise<void> {
  for (let at = 0; at < count; at++) await ask(requestOf(descriptor));
}

test("figures have the candidate's refusals and admissions, by rule and key", async () => {
  const { trial, ask, flush } = started({ live: rulesWith(3, PATH), candidate: rulesWith(1) });
  await askTimes(ask, 4, 'user=alice');
  await askTimes(ask, 1, 'user=bob');
  await askTimes(ask, 3, 'path=/login');
  flush();
  const { totals, rules, ruleCount, moreRules } = trial.report(10);
  expect(totals).toEqual({ requests: 8, liveRefused: 3, candidateRefused: 3, newlyRefused: 2, newlyPassed: 2 });
  expect([ruleCount, moreRules]).toEqual([1, 0]);
  expect(rules).toMatchObject([
    {
      rule: 'demo.user',
      ...{ inLive: true, inCandidate: true },
      ...{ requests: 5, liveRefused: 1, candidateRefused: 3, newlyRefused: 2, newlyPassed: 0 },
      newlyRefusedKeys: {
        count: 1,
        isAtLeast: false,
        list: { entries: [{ key: '|4:user|5:alice', count: 2, error: 0 }] },
      },
      newlyPassedKeys: { count: 0 },
    },
    {
      rule: 'demo.path',
      ...{ inLive: true, inCandidate: false },
      ...{ requests: 3, liveRefused: 2, candidateRefused: 0, newlyRefused: 0, newlyPassed: 2 },
      newlyPassedKeys: { count: 1, list: { entries: [{ key: '|4:path|6:/login', count: 2, error: 0 }] } },
    },
  ]);
  expect(trial.report(10, 'demo.path').rules.map(({ rule }) => rule)).toEqual(['demo.path']);
});

/** Two requests a minute of a tenant, and fewer of one that names no customer. */
const requiring = (anonymous: number): ReturnType<typeof rulesFrom> =>
  rulesFrom(`
domain: demo
require: { keys: [customer], per: [tenant], limit: { unit: minute, requests_per_unit: ${anonymous} } }
descriptors:
  - { key: tenant, rate_limit: { unit: minute, requests_per_unit: 4 } }
`);

test('figures have the requirements that requests do not meet, beside the rules that these match', async () => {
  const { trial, ask, flush } = started({ live: requiring(3), candidate: requiring(1) });
  await askTimes(ask, 3, 'tenant=a');
  flush();
  const { totals, rules, withheld } = trial.report(10);
  expect({ totals, withheld }).toMatchObject({ totals: { requests: 3, newlyRefused: 2, newlyPassed: 0 }, withheld: 0 });
  expect(rules).toMatchObject([
    {
      rule: 'demo.missing_customer.tenant',
      ...{ requests: 3, liveRefused: 0, candidateRefused: 2, newlyRefused: 2 },
      newlyRefusedKeys: { list: { entries: [{ key: '|7:missing|8:customer|6:tenant|1:a', count: 2 }] } },
    },
    { rule: 'demo.tenant', requests: 3, liveRefused: 0, candidateRefused: 0, newlyRefused: 0 },
  ]);
});

test('a rule that the candidate replaces by one of another path is compared with it beside a requirement, too', async () => {
  const rules = (value: string): ReturnType<typeof rulesFrom> =>
    rulesFrom(`
domain: demo
require: { keys: [customer], limit: { unit: minute, requests_per_unit: 1000 } }
descriptors:
  - { key: tenant, ${value} rate_limit: { unit: minute, requests_per_unit: 2 } }
`);
  const { trial, ask, flush } = started({ live: rules(''), candidate: rules('value: a,') });
  await askTimes(ask, 4, 'tenant=a');
  flush();
  const { totals, rules: figures } = trial.report(10);
  expect(totals).toMatchObject({ requests: 4, newlyRefused: 0, newlyPassed: 0 });
  expect(figures).toHaveLength(2);
  expect(figures.every(({ newlyRefused, newlyPassed }) => newlyRefused + newlyPassed === 0)).toBe(true);
});

test('a key is named by its own counter if an override decides for one of several that share one', async () => {
  const time = fakeClock();
  const overrides = new Overrides(time, () => 60_000);
  const effect = { kind: 'limit', requestsPerUnit: 1, unit: 'MINUTE' } as const;
  const named = { domain: 'demo', entries: [{ key: 'file', value: 'public/a' }] };
  overrides.replace([{ ...named, effect, untilMs: time() + 3_600_000, by: 'ops', reason: 'test' }]);
  const rules = (spend: string) =>
    rulesFrom(`
domain: demo
spend: ${spend}
descriptors:
  - { key: file, value: 'public/*', share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 0 } }
`);
  const { trial, ask, flush } = tryCandidate({
    time,
    overrides,
    live: rules('each'),
    candidate: rules('all_or_nothing'),
  });
  for (let sent = 0; sent < 2; sent++) await ask(requestOf('file=public/a', 'user=b'));
  flush();
  expect(trial.report(10).rules).toMatchObject([
    { rule: 'demo.file_public/*', newlyPassedKeys: { list: { entries: [{ key: '|4:file|8:public/a', count: 1 }] } } },
    { rule: 'demo.user' },
  ]);
});

test('a request of a domain without candidate rules is not tried', async () => {
  const { tried, ask, flush } = started();
  await ask({ ...requestOf('user=alice'), domain: 'other' });
  flush();
  expect(tried).toEqual([]);
});

test('peeks and refunds are decided, but do not count as requests in the figures', async () => {
  const { trial, tried, ask, flush } = started();
  for (const request of ['user=alice', 'user=alice*0', 'user=alice*-1', 'user=alice']) await ask(requestOf(request));
  flush();
  expect(tried).toHaveLength(4);
  expect(trial.report(1).totals).toMatchObject({ requests: 2, candidateRefused: 0 });
});

test('limits sent in requests count as one rule, for any values', async () => {
  const { trial, ask, flush } = started();
  const limit = { requests_per_unit: 1, unit: 2, unit_multiplier: null };
  for (const user of ['alice', 'bob']) {
    const { descriptors, ...request } = requestOf(`user=${user}`);
    await ask({ ...request, descriptors: descriptors.map((one) => ({ ...one, limit })) });
  }
  flush();
  expect(trial.report(1).rules).toMatchObject([{ rule: '(limits in requests)', requests: 2 }]);
});

test('requests beyond the maximum number in flight are dropped and counted', async () => {
  const { trial, ask, flush } = started({ options: { maxInFlight: 3 } });
  await askTimes(ask, 5, 'user=alice');
  expect(trial.report(1)).toMatchObject({ inFlight: 3, dropped: { behind: 2, overload: 0 } });
  flush();
  expect(trial.report(1)).toMatchObject({ inFlight: 0, inFlightBytes: 0, totals: { requests: 3 } });
});

test('requests beyond the maximum size in flight are dropped and counted', async () => {
  const { trial, ask } = started();
  const long = 'x'.repeat(16_000);
  await askTimes(ask, 200, `user=${long}`);
  const { inFlight, inFlightBytes, dropped } = trial.report(1);
  expect(inFlight + dropped.behind).toBe(200);
  expect(dropped.behind).toBeGreaterThan(0);
  expect(inFlightBytes).toBeLessThanOrEqual(4 * 1024 * 1024);
});

test('counters that never reply hold requests up to the bound, but do not delay live answers', async () => {
  const open = (): Backend => backendThat(() => new Promise<Replies>(() => {}));
  const { trial, ask, flush } = started({ open, options: { maxInFlight: 10 } });
  await askTimes(ask, 100, 'user=alice'); // waits for each answer
  flush();
  await askTimes(ask, 100, 'user=alice');
  expect(trial.report(1)).toMatchObject({ inFlight: 10, dropped: { behind: 190 }, totals: { requests: 0 } });
});

test('requests whose counters fail are counted, but not included in the figures', async () => {
  const unavailable: Replies = [{ code: 'UNAVAILABLE', reason: 'gone' }];
  const { trial, ask, flush } = started({ open: () => backendThat(async () => unavailable) });
  await askTimes(ask, 3, 'user=alice');
  flush();
  await until('all have failed', () => trial.report(1).failed === 3);
  expect(trial.report(1)).toMatchObject({ inFlight: 0, inFlightBytes: 0, totals: { requests: 0 } });
});

test('a sample has all requests of a counter or none', async () => {
  const { trial, tried, ask, flush } = started({ options: { sample: 0.5 } });
  for (let user = 0; user < 100; user++) {
    for (let at = 0; at < 2; at++) await ask(requestOf(`user=${user}`, 'user=0'));
  }
  flush();
  const counts = new Map<string, number>();
  for (const { descriptors } of tried)
    for (const { entries } of descriptors)
      counts.set(entries[0]?.value ?? '', (counts.get(entries[0]?.value ?? '') ?? 0) + 1);
  counts.delete('0');
  expect(counts.size).toBeGreaterThan(20);
  expect(counts.size).toBeLessThan(80);
  expect([...counts.values()].every((count) => count === 2)).toBe(true);
  expect(trial.report(1).rules[0]?.newlyRefusedKeys.count).toBeLessThan(80);
});

/** A user whose counter is sampled, and a path whose counter is not. */
function sampledUser(rules: ReturnType<typeof rulesFrom>): readonly [user: string, path: string] {
  for (let at = 0; at < 100; at++) {
    const pair = [`user=${at}`, `path=/${at}`] as const;
    const places = sampledPositions(requestOf(...pair), rules, 0.5);
    if (places.length === 1 && places[0] === 0) return pair;
  }
  throw new Error('every user is sampled together with the path, or not at all');
}

const pathAndUser = (path: string, user: string, domain = ''): ReturnType<typeof rulesFrom> =>
  rulesFrom(`
domain: demo
${domain}
descriptors:
  - { key: user, ${user} }
  - { key: path, ${path} }
`);

test.each([
  [
    'one replaces the limit of another',
    pathAndUser(
      'rate_limit: { unit: minute, requests_per_unit: 50, replaces: [{ name: users }] }',
      'rate_limit: { unit: minute, requests_per_unit: 1, name: users }',
    ),
  ],
  [
    'they spend all or nothing',
    pathAndUser(
      'rate_limit: { unit: minute, requests_per_unit: 1 }',
      'rate_limit: { unit: minute, requests_per_unit: 3 }',
      'spend: all_or_nothing',
    ),
  ],
  [
    'they are quotas',
    pathAndUser(
      'quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 50 }',
      'quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 }',
    ),
  ],
])('a sampled counter is decided with the others of its requests if %s', async (_, rules) => {
  const { trial, tried, ask, flush } = started({ live: rules, candidate: rules, options: { sample: 0.5 } });
  const [user, path] = sampledUser(rules);
  for (let at = 0; at < 6; at++) await ask(requestOf(user, path));
  await ask(requestOf(user));
  flush();
  expect(tried).toHaveLength(7);
  expect(trial.report(1).totals).toMatchObject({ newlyRefused: 0, newlyPassed: 0 });
  expect(trial.report(1).rules.map((rule) => [rule.rule, rule.newlyRefused, rule.newlyPassed])).toEqual(
    trial.report(1).rules.map(({ rule }) => [rule, 0, 0]),
  );
});

test('figures restart with other rules, without requests in flight, and counters continue', async () => {
  const time = fakeClock();
  const { trial, tried, ask, flush } = started({ time });
  await askTimes(ask, 2, 'user=alice');
  flush();
  await askTimes(ask, 1, 'user=alice');
  time.advance(5);
  trial.follow(rulesWith(2), 'another');
  flush();
  expect(trial.report(1)).toMatchObject({ totals: { requests: 0 }, inFlight: 0, sinceMs: time() });
  await askTimes(ask, 1, 'user=alice');
  flush();
  expect(tried.at(-1)?.candidate.overallCode).toBe('OVER_LIMIT'); // the third and fourth hit of a minute with 2
  trial.follow(rulesWith(2), 'another');
  expect(trial.report(1).totals.requests).toBe(1);
  trial.beginAnew();
  expect(trial.report(1).totals.requests).toBe(0);
});

test('a full table of keys reports the least number of keys', async () => {
  const { trial, ask, flush } = started({ options: { maxInFlight: 1_000 } });
  for (let user = 0; user < 300; user++) await askTimes(ask, 2, `user=${user}`);
  flush();
  const [rule] = trial.report(5).rules;
  expect(rule?.newlyRefusedKeys).toMatchObject({ count: 200, isAtLeast: true, list: { total: 300 } });
  expect(rule?.newlyRefusedKeys.list.entries).toHaveLength(5);
});

test('a closed trial drops waiting requests, and accepts no further ones', async () => {
  const { trial, tried, ask, flush } = started();
  await askTimes(ask, 2, 'user=alice');
  await trial.close();
  await askTimes(ask, 2, 'user=alice');
  flush();
  expect(tried).toEqual([]);
});

test('a few requests are decided per turn', async () => {
  const turns: (() => void)[] = [];
  const { tried, ask } = started({ options: { later: (run) => void turns.push(run) } });
  await askTimes(ask, 200, 'user=alice');
  expect(turns).toHaveLength(1);
  turns[0]?.();
  expect(tried).toHaveLength(64);
  expect(turns).toHaveLength(2);
});

test('the reports of several processes are merged', async () => {
  const reports = [];
  for (const user of ['alice', 'bob']) {
    const { trial, ask, flush } = started();
    await askTimes(ask, 2, `user=${user}`);
    await askTimes(ask, 2, 'user=carol');
    flush();
    reports.push(trial.report(10));
  }
  const merged = mergeReports(reports);
  expect(merged?.totals).toMatchObject({ requests: 8, newlyRefused: 4 });
  expect(merged?.rules).toHaveLength(1);
  expect(merged?.rules[0]?.newlyRefusedKeys).toMatchObject({ count: 3, list: { total: 4 } });
  expect(merged?.rules[0]?.newlyRefusedKeys.list.entries[0]).toEqual({ key: '|4:user|5:carol', count: 2, error: 0 });
  expect(mergeReports([])).toBeUndefined();
});

test('the figures include a changed share of a limit that is in use, once its bucket has been refilled', async () => {
  const shares = (weight: number) =>
    rulesFrom(`
domain: demo
descriptors:
  - key: api
    rate_limit: { unit: second, requests_per_unit: 10, share: { by: tenant } }
    descriptors: [{ key: tenant, share: { weight: ${weight} } }]
`);
  const time = fakeClock();
  const { trial, ask, flush } = tryCandidate({ time, live: shares(1) });
  const run = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 100) {
      await ask(requestOf('api,tenant=a'));
      flush();
      time.advance(100);
    }
  };
  await run(1_000);
  trial.follow(shares(2), 'candidate');
  await run(70_000);
  expect(trial.report(1).totals.requests).toBeGreaterThan(0);
});
