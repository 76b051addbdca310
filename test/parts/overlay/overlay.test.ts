import '../../helpers/realm.ts';
import { describeRule } from '../../../src/edge/listing/describe.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { RulesInForce } from '../../../src/engine/rules/reload/in-force.ts';
import {
  checkRuleFiles,
  type LoadedRules,
  type LoadOptions,
  loadRules,
} from '../../../src/engine/rules/reload/load.ts';
import { listOverlaid } from '../../../src/operate/observe/rule-loads.ts';

const file = (name: string, text: string) => ({ path: name, name, text });

/** Loads a rule file with overlay files, which are called a.yaml, b.yaml and so on. */
function load(rules: string, overlays: string | readonly string[], options: Partial<LoadOptions> = {}): LoadedRules {
  const texts = typeof overlays === 'string' ? [overlays] : overlays;
  const overlay = texts.map((text, at) => ({ name: `${'abc'[at]}.yaml`, text }));
  return loadRules([file('rules.yaml', rules)], { mergeDomains: false, ...options, overlay });
}

const problemsOf = (loaded: LoadedRules): readonly string[] =>
  (loaded.ok ? loaded.warnings : loaded.problems).map(formatProblem);

function right(loaded: LoadedRules): RuleTree {
  if (!loaded.ok) throw new Error(problemsOf(loaded).join('\n'));
  expect(problemsOf(loaded)).toEqual([]);
  return loaded.rules;
}

/** The rules as /rlconfig lists them, a text each. */
const listed = (loaded: LoadedRules): readonly string[] => [...right(loaded).rules].map(describeRule);

/** A rule file with one node of these lines. */
const node = (...lines: readonly string[]): string =>
  ['domain: demo', 'descriptors:', '- key: user', ...lines.map((line) => `  ${line}`), ''].join('\n');
const limit = (properties: string): string => node(`rate_limit: {${properties}}`);

const PER_MINUTE = limit('unit: minute, requests_per_unit: 6');
const MODES = 'shadow_mode: false, quota_mode: false';

