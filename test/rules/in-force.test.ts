import { RulesInForce } from '../../src/rules/in-force.ts';
import type { PackedRules } from '../../src/rules/packed.ts';
import { heapBytes } from '../helpers/heap.ts';

/** Two domains, of which the first is the same in every version. */
const packedRules = (version: number): PackedRules =>
  ['same', 'other'].map((name) => ({
    ...{ name, spend: undefined },
    hash: name,
    pieces: Array.from({ length: 10 }, (_, piece) =>
      JSON.stringify([
        ['rules.yaml'],
        Array.from({ length: 32 }, (_, at) => {
          const limit = { unit: 'day', requests_per_unit: name === 'same' ? 1 : version };
          return [0, { key: `k${piece}`, value: `v${at}`, rate_limit: limit }, 0, at];
        }),
      ]),
    ),
  }));

test('a hundred reloads leave no more memory in use than the first ones', async () => {
  const inForce = new RulesInForce();
  let version = 1;
  const reload = async (times: number) => {
    for (let time = 0; time < times; time++) await inForce.replace(packedRules(version++));
  };
  await reload(10);
  const beforeBytes = heapBytes();
  await reload(100);
  expect(heapBytes() - beforeBytes).toBeLessThan(200_000); // a hundred versions take millions
  expect(inForce.tree?.rules).toHaveLength(2 * 10 * 32);
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
