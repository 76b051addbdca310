import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { loadRules } from '../../../src/engine/rules/reload/load.ts';
import fc from '../../helpers/property.ts';

const VALID = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: path
    value: /a
    rate_limit:
      unit: hour
      requests_per_unit: 10
      on_store_failure: deny
    descriptors:
      - key: plan
        rate_limit: { unit: day, requests_per_unit: 7, algorithm: token_bucket }
  - key: tenant
    rate_limits:
      - { unit: second, requests_per_unit: 3 }
      - { window: 30s, requests_per_unit: 3 }
`;

/** By line: what may be written instead of it. The first lines of blocks with errors of syntax hide these blocks. */
const mistakes: Readonly<Record<number, readonly string[]>> = {
  1: ['domain shop', 'domain: "shop', 'domain: [shop', '\tdomain: shop', 'domains: shop', 'domain: *shop'],
  4: [
    '    rate_limit: { unit: minut, requests_per_unit: 5 }',
    '    rate_limit: { unit: minute, requests_per_unit: five }',
    '    rate_limit: { unit: minute, requests_per_unit: 5',
    '    rate_limits: { unit: minute, requests_per_unit: 5 }',
  ],
  6: ['    value: a: b', '    valeu: /a', '      value: /a'],
  8: ['      unit: ours', '      unit hour', '\t  unit: hour'],
  10: ['      on_store_failure: pass', '      on_stroe_failure: deny'],
  13: [
    '        rate_limit: { unit: day, requests_per_unit: 7, algorithm: token_buket }',
    '        rate_limit: { unit: day, requests_per_unit: 7, algorithm: token_bucket, burst: 0 }',
    '        rate_limit: { unit: day, requests_per_unit: 7, algorithm: token_bucket, buckets: 3 }',
  ],
  14: ['  - key: tenant: x', '  - kye: tenant', "  - key: 'tenant"],
};

function problemsOf(written: readonly (readonly [line: number, text: string])[]): readonly string[] {
  const lines = VALID.split('\n');
  for (const [line, text] of written) lines[line - 1] = text;
  const loaded = loadRules([{ path: '', name: 'rules.yaml', text: lines.join('\n') }], { mergeDomains: false });
  return loaded.ok ? [] : loaded.problems.filter(({ severity }) => severity === 'error').map(formatProblem);
}

const all = Object.entries(mistakes).flatMap(([line, texts]) => texts.map((text) => [Number(line), text] as const));

test.each(all)('line %d: %s: is one mistake, and has one message', (line, text) => {
  const misspelled = /domains|kye/.test(text); // then the right key is missing, too
  expect(problemsOf([[line, text]])).toHaveLength(misspelled ? 2 : 1);
});

test('every mistake of a file is reported, whatever others it has', () => {
  const anyOf = fc.record(
    Object.fromEntries(Object.entries(mistakes).map(([line, texts]) => [line, fc.constantFrom(...texts)])),
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(anyOf, (chosen) => {
      const written = Object.entries(chosen).map(([line, text]) => [Number(line), text as string] as const);
      const alone = written.flatMap((one) => problemsOf([one]).slice(0, 1));
      expect(problemsOf(written)).toEqual(expect.arrayContaining(alone));
    }),
    { numRuns: 25 },
  );
});

/** The paths of the problems of a limit, below it, in their order. */
function pathsOf(limit: string): readonly string[] {
  const text = `domain: shop\ndescriptors: [{ key: user, rate_limit: { ${limit} } }]\n`;
  const loaded = loadRules([{ path: '', name: 'rules.yaml', text }], { mergeDomains: false });
  return loaded.ok ? [] : loaded.problems.map(({ path }) => path.replace('descriptors[0].rate_limit.', ''));
}

test.each([
  ['unit: minute, requests_per_unit: 5, notify: [0%], penalty: { block: 1ms }', ['notify', 'penalty.block']],
  [
    'unit: minute, requests_per_unit: 5, algorithm: token_bucket, on_change: x, buckets: 6, burst: 0',
    ['on_change', 'buckets', 'burst'],
  ],
  ['unit: second, requests_per_unit: 5, replaces: 5, notify: [0%], burst: 3', ['replaces', 'notify', 'burst']],
  ['unit: day, requests_per_unit: 5, share: { by: team }, adapt: {}', ['adapt', 'share']],
  [
    'unit: second, requests_per_unit: 5, algorithm: in_flight, ttl: 9s, on_store_failure: local, notify: [9%]',
    ['unit', 'on_store_failure', 'notify'],
  ],
  [
    'unit: minute, requests_per_unit: 5, schedule: [{ active: { hours: 25:00-26:00 }, buckets: 7 }, { active: 5, soft: -1, window: 0s }, { burst: 3 }]',
    [
      'schedule[1].active',
      'schedule[1].soft',
      'schedule[0].active.hours',
      'schedule[0].buckets',
      'schedule[1].window',
      'schedule[2].active',
      'schedule[2].burst',
    ],
  ],
  [
    'unit: minit, requests_per_unit: 5, schedule: [{ active: { days: sun }, unit: minute, buckets: 7 }]',
    ['unit', 'schedule[0].buckets'],
  ],
  [
    'unit: minit, requests_per_unit: 5, penalty: { block: 1ms, grow: 3, forgiven_after: 1ms, prolong: x }, soft: x',
    ['penalty.prolong', 'soft', 'unit', 'penalty.block', 'penalty.grow', 'penalty.forgiven_after'],
  ],
  [
    'unit: minute, requests_per_unit: 5, reserve: { ttl: 1ms, on_overrun: x, on_lapse: x, estimate: 9 }, charge: always, consistency: leased, on_store_failure: local',
    ...[['charge', 'charge', 'consistency', 'on_store_failure', 'reserve']].map((paths) => [
      ...paths,
      ...['ttl', 'on_overrun', 'on_lapse', 'estimate'].map((key) => `reserve.${key}`),
    ]),
  ],
  [
    'algorithm: in_flight, ttl: 2d, requests_per_unit: 5, soft: 1, adapt: { target: x, max: 0, window: 1ms }',
    ['ttl', 'requests_per_unit', 'soft', 'adapt', 'adapt.target', 'adapt.max', 'adapt.window'],
  ],
  [
    'unit: second, requests_per_unit: 5, soft: 1, charge: always, algorithm: token_bucket, share: { spare: 51% }',
    ['share.spare', 'share.by', 'soft', 'charge'],
  ],
  [
    'algorithm: x, unit: day, requests_per_unit: 5, sites: { mode: optimistic, max_error: 51% }, soft: 1, max_delay: 1s',
    ['algorithm', 'sites.max_error', 'soft', 'max_delay'],
  ],
  [
    'unit: day, per_replica: 0, burst: 1, soft: 1, on_change: reset, replicas: { dns: "a b", min: 0 }',
    ['burst', 'soft', 'on_change', 'replicas.dns', 'replicas.min', 'burst'],
  ],
  [
    'unit: day, requests_per_unit: 5, alignment: { anchor: x, timezone: y }',
    ['alignment.timezone', 'alignment.anchor'],
  ],
  [
    'unit: day, requests_per_unit: 5, active: { from: x, until: y, days: z, timezone: u }',
    ['active.timezone', 'active.from', 'active.until', 'active.days'],
  ],
])('each mistake of the limit { %s } is reported at once', (limit, paths) => {
  expect(pathsOf(limit)).toEqual(paths);
});

test.each([
  ['share', 'unit: second, requests_per_unit: 5, share: team, burst: 3'],
  ['per_replica', 'unit: second, per_replica: 5, algorithm: token_bucket'],
  ['requests_per_unit', 'unit: second, requests_per_unit: five, local_share: 2'],
])('no other key is named because %s is wrong in { %s }', (key, limit) => {
  expect(pathsOf(limit)).toEqual([key]);
});

test.each([
  ['reserve', 'unit: second, requests_per_unit: 5, reserve: { ttl: 5, on_lapse: x }', ['ttl', 'on_lapse']],
  ['penalty', 'unit: second, requests_per_unit: 5, penalty: { block: 5, grow: x }', ['block', 'grow']],
  ['share', 'unit: second, requests_per_unit: 5, share: { by: [5], spare: 60% }', ['by', 'spare']],
  ['active', 'unit: second, requests_per_unit: 5, active: { from: 5, days: x }', ['from', 'days']],
  ['alignment', 'unit: second, requests_per_unit: 5, alignment: { anchor: 5, timezone: x }', ['anchor', 'timezone']],
])('a key of %s with a value of another type hides no other mistake: { %s }', (block, limit, keys) => {
  expect(pathsOf(limit)).toEqual(expect.arrayContaining(keys.map((key) => `${block}.${key}`)));
});
