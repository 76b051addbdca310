import '../helpers/realm.ts';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatProblem } from '../../src/engine/rules/read/problem.ts';
import fc from '../helpers/property.ts';
import { loadText } from '../helpers/rules.ts';
import { anyMutated } from './mutations.ts';

const examples = fileURLToPath(new URL('../../config/examples', import.meta.url));
const texts = readdirSync(examples).map((name) => readFileSync(join(examples, name), 'utf8'));

/** Any text results in rules, or in problems with their lines. */
function expectTold(text: string): void {
  const loaded = loadText(text);
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
  fc.assert(fc.property(anyMutated(texts, pieces), expectTold), { numRuns: 400 });
});

test('random text is loaded or refused', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), expectTold), { numRuns: 300 });
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
  const loaded = loadText(text);
  expect(loaded).toMatchObject({ ok: false, problems: [{ line: expect.any(Number) }] });
});

test('descriptors may be nested to any reasonable depth', () => {
  expect(loadText(nested(30)).ok).toBe(true);
});
