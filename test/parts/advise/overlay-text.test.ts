import { load as readYaml } from 'js-yaml';
import { loadRules } from '../../../src/engine/rules/reload/load.ts';
import type { AdvisedLimit, Proposal } from '../../../src/parts/advise/answers.ts';
import { overlayText } from '../../../src/parts/advise/render-advice.ts';
import { advisedRules } from '../../../src/parts/advise/rule-sketches.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const RULES = `domain: "demo: 1"
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 60 }
    descriptors:
      - key: path
        value: /login*
        rate_limits:
          - { unit: second, requests_per_unit: 5 }
          - { unit: hour, requests_per_unit: 9, algorithm: token_bucket, burst: 3 }
          - { ttl: 30s, requests_per_unit: 9, algorithm: in_flight }
  - key: user
    value: "a#b"
    rate_limit: { unit: day, requests_per_unit: 10, alignment: calendar, timezone: Europe/Berlin }
  - { key: plan, value: gold, rate_limit: { unlimited: true } }
  - key: network
    value: 10.*
    share_threshold: true
    rate_limit: { unit: second, requests_per_unit: 5, consistency: leased }
`;

const load = (overlay: string) =>
  loadRules([{ name: 'rules.yaml', path: 'rules.yaml', text: RULES }], {
    mergeDomains: false,
    overlay: overlay === '' ? [] : [{ name: 'advice.yaml', text: overlay }],
  });

function loadTree(overlay = '') {
  const loaded = load(overlay);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded;
}

const advised = (): readonly AdvisedLimit[] => advisedRules(loadTree().rules).rules.flatMap(({ limits }) => limits);

function createAdvice(
  limit: AdvisedLimit,
  numbers: Pick<Proposal, 'algorithm' | 'requestsPerUnit' | 'burst'>,
): Parameters<typeof overlayText>[0][number] {
  const none = { p50: 0, p90: 0, p99: 0, p999: 0, max: 0 };
  const share = { keys: 0, share: 0 };
  const seen = { requests: 1, keys: 1, oneIn: 1, first: '', last: '', days: 1, because: ['one\nline # and\u2028more'] };
  return {
    confidence: { grade: 'low', ...seen },
    limit,
    windows: none,
    busiest: none,
    envelope: [],
    bursts: [],
    table: [],
    refusedNow: { hits: 0, keys: share },
    warnings: [],
    proposal: { ...numbers, othersHit: share, atMostShare: 0.01, reasons: ['why: because'] },
  };
}

test('limits that are rates get advice with the path to their rules, and the others are named', () => {
  const { rules, skipped } = advisedRules(loadTree().rules);
  expect(rules.map(({ path, sharesCounters, limits }) => [path, sharesCounters, limits.map(({ at }) => at)])).toEqual([
    ['demo: 1.user_a#b', false, [0]],
    ['demo: 1.user', false, [0]],
    ['demo: 1.user.path_/login*', false, [0, 1]],
    ['demo: 1.network_10.*', true, [0]],
  ]);
  expect(rules[2]?.limits[1]).toMatchObject({
    nodes: [{ key: 'user' }, { key: 'path', value: '/login*' }],
    of: 3,
    text: '9 per hour by token_bucket',
    algorithm: 'token_bucket',
    burst: 3,
    keepsAlgorithm: false,
  });
  expect(rules.map(({ limits }) => limits[0]?.keepsAlgorithm)).toEqual([true, false, false, true]);
  expect(skipped).toEqual([
    'demo: 1.user.path_/login*: in_flight limits requests in flight, not a rate',
    'demo: 1.plan_gold: unlimited; give it a limit with shadow_mode first',
  ]);
});

test('the proposals for all limits form an overlay that loads without a problem or a warning', () => {
  const all = advised().map((limit) =>
    createAdvice(limit, {
      requestsPerUnit: 7,
      ...(limit.algorithm === 'token_bucket' || limit.text === '60 per minute'
        ? { algorithm: 'token_bucket' as const, burst: 21 }
        : { algorithm: limit.keepsAlgorithm ? limit.algorithm : ('sliding_window_counter' as const) }),
    }),
  );
  const text = overlayText(all);
  const { rules, warnings } = loadTree(text);
  expect(warnings.filter(({ file }) => file === 'advice.yaml')).toEqual([]);
  const limits = [...rules.rules].flatMap((rule) =>
    rule.limits.map(({ limit }) => [
      ...[rule.path, limit.algorithm, limit.requestsPerUnit, limit.windowMs],
      'burst' in limit ? limit.burst : undefined,
    ]),
  );
  expect(limits).toEqual([
    ['demo: 1.user_a#b', 'fixed_window', 7, 86_400_000, undefined],
    ['demo: 1.user', 'token_bucket', 7, 60_000, 21],
    ['demo: 1.user.path_/login*', 'sliding_window_counter', 7, 1_000, undefined],
    ['demo: 1.user.path_/login*', 'token_bucket', 7, 3_600_000, 21],
    ['demo: 1.user.path_/login*', 'in_flight', 9, 30_000, undefined],
    ['demo: 1.network_10.*', 'fixed_window', 7, 1_000, undefined],
  ]);
});

test('reasons are comments, whatever their text', () => {
  const [limit] = advised();
  if (!limit) throw new Error('there is a limit');
  const text = overlayText([createAdvice(limit, { algorithm: 'fixed_window', requestsPerUnit: 7 })]);
  expect(text).toBe(`# proposed by weir advise
