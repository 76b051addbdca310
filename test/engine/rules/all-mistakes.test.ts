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
