import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashRules } from '../../../src/engine/rules/compile/packed.ts';
import { checkRuleFiles } from '../../../src/engine/rules/reload/load.ts';
import { findReload } from '../../../src/operate/observe/reload.ts';
import { summarize } from '../../../src/operate/observe/rule-summary.ts';

const folder = mkdtempSync(join(tmpdir(), 'changes-'));

/** The rules of a file with these lines below `descriptors`. */
function loaded(descriptors: string, name = 'rules.yaml') {
  const path = join(folder, name);
  writeFileSync(path, `domain: d\ndescriptors:\n${descriptors}`);
  const checked = checkRuleFiles([{ path, name }], { mergeDomains: false });
  if (!checked.ok) throw new Error('expected rules that are right');
  const [domain] = checked.packed;
  return { packed: checked.packed, rules: domain ? summarize(domain, undefined) : new Map() };
}

const node = (key: string, requests: number): string =>
  `  - { key: ${key}, rate_limit: { unit: day, requests_per_unit: ${requests} } }\n`;

test('added, changed and removed rules are distinguished, regardless of their position', () => {
  const before = loaded(node('a', 1) + node('b', 1) + node('c', 1));
  const after = loaded(`# moved\n${node('c', 2)}${node('a', 1)}${node('new', 1)}`, 'other.yaml');
  const { text } = findReload(before.rules, after.rules);
  expect(text).toBe('added d.new; changed d.c; removed d.b; counters kept: d.c');
});

test('the hash depends on the meaning of rules, not on how they are written', () => {
  const before = loaded(node('a', 1));
  const moved = loaded(`\n# a comment\n${node('a', 1)}`, 'other.yaml');
  expect(hashRules(moved.packed)).toBe(hashRules(before.packed));
  expect(findReload(before.rules, moved.rules).text).toBeUndefined();
  expect(hashRules(loaded(node('a', 2)).packed)).not.toBe(hashRules(before.packed));
});

test('a reload reports which counters were kept and which start again', () => {
  const limit = (numbers: string): string => `  - { key: a, rate_limit: { ${numbers} } }\n`;
  const textOf = (before: string, after: string): string | undefined =>
    findReload(loaded(before).rules, loaded(after).rules).text;
  const day = limit('unit: day, requests_per_unit: 1');
  expect(textOf(day, limit('unit: day, requests_per_unit: 2'))).toBe('changed d.a; counters kept: d.a');
  expect(textOf(day, limit('unit: hour, requests_per_unit: 1'))).toBe('changed d.a; counters begin anew: d.a');
  expect(textOf(day, limit('unit: day, requests_per_unit: 1, algorithm: token_bucket'))).toBe(
    'changed d.a; counters begin anew: d.a',
  );
  const reset = (requests: number): string => limit(`unit: day, requests_per_unit: ${requests}, on_change: reset`);
  expect(textOf(reset(1), reset(2))).toBe('changed d.a; counters begin anew: d.a');
  expect(textOf(reset(1), `${reset(1)}${node('b', 1)}`)).toBe('added d.b');
  const shared = (more: string): string =>
    `  - { key: a, value: 'x*', ${more}rate_limit: { unit: day, requests_per_unit: 1 } }\n`;
  expect(textOf(shared(''), shared('share_threshold: true, '))).toBe('changed d.a_x*; counters begin anew: d.a_x*');
  expect(textOf(day, day)).toBeUndefined();
});

test('the counters of two rules with one path are kept only if those of both are', () => {
  const two = (unit: string, requests: number): string =>
    `  - { key: a, value: b_c, rate_limit: { unit: ${unit}, requests_per_unit: 1 } }
  - { key: a_b, value: c, rate_limit: { unit: day, requests_per_unit: ${requests} } }\n`;
  const { text } = findReload(loaded(two('day', 1)).rules, loaded(two('hour', 2)).rules);
  expect(text).toBe('changed d.a_b_c; counters begin anew: d.a_b_c');
});

test('a change of the unlimited times, or of the order of a schedule, counts as a change', () => {
  const scheduled = (...entries: readonly string[]): string =>
    `  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, schedule: [${entries.join(', ')}] } }\n`;
  const [saturday, sunday] = [
    '{ active: { days: sat }, unlimited: true }',
    '{ active: { days: sun }, unlimited: true }',
  ];
  const more = '{ active: { days: sat-sun }, requests_per_unit: 9 }';
  const textOf = (before: string, after: string): string | undefined =>
    findReload(loaded(before).rules, loaded(after).rules).text;
  const changed = 'changed d.a; counters kept: d.a';
  expect(textOf(scheduled(saturday), scheduled(sunday))).toBe(changed);
  expect(textOf(scheduled(saturday, more), scheduled(more, saturday))).toBe(changed);
  expect(textOf(scheduled(saturday), scheduled(saturday, sunday))).toBe(changed);
  expect(textOf(scheduled(saturday), scheduled(saturday))).toBeUndefined();
});

test('only the first five of many changes are named', () => {
  const many = Array.from({ length: 250 }, (_, at) => node(`k${at}`, 1)).join('');
  const { text } = findReload(loaded(node('a', 1)).rules, loaded(node('a', 1) + many).rules);
  expect(text).toBe('added d.k0, d.k1, d.k2, d.k3, d.k4 and 245 more');
});
