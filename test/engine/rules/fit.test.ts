import type { StoreTraits } from '../../../src/engine/rules/compile/fit.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { loadText } from '../../helpers/rules.ts';

function problems(text: string, traits: Partial<StoreTraits>): readonly string[] {
  const able = { atomic: 'request', keepsEntries: true, leases: true, spend: 'each' } as const;
  const store: StoreTraits = { name: 'memcached', ...able, ...traits };
  const loaded = loadText(text, { store });
  return loaded.ok ? [] : loaded.problems.map(formatProblem);
}

const limit = (more: string) => `{unit: day, requests_per_unit: 1, ${more}}`;
const log = limit('algorithm: sliding_window_log');
const plain = limit('name: x');

test.each([
  [
    'in memory there is nothing to lease from',
    'consistency: leased',
    { leases: false },
    'consistency: leased saves calls to Redis, and the counters are in memcached',
  ],
  [
    'a request that spends as a set cannot lease',
    'consistency: leased',
    { spend: 'all_or_nothing' },
    'consistency: leased counts each limit separately, and cannot be used with spend: all_or_nothing',
  ],
  [
    'a request that spends as a set may leave a report out',
    'charge: always',
    { spend: 'spare_others' },
    'charge: always counts refused hits, which spend: spare_others may leave out',
  ],
] as const)('%s', (_, more, traits, message) => {
  const text = `domain: d\ndescriptors: [{key: k, rate_limit: ${limit(more)}}]`;
  expect(problems(text, {})).toEqual([]);
  expect(problems(text, traits)).toEqual([`rules.yaml:2: descriptors[0].rate_limit.${message}`]);
});

test('an algorithm that the store does not support is reported wherever it is used', () => {
  const text = `domain: d
descriptors:
  - key: a
    rate_limit: ${log}
  - key: b
    descriptors:
      - key: c
        rate_limits: [${plain}, ${log}]
`;
  const message = 'sliding_window_log cannot be counted in memcached; use another algorithm, or Redis';
  expect(problems(text, { keepsEntries: false })).toEqual([
    `rules.yaml:4: descriptors[0].rate_limit.algorithm: ${message}`,
    `rules.yaml:8: descriptors[1].descriptors[0].rate_limits[1].algorithm: ${message}`,
  ]);
  expect(problems(text, {})).toEqual([]);
});

test('an algorithm that the store does not support is reported in each entry of a schedule', () => {
  const text = `domain: d
descriptors:
  - key: a
    rate_limits:
      - unit: day
        requests_per_unit: 1
        schedule:
          - { active: { days: sat }, requests_per_unit: 2 }
          - { active: { days: sun }, algorithm: sliding_window_log }
          - active: { hours: 22:00-06:00 }
            algorithm: sliding_window_log
`;
  const message = 'sliding_window_log cannot be counted in memcached; use another algorithm, or Redis';
  expect(problems(text, { keepsEntries: false })).toEqual([
    `rules.yaml:9: descriptors[0].rate_limits[0].schedule[1].algorithm: ${message}`,
    `rules.yaml:11: descriptors[0].rate_limits[0].schedule[2].algorithm: ${message}`,
  ]);
  expect(problems(text, {})).toEqual([]);
});

test.each(['all_or_nothing', 'spare_others'])(
  'spend: %s requires a store that decides a request in one step',
  (spend) => {
    const text = `domain: d\nspend: ${spend}\ndescriptors: [{key: a, rate_limit: ${plain}}]\n`;
    expect(problems(text, { atomic: 'counter' })).toEqual([
      `rules.yaml:2: spend: ${spend} requires all limits of a request to be counted in one step, which memcached cannot do`,
    ]);
    expect(problems(text, {})).toEqual([]);
    expect(problems(text.replace(spend, 'each'), { atomic: 'counter' })).toEqual([]);
  },
);

describe('with CONSISTENCY=leased', () => {
  const loaded = (limit: string, traits: Partial<StoreTraits> = {}, top = '') => {
    const store: StoreTraits = {
      name: 'these Redis',
      atomic: 'request',
      keepsEntries: true,
      leases: true,
      leasesByDefault: true,
      spend: 'each',
      ...traits,
    };
    const text = `domain: d\n${top}descriptors: [{key: a, descriptors: [{key: b, ${limit}}]}]`;
    const found = loadText(text, { store });
    if (!found.ok) throw new Error(found.problems.map(formatProblem).join('\n'));
    return [...found.rules.rules].flatMap(({ limits }) => limits.map(({ policy }) => policy.consistency));
  };
  const one = (more: string) => `rate_limit: {unit: day, requests_per_unit: 9${more}}`;

  test.each([
    ['a limit without an algorithm', one('')],
    ['a fixed window', one(', algorithm: fixed_window')],
    ['a token bucket', one(', algorithm: token_bucket')],
    ['a limit of several', `rate_limits: [{unit: day, requests_per_unit: 9}]`],
  ])('%s is leased', (_what, limit) => {
    expect(loaded(limit)).toEqual(['leased']);
  });

  test.each<[string, string, Partial<StoreTraits>?, string?]>([
    ['the rule says strict', one(', consistency: strict')],
    ['its algorithm cannot be leased', one(', algorithm: sliding_window_log')],
    ['it has a soft part', one(', soft: 1')],
    ['refused hits are charged', one(', charge: always')],
    ['the store cannot lease', one(''), { leases: false }],
    ['the setting is off', one(''), { leasesByDefault: false }],
    ['requests spend as a set', one(''), { spend: 'all_or_nothing' }],
    ['requests of the domain spend as a set', one(''), {}, 'spend: spare_others\n'],
  ])('a limit is counted strictly if %s', (...[, limit, traits, top]) => {
    expect(loaded(limit, traits, top)).toEqual([undefined]);
  });

  test('unlimited rules stay so', () => {
    expect(loaded('rate_limit: {unlimited: true}')).toEqual([]);
  });
});

const rule = (more: string) => `domain: d\ndescriptors: [{key: k, rate_limit: ${limit(more)}}]`;

test.each([
  ['algorithm: token_bucket', 'algorithm: token_bucket'],
  ['algorithm: in_flight, ttl: 60s', 'algorithm: in_flight'],
  ['share: {by: tenant}', 'share:'],
])('a store without scripts refuses %s by name, with the reason', (more, what) => {
  const text = rule(more).replace('unit: day, ', more.includes('in_flight') ? '' : 'unit: minute, ');
  const runs = { reason: () => undefined, learn: async () => false };
  expect(problems(text, { name: 'these Redis', limitation: runs })).toEqual([]);
  const limitation = { ...runs, reason: () => 'NOPERM no eval' };
  expect(problems(text, { name: 'these Redis', limitation })).toEqual([
    `rules.yaml:2: descriptors[0].rate_limit.${what} needs a script, which cannot run in these Redis: NOPERM no eval`,
  ]);
});

test('a store without scripts refuses requests that spend as a set, and takes fixed windows without being asked', () => {
  let asked = 0;
  const reason = () => {
    asked++;
    return 'NOPERM no eval';
  };
  const limitation = { reason, learn: async () => false };
  expect([problems(rule('name: x'), { limitation }), asked]).toEqual([[], 0]);
  const set = rule('name: x').replace('domain: d', 'domain: d\nspend: all_or_nothing');
  expect(problems(set, { name: 'these Redis', limitation })).toEqual([
    'rules.yaml:2: spend: all_or_nothing needs a script, which cannot run in these Redis: NOPERM no eval',
  ]);
});
