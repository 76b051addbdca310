import type { PackedRules } from '../../../../src/engine/rules/compile/packed.ts';
import { match } from '../../../../src/engine/rules/match/match.ts';
import type { Rule, RuleTree } from '../../../../src/engine/rules/match/tree.ts';
import { RulesInForce } from '../../../../src/engine/rules/reload/in-force.ts';
import { heapBytes, restingHeapBytes } from '../../../helpers/heap.ts';

/** Two domains; the first is the same in every version. */
const packedRules = (version: number, pieces = 10): PackedRules =>
  ['same', 'other'].map((name) => ({
    ...{ name, spend: undefined },
    hash: name,
    pieces: Array.from({ length: pieces }, (_, piece) =>
      JSON.stringify([
        ['rules.yaml'],
        Array.from({ length: 32 }, (_, at) => {
          const limit = { unit: 'day', requests_per_unit: name === 'same' ? 1 : version };
          return [0, { key: `k${piece}`, value: `v${at}`, rate_limit: limit }, 0, at];
        }),
      ]),
    ),
  }));

test('reloads leave no more memory in use than the first ones', () => {
  const inForce = new RulesInForce();
  let version = 1;
  const reload = (times: number): void => {
    for (let time = 0; time < times; time++) {
      const { rules } = inForce.replaceAtOnce(packedRules(version++));
      expect([...rules]).toHaveLength(rules.length); // creates them
    }
  };
  reload(10);
  const beforeBytes = heapBytes();
  reload(30);
  expect(heapBytes() - beforeBytes).toBeLessThan(200_000); // thirty versions would take millions
  expect(inForce.tree?.rules).toHaveLength(2 * 10 * 32);
});

/** The rules of a tree, and the memory that listing them takes. */
async function listed(tree: RuleTree): Promise<{ readonly rules: readonly Rule[]; readonly bytes: number }> {
  const before = await restingHeapBytes(); // garbage of the previous test can only be collected in a later turn
  const rules = [...tree.rules];
  return { rules, bytes: heapBytes() - before };
}

test('a rule uses memory when it is first needed, and remains the same object afterwards', async () => {
  const inForce = new RulesInForce();
  const tree = inForce.replaceAtOnce(packedRules(1, 100));
  const { rules, bytes } = await listed(tree);
  expect(bytes).toBeGreaterThan(rules.length * 500);
  const met = match(tree, 'other', { entries: [{ key: 'k3', value: 'v7' }], requestLimit: undefined });
  expect('rule' in met && met.rule).toBe(rules.find(({ path }) => path === 'other.k3_v7'));
  expect([...tree.rules].every((rule, at) => rule === rules[at])).toBe(true);
});

test("a rule that charges its parent's reservations can be needed before the parent", () => {
  const limit = { unit: 'minute', requests_per_unit: 100, reserve: { ttl: '60s' } };
  const nodes = [
    [0, { key: 'call', not_counted: 'hold' }, 0, 1],
    [1, { key: 'user', rate_limit: limit }, 0, 2],
    [2, { key: 'used', not_counted: 'commit' }, 0, 3],
  ];
  const pieces = [JSON.stringify([['rules.yaml'], nodes])];
  const tree = new RulesInForce().replaceAtOnce([{ name: 'd', hash: 'd', spend: undefined, pieces }]);
  const root = tree.domains.get('d')?.root.byKey;
  const user = root?.get('call')?.anyValue?.children?.byKey.get('user')?.anyValue;
  const used = user?.children?.byKey.get('used')?.anyValue;
  expect(used?.rule?.commitAt).toBe(2);
  expect(used?.rule?.limits).toEqual([user?.rule?.limits[0]]);
  expect(tree.rules).toHaveLength(1);
});

test('a domain that has not changed is not compiled again, and listeners are notified of each change', async () => {
  const inForce = new RulesInForce();
  let changes = 0;
  inForce.onChange(() => {
    changes++;
  });
  const first = await inForce.replace(packedRules(1));
  const second = await inForce.replace(packedRules(2));
  expect(second.domains.get('same')).toBe(first.domains.get('same'));
  expect(second.domains.get('other')).not.toBe(first.domains.get('other'));
  expect([changes, inForce.packed]).toEqual([2, packedRules(2)]);
});

test('rules are replaced a few nodes per turn of the event loop, and applied in one step', async () => {
  const inForce = new RulesInForce();
  inForce.replaceAtOnce(packedRules(1, 20));
  const before = inForce.tree;
  let turns = 0;
  const seen = new Set<unknown>();
  await inForce.replace(packedRules(2, 20), async () => {
    turns++;
    seen.add(inForce.tree);
  });
  expect(turns).toBeGreaterThanOrEqual(20);
  expect([...seen]).toEqual([before]);
  const limits = [...(inForce.tree?.domains.get('other')?.root.byKey.get('k0')?.byValue.values() ?? [])];
  expect(limits.every(({ rule }) => rule?.limits[0]?.limit.requestsPerUnit === 2)).toBe(true);
});