describe('an overlay gives a rule', () => {
  test('an algorithm and its burst, and keeps the rate', () => {
    expect(listed(load(PER_MINUTE, limit('algorithm: token_bucket, burst: 20')))).toEqual([
      `demo.user: unit=MINUTE requests_per_unit=6, ${MODES}, algorithm: token_bucket, burst: 20, overlaid: algorithm (a.yaml:4), burst (a.yaml:4)`,
    ]);
  });

  test.each([
    ['algorithm: sliding_window_log', 'algorithm: sliding_window_log'],
    ['algorithm: sliding_window_counter, rounding: up', 'algorithm: sliding_window_counter, rounding: up'],
    ['algorithm: sliding_window_buckets, buckets: 6', 'algorithm: sliding_window_buckets, buckets: 6'],
    ['algorithm: leaky_bucket, burst: 2, max_delay: 300ms', 'algorithm: leaky_bucket, burst: 2, max_delay: 300ms'],
    ['soft: 3', 'soft: 3'],
    ['on_store_failure: allow', 'on_store_failure: allow'],
    ['on_store_failure: local, local_share: 2', 'on_store_failure: local, local_share: 2'],
    ['consistency: leased', 'consistency: leased'],
  ])('%s', (properties, shown) => {
    const keys = properties.split(', ').map((property) => `${property.split(':')[0]} (a.yaml:4)`);
    expect(listed(load(PER_MINUTE, limit(properties)))).toEqual([
      `demo.user: unit=MINUTE requests_per_unit=6, ${MODES}, ${shown}, overlaid: ${keys.join(', ')}`,
    ]);
  });

  test('a name and metadata, which are merged with those of the rule', () => {
    const rules = node('rate_limit: {unit: day, requests_per_unit: 1, name: old}', 'metadata: {team: a, tier: {a: 1}}');
    const over = node('rate_limit: {name: new}', 'metadata: {tier: {a: 2, b: 3}}');
    expect(right(load(rules, over)).rules).toMatchObject([
      { limits: [{ label: { name: 'new' } }], metadata: { team: 'a', tier: { a: 2, b: 3 } } },
    ]);
  });

  test('shadow mode, or removes it', () => {
    const [on, off] = ['shadow_mode: true', 'shadow_mode: false'];
    const modeIn = (rules: string, over: string): boolean | undefined =>
      [
        ...right(load(rules.replace('\n  rate_limit', `\n  ${over === on ? off : on}\n  rate_limit`), node(over)))
          .rules,
      ][0]?.shadow;
    expect([modeIn(PER_MINUTE, on), modeIn(PER_MINUTE, off)]).toEqual([true, false]);
  });

  test('no quota mode, so that a tenant of an AI Gateway is refused by its own limit', () => {
    const rules = node('rate_limit: {unit: day, requests_per_unit: 1}', 'quota_mode: true');
    expect(right(load(rules, node('quota_mode: false'))).rules).toMatchObject([{ quota: false }]);
  });

  test('a rate, if the overlay itself sets requests_per_unit', () => {
    const over = limit('requests_per_unit: 9, window: 30s');
    expect(listed(load(PER_MINUTE, over))).toEqual([
      `demo.user: unit=SECOND requests_per_unit=9, ${MODES}, unit_multiplier: 30, overlaid: requests_per_unit (a.yaml:4), window (a.yaml:4)`,
    ]);
  });

  test('a further limit, if the overlay itself sets requests_per_unit', () => {
    const over = node('rate_limits: [{burst: 9, algorithm: token_bucket}, {unit: day, requests_per_unit: 50}]');
    expect(right(load(PER_MINUTE, over)).rules).toMatchObject([
      {
        limits: [
          { label: { unit: 'MINUTE' }, limit: { burst: 9 } },
          { label: { unit: 'DAY' }, limit: { requestsPerUnit: 50 } },
        ],
      },
    ]);
  });

  test('one of several limits a property, by its index', () => {
    const rules = node('rate_limits: [{unit: second, requests_per_unit: 2}, {unit: day, requests_per_unit: 50}]');
    const loaded = load(rules, node('rate_limits:', '- {}', '- {soft: 5}'));
    expect(listed(loaded)).toEqual([
      `demo.user: unit=SECOND requests_per_unit=2, ${MODES}\n` +
        `demo.user: unit=DAY requests_per_unit=50, ${MODES}, soft: 5, overlaid: soft (a.yaml:6)`,
    ]);
    expect([...listOverlaid(right(loaded).rules)]).toEqual(['demo.user: soft of limit 2 comes from a.yaml:6']);
  });
});

test('an overlay gives a domain its spend', () => {
  const { domains } = right(load(PER_MINUTE, 'domain: demo\nspend: spare_others\n'));
  expect(domains.get('demo')).toMatchObject({
    spend: 'spare_others',
    overlaid: [{ key: 'spend', file: 'a.yaml', line: 2 }],
  });
});

test('spend in the overlay of a domain with several files applies to all of them', () => {
  const parts = [
    file('1.yaml', `spend: each\n${PER_MINUTE}`),
    file('2.yaml', 'domain: demo\ndescriptors: [{key: a}]\n'),
  ];
  const overlay = [{ name: 'a.yaml', text: 'domain: demo\nspend: spare_others\n' }];
  const loaded = loadRules(parts, { mergeDomains: true, overlay });
  expect(loaded.ok && loaded.rules.domains.get('demo')?.spend).toBe('spare_others');
});

test('a new algorithm removes properties of the old one', () => {
  const rules = limit('unit: day, requests_per_unit: 6, alignment: calendar, timezone: Europe/Berlin');
  expect(listed(load(rules, limit('algorithm: token_bucket')))).toEqual([
    `demo.user: unit=DAY requests_per_unit=6, ${MODES}, algorithm: token_bucket, burst: 6, overlaid: algorithm (a.yaml:4)`,
  ]);
});

