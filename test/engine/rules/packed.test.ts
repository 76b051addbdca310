import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { differing, type PackedRules, unpack } from '../../../src/engine/rules/compile/packed.ts';
import { match } from '../../../src/engine/rules/match/match.ts';
import type { Level, RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { RulesInForce } from '../../../src/engine/rules/reload/in-force.ts';
import { checkRuleFiles, loadRules } from '../../../src/engine/rules/reload/load.ts';

const CONFIG = join(__dirname, '../../../config');
const files = readdirSync(CONFIG, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'));

/** Keys, values and patterns of a level and of all levels below, without functions. */
const shapeOf = ({ byKey }: Level): unknown =>
  Array.from(byKey, ([key, { byValue, anyValue }]) => [
    key,
    [...byValue.values(), ...(anyValue ? [anyValue] : [])].map(
      ({ composite, naming, sharedValue, hasRule, rule, children }) => [
        JSON.stringify({ composite, naming, sharedValue, hasRule, rule }),
        children && shapeOf(children),
      ],
    ),
  ]);
const shapesOf = ({ domains, rules }: RuleTree) => [
  rules.length,
  JSON.stringify([...rules]),
  Array.from(domains.values(), ({ name, spend, root, ids, ruleCount }) => [name, spend, shapeOf(root), ids, ruleCount]),
];

test.each(files)('the rules of %s are the same after packing and unpacking', (name) => {
  const file = { path: join(CONFIG, name), name };
  const direct = loadRules([file], { mergeDomains: true });
  const checked = checkRuleFiles([file], { mergeDomains: true });
  if (!direct.ok || !checked.ok) throw new Error('expected rules that are right');
  const sent = structuredClone(checked.packed); // as another process receives it
  const rules = new RulesInForce().replaceAtOnce(sent);
  expect(shapesOf(rules)).toEqual(shapesOf(direct.rules));
  for (const { path: rulePath } of direct.rules.rules) {
    const [domain = '', ...levels] = rulePath.split('.');
    const entries = levels.map((level) => ({ key: level.split('_')[0] ?? '', value: level.split('_')[1] ?? 'any' }));
    const found = [rules, direct.rules].map((tree) =>
      JSON.stringify(match(tree, domain, { entries, requestLimit: undefined })),
    );
    expect(found[0]).toBe(found[1]);
  }
});

/** A domain whose pieces have two nodes each. */
const packedDomain = (name: string, hash: string, pieces: readonly string[] = []): PackedRules[number] => ({
  ...{ name, hash, pieces, spend: undefined },
});

test('a piece is read when its first node is needed', () => {
  const piece = JSON.stringify([['rules.yaml'], [0, 1].map((depth) => [depth, { key: `k${depth}` }, 0, depth + 1])]);
  const nodes = unpack(packedDomain('a', '', [piece, piece, 'not JSON']));
  const first = nodes.next();
  expect(first?.written.block.values).toEqual({ key: 'k0' });
  expect(first?.written.block.place()).toEqual({ file: 'rules.yaml', line: 1, path: '' });
  expect(first?.below?.next()?.written.block.values).toEqual({ key: 'k1' });
  expect(first?.below?.next()).toBeUndefined();
  const second = nodes.next();
  expect(second?.written.block.values).toEqual({ key: 'k0' });
  expect(() => second?.below?.next()).toThrow(SyntaxError); // the text after its last node shows whether it has children
});

test('only domains that are different in both versions are reported', () => {
  const [same, changed, removed, added] = ['same', 'changed', 'removed', 'added'].map((name) =>
    packedDomain(name, '1'),
  );
  const other = packedDomain('changed', '2');
  const before = [same, changed, removed].flatMap((domain) => domain ?? []);
  const after = [added, other, same].flatMap((domain) => domain ?? []);
  expect(differing(before, after)).toEqual({ before: [changed, removed], after: [added, other] });
});
