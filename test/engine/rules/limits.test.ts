import '../../helpers/realm.ts';
import type { RuleLimit, RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { type LoadedRules, loadRules } from '../../../src/engine/rules/reload/load.ts';
import { flat } from '../../helpers/limits.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const fileWith = (node: string): string => `domain: demo\ndescriptors:\n  - {key: user, ${node}}\n`;

/** The limits of a node with `rate_limits: [{…}, {…}]`. */
const limitsFrom = (...blocks: readonly string[]) =>
  firstOf(rulesFrom(fileWith(`rate_limits: [${blocks.map((block) => `{${block}}`).join(', ')}]`))).map(flat);

const firstOf = ({ rules: [rule] }: RuleTree): readonly RuleLimit[] => rule?.limits ?? [];

function limitFrom(block: string) {
  const [limit] = firstOf(rulesFrom(fileWith(`rate_limit: {${block}}`)));
  if (!limit) throw new Error(`no limit in ${block}`);
  return flat(limit);
}

/** Loads files with these texts, named a.yaml, b.yaml … */
function load(texts: readonly string[], mergeDomains = false): LoadedRules {
  const files = texts.map((text, at) => ({ path: '', name: `${'abc'.charAt(at)}.yaml`, text }));
  return loadRules(files, { mergeDomains });
}

const told = (loaded: LoadedRules): readonly string[] =>
  (loaded.ok ? loaded.warnings : loaded.problems).map(formatProblem);

const problemsOf = (block: string): readonly string[] => told(load([fileWith(`rate_limit: {${block}}`)]));

const FIVE_A_MINUTE = 'unit: minute, requests_per_unit: 5';
const common = { name: '', requestsPerUnit: 5, soft: 0, unit: 'MINUTE', unitMultiplier: 1, windowMs: 60_000 };

describe('while the counters cannot be reached', () => {
  test.each([
    ['', {}],
    ['on_store_failure: error', {}],
    ['on_store_failure: allow', { onStoreFailure: 'allow' }],
    ['on_store_failure: deny', { onStoreFailure: 'deny' }],
    ['on_store_failure: local', { onStoreFailure: 'local' }],
    ['on_store_failure: local, local_share: 5', { onStoreFailure: 'local', localShare: 5 }],
    ['local_share: 5', { localShare: 5 }],
    ['on_overload: local', {}],
    ['on_overload: error', { onOverload: 'error' }],
    ['on_overload: error, on_store_failure: deny', { onOverload: 'error', onStoreFailure: 'deny' }],
  ])('a limit with %j has that policy', (written, policy) => {
    const { onStoreFailure, onOverload, localShare } = limitFrom(`${FIVE_A_MINUTE}, ${written}`);
    expect({ onStoreFailure, onOverload, localShare }).toEqual({
      ...{ onStoreFailure: undefined, onOverload: undefined, localShare: undefined },
      ...policy,
    });
  });

  test.each(['on_overload: local', 'local_share: 2'])('a limit on requests in flight has no %s', (written) => {
    const [key] = written.split(':');
    expect(problemsOf(`algorithm: in_flight, requests_per_unit: 5, ttl: 30s, ${written}`)).toContainEqual(
      `a.yaml:3: descriptors[0].rate_limit.${key}: cannot be used here, since no process can count a part of the limit by itself`,
    );
  });
});

describe('a limit', () => {
  const fixed = { ...common, algorithm: 'fixed_window', alignment: 'epoch', counter: 'fixed_window.2|60000' };
  const log = { ...common, algorithm: 'sliding_window_log', countDenied: false, counter: 'sliding_window_log|60000' };
  const counter = {
    ...common,
    algorithm: 'sliding_window_counter',
    rounding: 'down',
    counter: 'sliding_window_counter|60000',
  };
  const parts = {
    ...common,
    algorithm: 'sliding_window_buckets',
    buckets: 6,
    counter: 'sliding_window_buckets|60000/6',
  };
  const token = {
    ...common,
    algorithm: 'token_bucket',
    burst: 5,
    refill: 'continuous',
    maxDelayMs: 0,
    counter: 'token_bucket.2|60000',
  };
  const leaky = { ...common, algorithm: 'leaky_bucket', burst: 1, maxDelayMs: 0, counter: 'leaky_bucket|60000' };

  test.each<[string, object]>([
    ['', fixed],
    ['algorithm: fixed_window', fixed],
    ['algorithm: ~', fixed],
    ['name: five, soft: 2', { ...fixed, name: 'five', soft: 2 }],
    ['soft: 4294967295', { ...fixed, soft: 4_294_967_295 }],
    ['alignment: epoch', fixed],
    ['alignment: first_hit', { ...fixed, alignment: 'first_hit', counter: 'fixed_window.2|60000@first_hit' }],
    ['algorithm: sliding_window_log', log],
    ['algorithm: sliding_window_log, count_denied: true, soft: 995', { ...log, countDenied: true, soft: 995 }],
    ['algorithm: sliding_window_log, count_denied: false', log],
    ['algorithm: sliding_window_counter', counter],
    ['algorithm: sliding_window_counter, rounding: down', counter],
    ['algorithm: sliding_window_counter, rounding: up', { ...counter, rounding: 'up' }],
    ['algorithm: sliding_window_buckets, buckets: 6', parts],
    [
      'algorithm: sliding_window_buckets, buckets: 1',
      { ...parts, buckets: 1, counter: 'sliding_window_buckets|60000/1' },
    ],
    [
      'algorithm: sliding_window_buckets, buckets: 100',
      { ...parts, buckets: 100, counter: 'sliding_window_buckets|60000/100' },
    ],
    ['algorithm: token_bucket', token],
    ['algorithm: token_bucket, burst: 1', { ...token, burst: 1 }],
    ['algorithm: token_bucket, burst: 20, soft: 3', { ...token, burst: 20, soft: 3 }],
    ['algorithm: token_bucket, refill: continuous', token],
    [
      'algorithm: token_bucket, refill: interval, max_delay: 1m30s',
      { ...token, refill: 'interval', maxDelayMs: 90_000 },
    ],
    ['algorithm: leaky_bucket', leaky],
    ['algorithm: leaky_bucket, burst: 7, soft: 2', { ...leaky, burst: 7, soft: 2 }],
    ['algorithm: leaky_bucket, max_delay: 300ms', { ...leaky, maxDelayMs: 300 }],
    ['algorithm: leaky_bucket, max_delay: 0s, soft: 2', { ...leaky, soft: 2 }],
  ])('{%s}', (more, limit) => {
    expect(limitFrom(`${FIVE_A_MINUTE}${more === '' ? '' : `, ${more}`}`)).toEqual(limit);
  });

  test.each([
    ['alignment: calendar', '@UTC', 'hour', 3_600_000],
    ['alignment: calendar, timezone: Europe/Berlin', '@Europe/Berlin', 'day', 86_400_000],
    ['alignment: calendar, timezone: Asia/Kolkata', '@Asia/Kolkata', 'week', 604_800_000],
    ['alignment: calendar', '@UTC', 'month', 2_592_000_000],
    ['alignment: calendar', '@UTC', 'year', 31_536_000_000],
  ])('{%s}', (alignment, suffix, unit, windowMs) => {
    expect(limitFrom(`unit: ${unit}, requests_per_unit: 5, ${alignment}`)).toEqual({
      ...fixed,
      unit: unit.toUpperCase(),
      windowMs,
      alignment: { around: expect.any(Function), timeZone: expect.any(String) },
      counter: `fixed_window.2|${windowMs}${suffix}`,
    });
  });
});

test.each([
  ['window: 500ms', 'UNKNOWN', 1, 500],
  ['window: 1ms', 'UNKNOWN', 1, 1],
  ['window: 1500ms', 'UNKNOWN', 1, 1_500],
  ['window: 1s500ms', 'UNKNOWN', 1, 1_500],
  ['window: 1000ms', 'SECOND', 1, 1_000],
  ['window: 30s', 'SECOND', 30, 30_000],
  ['window: 90s', 'SECOND', 90, 90_000],
  ['window: 60s', 'MINUTE', 1, 60_000],
  ['window: 5m', 'MINUTE', 5, 300_000],
  ['window: 1h30m', 'MINUTE', 90, 5_400_000],
  ['window: 30m1h', 'MINUTE', 90, 5_400_000],
  ['window: 36h', 'HOUR', 36, 129_600_000],
  ['window: 2d', 'DAY', 2, 172_800_000],
  ['window: 1w', 'DAY', 7, 604_800_000],
  ['window: 36500d', 'DAY', 36_500, 3_153_600_000_000],
  ['unit: second, unit_multiplier: 30', 'SECOND', 30, 30_000],
  ['unit: YEAR, unit_multiplier: 100', 'YEAR', 100, 3_153_600_000_000],
  ['unit: week', 'WEEK', 1, 604_800_000],
])('{%s}: %s × %d, %d ms', (block, unit, unitMultiplier, windowMs) => {
  expect(limitFrom(`${block}, requests_per_unit: 5`)).toMatchObject({ unit, unitMultiplier, windowMs });
});

test.each(['30', '-1s', '1.5s', '1e3s', '5M', '1 h', 's', '1h30', '""', '1y', '500us', 'constructor'])(
  'an invalid duration: %s',
  (text) => {
    const got = text.replaceAll('"', '');
    expect(problemsOf(`window: ${text}, requests_per_unit: 5`)).toEqual([
      `a.yaml:3: descriptors[0].rate_limit.window: must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got '${got}'`,
    ]);
    expect(problemsOf(`${FIVE_A_MINUTE}, algorithm: leaky_bucket, max_delay: ${text}`)).toEqual([
      `a.yaml:3: descriptors[0].rate_limit.max_delay: must be a time such as 300ms or 2s, up to 1h, got '${got}'`,
    ]);
  },
);

describe('extremes', () => {
  const HOUR_MS = 3_600_000;
  const YEAR_MS = 31_536_000_000;
  test.each<[string, number, number, string?]>([
    ['sliding_window_counter, unit: hour', HOUR_MS, 0],
    ['sliding_window_counter, unit: hour, soft: 9', HOUR_MS, 9],
    ['token_bucket, unit: year', YEAR_MS, 1], // a full bucket and one more
    ['token_bucket, unit: year, soft: 9', YEAR_MS, 10, 'soft'],
    ['leaky_bucket, unit: year', YEAR_MS, 0],
  ])('up to 2^53 hit-milliseconds by %s', (algorithm, windowMs, besides, key = 'requests_per_unit') => {
    const most = Math.floor(Number.MAX_SAFE_INTEGER / windowMs) - besides;
    const tell = (requests: number) => problemsOf(`algorithm: ${algorithm}, requests_per_unit: ${requests}`);
    expect(tell(most)).toEqual([]);
    expect(tell(most + 1)).toEqual([
      `a.yaml:3: descriptors[0].rate_limit.${key}: hits times milliseconds of the window must stay below 2^53 to be exact, got ${(most + 1 + besides) * windowMs}; take a smaller limit or window`,
    ]);
  });

  test('16 limits of a node', () => {
    const blocks = Array.from({ length: 16 }, (_, at) => `unit: day, requests_per_unit: ${at}`);
    expect(limitsFrom(...blocks).map(({ requestsPerUnit }) => requestsPerUnit)).toEqual([...blocks.keys()]);
  });
});

describe('counters', () => {
  const countersOf = (...blocks: readonly string[]) => limitsFrom(...blocks).map(({ counter }) => counter);

  test('differ between the limits of a node, even with the same algorithm and window', () => {
    expect(countersOf(FIVE_A_MINUTE, FIVE_A_MINUTE, 'unit: hour', 'window: 60s, requests_per_unit: 9')).toEqual([
      'fixed_window.2|60000',
      'fixed_window.2|60000#1',
      'fixed_window.2|3600000',
      'fixed_window.2|60000#2',
    ]);
  });

  test.each([
    ['number', 'unit: day, requests_per_unit: 5', 'unit: day, requests_per_unit: 6'],
    ['name', 'unit: day, name: a', 'unit: day, name: b'],
    ['soft part', 'unit: day', 'unit: day, soft: 5'],
    ['spelling of the window', 'unit: day, unit_multiplier: 2', 'window: 48h'],
    [
      'burst',
      'unit: day, requests_per_unit: 5, algorithm: token_bucket',
      'unit: day, requests_per_unit: 5, algorithm: token_bucket, burst: 9',
    ],
    [
      'delay',
      'unit: day, requests_per_unit: 5, algorithm: leaky_bucket',
      'unit: day, requests_per_unit: 5, algorithm: leaky_bucket, max_delay: 1s',
    ],
  ])('are the same with another %s', (_, one, other) => {
    expect(countersOf(one)).toEqual(countersOf(other));
  });

  test('differ by algorithm, window, alignment, time zone and number of parts', () => {
    const blocks = [
      ...['fixed_window', 'sliding_window_log', 'sliding_window_counter', 'token_bucket', 'leaky_bucket'].map(
        (algorithm) => `unit: day, requests_per_unit: 5, algorithm: ${algorithm}`,
      ),
      'unit: hour',
      'unit: day, unit_multiplier: 2',
      'unit: day, alignment: first_hit',
      'unit: day, alignment: calendar',
      'unit: day, alignment: calendar, timezone: Europe/Berlin',
      'unit: day, algorithm: sliding_window_buckets, buckets: 10',
      'unit: day, algorithm: sliding_window_buckets, buckets: 12',
    ];
    expect(new Set(blocks.flatMap((block) => countersOf(block))).size).toBe(blocks.length);
  });
});

describe('several limits of a node', () => {
  test('replace the limits that each of them names', () => {
    const { rules } = rulesFrom(
      fileWith('rate_limits: [{unit: day, replaces: [{name: x}]}, {unit: hour, replaces: [{name: y}, {name: z}]}]'),
    );
    expect(rules).toMatchObject([{ replaces: ['x', 'y', 'z'], unlimited: false }]);
  });

  test('may be a single one, also unlimited', () => {
    expect(limitsFrom(FIVE_A_MINUTE)).toHaveLength(1);
    expect(rulesFrom(fileWith('rate_limits: [{unlimited: true}]')).rules).toMatchObject([
      { limits: [], unlimited: true },
    ]);
  });

  test('are empty if nothing is written', () => {
    expect(rulesFrom(fileWith('rate_limits: ~')).rules).toEqual([]);
    expect(rulesFrom(fileWith(`rate_limits: ~, rate_limit: {${FIVE_A_MINUTE}}`)).rules).toHaveLength(1);
  });
});

describe('spend', () => {
  const domain = (key: string, spend?: string) =>
    `domain: demo\n${spend ? `spend: ${spend}\n` : ''}descriptors:\n  - {key: ${key}, rate_limit: {${FIVE_A_MINUTE}}}\n`;
  const spendOf = (loaded: LoadedRules) => loaded.ok && loaded.rules.domains.get('demo')?.spend;

  test.each([undefined, 'each', 'all_or_nothing', 'spare_others'])('%s', (spend) => {
    expect(spendOf(load([domain('user', spend)]))).toBe(spend);
  });

  test.each([
    ['the first', ['all_or_nothing', undefined]],
    ['the second', [undefined, 'all_or_nothing']],
    ['both', ['all_or_nothing', 'all_or_nothing']],
  ])('of merged files is that of %s', (_, [one, other]) => {
    expect(spendOf(load([domain('user', one), domain('path', other)], true))).toBe('all_or_nothing');
  });

  test('must be the same in all merged files, in any order', () => {
    const files = [domain('user', 'each'), domain('path'), domain('host', 'spare_others')];
    expect(told(load(files, true))).toEqual([
      "c.yaml:2: spend: must be the same in all files of domain 'demo', got each and spare_others",
    ]);
  });

  test('applies only to its own domain', () => {
    const loaded = load([domain('user', 'all_or_nothing'), domain('user').replace('demo', 'other')]);
    expect(loaded.ok && loaded.rules.domains.get('other')?.spend).toBeUndefined();
  });
});

describe('one mistake causes no message about another', () => {
  test.each([
    [
      'a wrong algorithm',
      'unit: day, requests_per_unit: 5, algorithm: [token_bucket], burst: 5',
      'algorithm: error loading',
    ],
    [
      'an unknown algorithm',
      'unit: day, requests_per_unit: 5, algorithm: bucket, burst: 5, max_delay: 1s',
      'unknown algorithm',
    ],
    ['a wrong window', 'window: 1.5, requests_per_unit: 5', 'window: error checking'],
    ['a wrong unit', 'unit: [day], window: 1d, requests_per_unit: 5', 'unit: config error'],
    ['a wrong alignment', 'unit: day, alignment: [calendar], timezone: UTC', 'alignment: error loading'],
    ['an unknown alignment', 'unit: day, alignment: date, timezone: UTC', 'alignment: must be'],
    ['wrong buckets', 'unit: day, algorithm: sliding_window_buckets, buckets: "6"', 'buckets: error loading'],
    ['a wrong burst', 'unit: day, requests_per_unit: 5, algorithm: leaky_bucket, burst: -1', 'burst: error loading'],
    [
      'a wrong delay',
      'unit: day, requests_per_unit: 5, algorithm: leaky_bucket, max_delay: 0.5',
      'max_delay: error checking',
    ],
  ])('%s', (_, block, message) => {
    expect(problemsOf(block)).toEqual([expect.stringContaining(message)]);
  });
});
