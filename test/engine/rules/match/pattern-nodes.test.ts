import { finish } from '../../../../src/engine/rules/compile/steps.ts';
import { textMatcher, valueMatcher } from '../../../../src/engine/rules/match/matchers.ts';
import { nodesByKey, nodesByValue } from '../../../../src/engine/rules/match/pattern-nodes.ts';
import type { RankedNode } from '../../../../src/engine/rules/match/tree.ts';
import { asRegExp } from '../../../helpers/patterns.ts';
import fc from '../../../helpers/property.ts';

const text = fc.string({ unit: fc.constantFrom('a', 'b', '/', '\uffff'), maxLength: 4 });
const pattern = fc
  .string({ unit: fc.constantFrom('a', 'b', '/', '*', '*', '\uffff'), maxLength: 4 })
  .filter((one) => one.includes('*'));
const value = fc.oneof(text, pattern);

/** A separate node for each pattern. */
const nodeOf = (key: string, written: string, rank: number): RankedNode => ({
  key: textMatcher(key),
  value: valueMatcher({ value: written }),
  rank,
  node: {
    composite: String(rank),
    naming: 'rule',
    hasRule: false,
    rule: undefined,
    children: undefined,
    sharedValue: undefined,
  },
});

const isMatch = (written: string, asked: string): boolean => written === '' || asRegExp(written).test(asked);

test('a search by value finds the first matching node among any number of nodes', () => {
  fc.assert(
    fc.property(fc.array(pattern, { minLength: 1, maxLength: 60 }), text, (all, asked) => {
      const nodes = all.map((one, rank) => nodeOf('k', one, rank));
      const wanted = nodes[all.findIndex((one) => isMatch(one, asked))];
      expect(finish(nodesByValue(nodes))?.find('k', asked)).toBe(wanted);
    }),
    { numRuns: 500 },
  );
});

test('a search by key finds the first node that matches both key and value among any number of nodes', () => {
  const patterns = fc.array(fc.tuple(pattern, value), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(patterns, text, text, (all, key, asked) => {
      const nodes = all.map(([keyPattern, written], rank) => nodeOf(keyPattern, written, rank));
      const wanted = nodes[all.findIndex(([one, other]) => isMatch(one, key) && isMatch(other, asked))];
      expect(finish(nodesByKey(nodes))?.find(key, asked)).toBe(wanted);
    }),
    { numRuns: 500 },
  );
});
