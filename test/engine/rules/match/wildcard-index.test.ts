import { compileWildcard } from '../../../../src/engine/rules/match/pattern.ts';
import type { WildcardNode } from '../../../../src/engine/rules/match/tree.ts';
import { createWildcardIndex } from '../../../../src/engine/rules/match/wildcard-index.ts';
import fc from '../../../helpers/property.ts';

const text = fc.string({ unit: fc.constantFrom('a', 'b', '/'), maxLength: 4 });
const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '/', '*'), maxLength: 4 });

/** A separate node for each pattern. */
const nodeOf = (key: string, value: string | undefined, at: number): WildcardNode => ({
  key: compileWildcard(key),
  value: value === undefined ? undefined : compileWildcard(value),
  node: {
    composite: String(at),
    naming: 'rule',
    hasRule: false,
    rule: undefined,
    children: undefined,
    sharedValue: undefined,
  },
});

test.each(['key', 'value'] as const)('by %s, the first matching node is found, for any number of nodes', (by) => {
  const patterns = fc.array(
    fc.tuple(by === 'key' ? pattern : fc.constant('k*'), fc.option(pattern, { nil: undefined })),
    {
      maxLength: 60,
    },
  );
  fc.assert(
    fc.property(patterns, by === 'key' ? text : fc.constant('k'), text, (all, key, value) => {
      const nodes = all.map(([keyPattern, valuePattern], at) => nodeOf(keyPattern, valuePattern, at));
      const wanted = nodes.find((one) => one.key.matches(key) && (!one.value || one.value.matches(value)));
      expect(createWildcardIndex(nodes, by).find(key, value)).toBe(wanted?.node);
    }),
    { numRuns: 2_000 },
  );
});
