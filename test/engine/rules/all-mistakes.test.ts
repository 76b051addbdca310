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
