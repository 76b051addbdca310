import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { applyChange, mutants } from './mutants.ts';

const PROJECT = join(__dirname, '../..');

test.each(mutants)('each change of $file applies once, and its tests exist', ({ file, tests, changes }) => {
  const text = readFileSync(join(PROJECT, file), 'utf8');
  for (const change of changes) expect(applyChange(text, change)).not.toBe(text);
  for (const path of tests) expect(readFileSync(join(PROJECT, `${path}.test.ts`), 'utf8')).toContain('test');
});

test('a text that occurs twice, or nowhere, cannot be changed', () => {
  expect(applyChange('a b c', ['b', 'd'])).toBe('a d c');
  expect(() => applyChange('a b b', ['b', 'd'])).toThrow('a changed text must occur once, got 2 times: b');
  expect(() => applyChange('a', ['b', 'd'])).toThrow('got 0 times: b');
});
