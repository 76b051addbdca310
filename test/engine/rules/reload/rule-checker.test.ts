import '../../../helpers/realm.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatProblem } from '../../../../src/engine/rules/read/problem.ts';
import { type CheckedRules, checkRuleFiles, type RuleFileState } from '../../../../src/engine/rules/reload/load.ts';
import { RuleChecker } from '../../../../src/engine/rules/reload/rule-checker.ts';

const folder = mkdtempSync(join(tmpdir(), 'checker-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A file with one rule; its content can change without its state. */
function written(name: string, domain: string, key: string, state = key): RuleFileState {
  const path = join(folder, name);
  writeFileSync(
    path,
    `domain: ${domain}\ndescriptors:\n- {key: ${key}, rate_limit: {unit: day, requests_per_unit: 1}}\n`,
  );
  return { path, name, state };
}

const keys = (checked: CheckedRules): string | readonly string[] =>
  checked.ok
    ? checked.packed.map(({ name, pieces }) => `${name}: ${pieces.join().match(/"key":"\w+"/g)}`)
    : checked.problems.map(formatProblem);

test('after a change of one file, no other domain is read again', () => {
  const checker = new RuleChecker({ mergeDomains: false });
  const files = [written('a.yaml', 'a', 'one'), written('b.yaml', 'b', 'one'), written('c.yaml', 'c', 'one')];
  checker.check(files, []);
  for (const name of ['a', 'c']) written(`${name}.yaml`, name, 'unseen');
  const changed = files.map((file) => (file.name === 'b.yaml' ? written('b.yaml', 'b', 'two') : file));
  expect(keys(checker.check(changed, []))).toEqual(['a: "key":"one"', 'b: "key":"two"', 'c: "key":"one"']);
});

test('a domain of several files is checked again as a whole', () => {
  const checker = new RuleChecker({ mergeDomains: true });
  const files = [written('d.yaml', 'd', 'one'), written('e.yaml', 'd', 'two'), written('f.yaml', 'f', 'one')];
  checker.check(files, []);
  written('f.yaml', 'f', 'unseen');
  const changed = files.map((file) => (file.name === 'e.yaml' ? written('e.yaml', 'd', 'three') : file));
  expect(keys(checker.check(changed, []))).toEqual(['d: "key":"one","key":"three"', 'f: "key":"one"']);
  expect(keys(checker.check(changed.slice(1), []))).toEqual(['d: "key":"three"', 'f: "key":"one"']);
});

test('a domain that moves into another file is found there', () => {
  const checker = new RuleChecker({ mergeDomains: false });
  const files = [written('g.yaml', 'g', 'one'), written('h.yaml', 'h', 'one')];
  checker.check(files, []);
  const [g, h] = files as [RuleFileState, RuleFileState];
  const taken = written('h.yaml', 'g', 'two');
  expect(keys(checker.check([g, taken], []))).toEqual([
    "h.yaml:1: domain: duplicate domain 'g' in config file: give each domain one file, or set MERGE_DOMAIN_CONFIG=true",
  ]);
  expect(keys(checker.check([written('g.yaml', 'h', 'three'), taken], []))).toEqual([
    'h: "key":"three"',
    'g: "key":"two"',
  ]);
  expect(h.state).toBe('one');
});

test('a file that could not be read is read again although its state is the same', () => {
  const checker = new RuleChecker({ mergeDomains: false });
  const [good, bad] = [written('i.yaml', 'i', 'one'), written('j.yaml', 'j', '', 'same')];
  expect(checker.check([good, bad], []).ok).toBe(false);
  written('j.yaml', 'j', 'one', 'same');
  expect(keys(checker.check([good, bad], []))).toEqual(['i: "key":"one"', 'j: "key":"one"']);
});

test('rules with an overlay are the same as without the checker', () => {
  const checker = new RuleChecker({ mergeDomains: false });
  const files = [written('k.yaml', 'k', 'one'), written('l.yaml', 'l', 'one')];
  const overlay = [{ name: 'o.yaml', text: 'domain: k\ndescriptors: [{key: one, shadow_mode: true}]' }];
  checker.check(files, []);
  expect(checker.check(files, overlay)).toEqual(checkRuleFiles(files, { mergeDomains: false, overlay }));
  expect(checker.check(files, [])).toEqual(checkRuleFiles(files, { mergeDomains: false }));
});