test('nodes are found by the keys and values of their path, and wildcards as written', () => {
  const rules = `
domain: demo
descriptors:
- {key: path, value: /login, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: path, value: /log*, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: path, rate_limit: {unit: day, requests_per_unit: 3}, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 4}}]}
`;
  const soft = (loaded: LoadedRules) => [...right(loaded).rules].map(({ limits }) => limits[0]?.limit.soft);
  const over = (nodes: string): string => `domain: demo\ndescriptors: [${nodes}]\n`;
  expect(soft(load(rules, over('{key: path, value: /log*, rate_limit: {soft: 7}}')))).toEqual([0, 7, 0, 0]);
  expect(soft(load(rules, over('{key: path, rate_limit: {soft: 7}}')))).toEqual([0, 0, 7, 0]);
  expect(soft(load(rules, over('{key: path, descriptors: [{key: user, rate_limit: {soft: 7}}]}')))).toEqual([
    0, 0, 0, 7,
  ]);
});

test('several overlay files of one domain are combined', () => {
  const loaded = load(PER_MINUTE, [limit('algorithm: token_bucket'), limit('burst: 9'), node('shadow_mode: true')]);
  expect(listed(loaded)).toEqual([
    'demo.user: unit=MINUTE requests_per_unit=6, shadow_mode: true, quota_mode: false, algorithm: token_bucket, burst: 9, ' +
      'overlaid: algorithm (a.yaml:4), burst (b.yaml:4), shadow_mode (c.yaml:4)',
  ]);
});

test('an empty overlay file changes nothing', () => {
  expect(listed(load(PER_MINUTE, ['', '# later\n']))).toEqual([`demo.user: unit=MINUTE requests_per_unit=6, ${MODES}`]);
});

describe('an overlay node without a match is a warning with the nearest path', () => {
  const rules = `
domain: demo
descriptors:
- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: path, value: /login, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]}
`;
  test.each(
    Object.entries({
      '{key: usr, rate_limit: {soft: 1}}':
        "2: warning: descriptors[0]: no rule has the path 'demo.usr' (key 'usr' without a value); the nearest is 'demo.user' (key 'user' without a value; rules.yaml:4)",
      '{key: path, rate_limit: {soft: 1}}':
        "2: warning: descriptors[0]: no rule has the path 'demo.path' (key 'path' without a value); the nearest is 'demo.path_/login' (key 'path', value '/login'; rules.yaml:5)",
      '{key: path, value: /login, descriptors: [{key: use, rate_limit: {soft: 1}}]}':
        "2: warning: descriptors[0].descriptors[0]: no rule has the path 'demo.path_/login.use' (key 'use' without a value); the nearest is 'demo.path_/login.user' (key 'user' without a value; rules.yaml:5)",
      '{key: user, descriptors: [{key: path, descriptors: [{key: a, rate_limit: {soft: 1}}]}]}':
        "2: warning: descriptors[0].descriptors[0]: no rule has the path 'demo.user.path' (key 'path' without a value); the nearest is 'demo.user' (rules.yaml:4), which has no descriptors",
      '{key: path, value: /login, rate_limit: {soft: 1}}':
        '2: warning: descriptors[0].rate_limit: this overlays nothing: the rules have no such limit, and without requests_per_unit none is added',
      '{key: user, rate_limits: [{soft: 1}, {soft: 2}]}':
        '2: warning: descriptors[0].rate_limits[1]: this overlays nothing: the rules have no such limit, and without requests_per_unit none is added',
      '{key: user}': '2: warning: descriptors[0]: this overlays nothing: it has neither a property nor descriptors',
    }),
  )('%s', (nodes, message) => {
    const loaded = load(rules, `domain: demo\ndescriptors: [${nodes}]\n`);
    expect({ ok: loaded.ok, problems: problemsOf(loaded) }).toEqual({ ok: true, problems: [`a.yaml:${message}`] });
  });

  test('for a domain without rules', () => {
    expect(problemsOf(load(rules, 'domain: dem\ndescriptors: [{key: user, rate_limit: {soft: 1}}]\n'))).toEqual([
      "a.yaml:1: warning: domain: no rules have the domain 'dem'; the nearest is 'demo' (rules.yaml:2)",
    ]);
  });

  test('for a property of a rule that is unlimited', () => {
    const loaded = load(limit('unlimited: true'), limit('algorithm: token_bucket'));
    expect(problemsOf(loaded)).toEqual([
      'a.yaml:4: warning: descriptors[0].rate_limit: this overlays nothing: the rule is unlimited (rules.yaml:4)',
    ]);
  });

  test('for hundreds of entries among thousands of long names, within bounded work', () => {
    const name = 'httproute/default/a-route-with-a-long-name/rule/0/match/0/www_example_com'.repeat(3);
    const nodes = Array.from({ length: 5_000 }, (_, at) => `- key: ${at}${name}\n`).join('');
    const over = Array.from({ length: 200 }, (_, at) => `- {key: ${at}${name}x, shadow_mode: true}\n`).join('');
    const limited = '- {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n';
    const loaded = load(`domain: demo\ndescriptors:\n${limited}${nodes}`, `domain: demo\ndescriptors:\n${over}`);
    const problems = problemsOf(loaded).filter((problem) => problem.includes('no rule has the path'));
    expect(problems).toHaveLength(200);
  });
});