domain: "demo: 1"
descriptors:
  # demo: 1.user_a#b: was 10 per day
  # why: because
  # 1 request of 1 key on 1 day,  to ; confidence low: one\\x0aline # and\\u2028more
  - key: "user"
    value: "a#b"
    rate_limit: { requests_per_unit: 7 }
`);
});

test('control characters in names are printed as escapes, and read back unchanged', () => {
  const [limit] = advised();
  if (!limit) throw new Error('there is a limit');
  const node = { key: '\u001b]0;pwn\u0007\t\u202e"', value: '\\x41\n\u009b31m\u2028\u{1f600}' };
  const domain = 'demo\u007f\r: 1';
  const hostile: AdvisedLimit = { ...limit, domain, rule: `${domain}.${node.key}`, nodes: [node] };
  const text = overlayText([createAdvice(hostile, { algorithm: 'fixed_window', requestsPerUnit: 7 })]);
  expect(text).not.toMatch(/[^\P{Cc}\n]|[\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
  expect(readYaml(text)).toEqual({ domain, descriptors: [{ ...node, rate_limit: { requests_per_unit: 7 } }] });
});

const ruleAdvised = (rateLimit: string) => {
  const text = `{ domain: demo, descriptors: [{ key: user, ${rateLimit} }] }`;
  return { text, ...advisedRules(rulesFrom(text)) };
};

test('a budget, which counts money, gets no advice', () => {
  const text =
    'domain: demo\ndescriptors:\n  - { key: app, unit_cost: 0.01 USD, rate_limit: { unit: day, budget: 5.00 USD } }\n';
  expect(advisedRules(rulesFrom(text))).toEqual({
    rules: [],
    skipped: ['demo.app: a budget counts money; how many requests it admits follows from their cost'],
  });
});

test('a limit that sites share is left out, since a site sees only its own part', () => {
  const shared = '{ unit: minute, requests_per_unit: 60, sites: { mode: escrow } }';
  expect(ruleAdvised(`rate_limit: ${shared}`)).toMatchObject({
    rules: [],
    skipped: ['demo.user: sites share it, and each site sees only its own part'],
  });
  const { rules, skipped } = ruleAdvised(`rate_limits: [${shared}, { unit: hour, requests_per_unit: 9 }]`);
  expect(rules.map(({ limits }) => limits.map(({ at, of }) => [at, of]))).toEqual([[[1, 2]]]);
  expect(skipped).toHaveLength(1);
});

test.each([
  ['schedule', 'schedule: [{ active: { days: [sat, sun] }, requests_per_unit: 20 }]'],
  ['active', 'active: { hours: 09:00-17:00 }'],
])('a rule whose limits have %s is left out, since they do not apply at the same time', (_, when) => {
  expect(ruleAdvised(`rate_limit: { unit: minute, requests_per_unit: 60, ${when} }`)).toMatchObject({
    rules: [],
    skipped: ['demo.user: its limits depend on the time; for advice on each, use rules without schedule and active'],
  });
});

test.each(['fixed_window', 'sliding_window_counter', 'sliding_window_buckets, buckets: 4'])(
  'a limit by %s whose windows begin with a date keeps its algorithm, so that its overlay is valid',
  (algorithm) => {
    const anchored = 'alignment: { anchor: 2026-01-05T09:30 }';
    const { rules } = ruleAdvised(
      `rate_limit: { unit: hour, requests_per_unit: 60, ${anchored}, algorithm: ${algorithm} }`,
    );
    expect(rules[0]?.limits[0]?.keepsAlgorithm).toBe(true);
  },
);
