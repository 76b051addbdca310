import '../helpers/realm.ts';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatProblem } from '../../src/engine/rules/read/problem.ts';
import { type LoadedRules, loadRules } from '../../src/engine/rules/reload/load.ts';
import fc from '../helpers/property.ts';
import { anyMutated } from './mutations.ts';

const folder = mkdtempSync(join(tmpdir(), 'fuzz-'));

const examples = fileURLToPath(new URL('../../config/examples', import.meta.url));
const texts = readdirSync(examples).map((name) => readFileSync(join(examples, name), 'utf8'));

function load(content: string | Uint8Array): LoadedRules {
  const path = join(folder, 'rules.yaml');
  writeFileSync(path, content);
  return loadRules([{ path, name: 'rules.yaml' }], { mergeDomains: false });
}

/** Any file results in rules, or in problems with their lines. */
function expectTold(content: string | Uint8Array): void {
  const loaded = load(content);
  if (loaded.ok) return expect(loaded.rules).toBeDefined();
  expect(loaded.problems.filter(({ severity }) => severity === 'error')).not.toEqual([]);
  for (const problem of loaded.problems) {
    expect(problem).toMatchObject({
      file: 'rules.yaml',
      line: expect.any(Number),
      message: expect.stringMatching(/./),
    });
    expect(formatProblem(problem).length).toBeLessThan(10_000);
  }
}

const pieces = [
  '&a ',
  '*a',
  '<<: *a',
  '---\n',
  '- ',
  ': ',
  '{',
  '}',
  '[',
  ']',
  '"',
  "'",
  '|\n',
  '>\n',
  '!!binary ',
  '#',
  '\t',
  '\r',
  '\0',
  '~',
  '~1',
];

test('almost valid files are loaded or refused', () => {
  fc.assert(fc.property(anyMutated(texts, pieces), expectTold), { numRuns: 3_000 });
});

test('random text and octets are loaded or refused', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), expectTold), { numRuns: 1_000 });
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), expectTold), { numRuns: 1_000 });
});

const nested = (levels: number): string =>
  `domain: d\ndescriptors: ${'[{key: k, descriptors: '.repeat(levels)}[]${'}]'.repeat(levels)}`;

test.each([
  ['lists in lists', '['.repeat(100_000)],
  ['maps in maps', '{a: '.repeat(100_000)],
  ['lists in lists, by lines', `${'- '.repeat(50_000)}a`],
  ['maps in maps that are keys', '? '.repeat(50_000)],
  ['descriptors in descriptors', nested(20_000)],
])('%s nested too deep are reported', (_what, text) => {
  const loaded = load(text);
  expect(loaded).toMatchObject({ ok: false, problems: [{ line: expect.any(Number) }] });
});

test('descriptors may be nested to any reasonable depth', () => {
  expect(load(nested(30)).ok).toBe(true);
});

test.each([
  [
    'lists',
    Array.from(
      { length: 30 },
      (_, at) =>
        `a${at}: &a${at} [${Array(10)
          .fill(at === 0 ? 'x' : `*a${at - 1}`)
          .join(', ')}]`,
    ),
  ],
  [
    'maps',
    Array.from(
      { length: 30 },
      (_, at) =>
        `a${at}: &a${at} {${Array.from({ length: 10 }, (_, key) => `k${key}: ${at === 0 ? 'x' : `*a${at - 1}`}`).join(', ')}}`,
    ),
  ],
])('aliases of aliases of %s that stand for 10^30 values are refused', (_what, lines) => {
  expect(load(lines.join('\n'))).toMatchObject({
    ok: false,
    problems: [{ message: expect.stringContaining('aliases') }],
  });
});