describe('an invalid overlay is refused, with its own file and line', () => {
  const error = (over: string | readonly string[], rules = PER_MINUTE): readonly string[] => {
    const loaded = load(rules, over);
    expect(loaded.ok).toBe(false);
    return problemsOf(loaded);
  };

  test.each([
    ['unit: hour', 'is part of the rate, which an overlay changes only as a whole: write requests_per_unit as well'],
    ['window: 30s', 'is part of the rate, which an overlay changes only as a whole: write requests_per_unit as well'],
    ['unlimited: true', 'cannot be overlaid: only the rules define which limits and counters exist'],
    ['replaces: [{name: a}]', 'cannot be overlaid: only the rules define which limits and counters exist'],
    ['burst: 3', 'cannot be used with fixed_window, only with token_bucket or leaky_bucket'],
    ['algorithm: sliding_window_buckets, buckets: 7', 'must be 1 to 100 and divide the window of 60000 ms, got 7'],
    ['algorithm: tokens', /^unknown algorithm 'tokens'; expected one of/],
    ['bursts: 3', /^config error, unknown key 'bursts'; did you mean 'burst'/],
    ['on_store_failure: local, local_share: 7', /^must be 1 to requests_per_unit/],
  ] as const)('%s', (properties, message) => {
    const [problem = '', ...others] = error(limit(properties));
    expect(others).toEqual([]);
    const [, path, text = ''] = /^a\.yaml:4: descriptors\[0\]\.rate_limit\.([a-z_]+): (.*)$/.exec(problem) ?? [problem];
    expect(properties).toContain(path);
    if (typeof message === 'string') expect(text).toBe(message);
    else expect(text).toMatch(message);
  });

  test('when it sets a property that another file sets', () => {
    expect(error([limit('soft: 3'), limit('soft: 3')])).toEqual([
      'b.yaml:4: descriptors[0].rate_limit.soft: is already overlaid at a.yaml:4: remove one of them',
    ]);
    expect(error(['domain: demo\nspend: each\n', 'domain: demo\nspend: each\n'])).toEqual([
      'b.yaml:2: spend: is already overlaid at a.yaml:2: remove one of them',
    ]);
  });

  test('when it sets `share_threshold`, which decides how values of a `*` are counted', () => {
    expect(error(node('share_threshold: true'))).toEqual([
      'a.yaml:4: descriptors[0].share_threshold: cannot be overlaid: only the rules define which limits and counters exist',
    ]);
  });

  test('when it has one limit for a node of several', () => {
    const rules = node('rate_limits: [{unit: second, requests_per_unit: 2}, {unit: day, requests_per_unit: 50}]');
    expect(error(limit('soft: 3'), rules)).toEqual([
      'a.yaml:4: descriptors[0].rate_limit: this node has 2 limits: write rate_limits, with an entry for each of them',
    ]);
  });

  test('when it has no domain, or a node without a key', () => {
    expect(error('descriptors: [{key: user, shadow_mode: true}]\n')).toEqual([
      'a.yaml:1: domain: an overlay needs the domain whose rules it changes',
    ]);
    expect(error('domain: demo\ndescriptors: [{shadow_mode: true}]\n')).toEqual([
      'a.yaml:2: descriptors[0].key: descriptor has empty key: give it a name such as user',
    ]);
  });

  test('when it is not valid YAML, in addition to problems of the rules', () => {
    expect(error('domain: [demo\n', limit('unit: minutes'))).toEqual([
      expect.stringMatching(/^a\.yaml:2: error loading config file: /),
      expect.stringMatching(/^rules\.yaml:4: .*invalid rate limit unit 'minutes'/),
    ]);
  });

  test('when the store does not support it', () => {
    const traits = { name: 'memcached', atomic: 'counter', keepsEntries: false, leases: false } as const;
    const store = { ...traits, spend: 'each' } as const;
    const over = `spend: spare_others\n${limit('algorithm: sliding_window_log')}`;
    expect(problemsOf(load(PER_MINUTE, over, { store }))).toEqual([
      'a.yaml:1: spend: spare_others requires all limits of a request to be counted in one step, which memcached cannot do',
      'a.yaml:5: descriptors[0].rate_limit.algorithm: sliding_window_log cannot be counted in memcached; use another algorithm, or Redis',
    ]);
  });
});

test('packed rules include the overlay, and a moved line makes them different', () => {
  const files = [file('rules.yaml', PER_MINUTE)];
  const packedWith = (text: string) => {
    const checked = checkRuleFiles(files, { mergeDomains: false, overlay: [{ name: 'a.yaml', text }] });
    if (!checked.ok) throw new Error(checked.problems.map(formatProblem).join('\n'));
    return structuredClone(checked.packed); // as another process receives it
  };
  const over = `spend: spare_others\n${limit('soft: 2')}`;
  const inForce = new RulesInForce();
  const { rules, domains } = inForce.replaceAtOnce(packedWith(over));
  expect([...listOverlaid(rules)]).toEqual(['demo.user: soft comes from a.yaml:5']);
  expect(domains.get('demo')?.overlaid).toEqual([{ key: 'spend', file: 'a.yaml', line: 1 }]);
  expect([inForce.has(packedWith(over)), inForce.has(packedWith(`\n${over}`))]).toEqual([true, false]);
});

describe('an overlay of a node with addresses', () => {
  const withBlocks = (blocks: string, properties: string): string =>
    `domain: demo\ndescriptors:\n- {key: ip, addresses: ${blocks}, rate_limit: {${properties}}}\n`;
  const rules = withBlocks('[10.0.0.0/8, 192.0.2.1]', 'unit: minute, requests_per_unit: 6');

  test('names the node by the first of its blocks', () => {
    expect(listed(load(rules, withBlocks('::ffff:10.0.0.0/104', 'soft: 3')))).toEqual([
      `demo.ip_10.0.0.0/8: unit=MINUTE requests_per_unit=6, ${MODES}, soft: 3, overlaid: soft (a.yaml:3)`,
    ]);
  });

  test('is reported if it names another block, or a value with the same text', () => {
    const message = (written: string) =>
      `a.yaml:3: warning: descriptors[0]: no rule has the path 'demo.ip_${written}' (key 'ip', value '${written}'); the nearest is 'demo.ip_10.0.0.0/8' (key 'ip', value '10.0.0.0/8'; rules.yaml:3)`;
    expect(problemsOf(load(rules, withBlocks('192.0.2.1', 'soft: 3')))).toEqual([message('192.0.2.1')]);
    const value = withBlocks('10.0.0.0/8', 'soft: 3').replace('addresses', 'value');
    expect(problemsOf(load(rules, value))).toEqual([message('10.0.0.0/8')]);
  });

  test('is refused if it names several blocks', () => {
    expect(problemsOf(load(rules, withBlocks('[10.0.0.0/8, 192.0.2.1]', 'soft: 3')))).toEqual([
      'a.yaml:3: descriptors[0].addresses: an overlay names a node by the first of its blocks alone: write addresses: 10.0.0.0/8',
    ]);
  });
});
