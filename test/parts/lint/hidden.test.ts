import '../../helpers/realm.ts';
import { match } from '../../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import fc from '../../helpers/property.ts';
import { loadText } from '../../helpers/rules.ts';

interface Written {
  readonly key: string;
  readonly value: string;
}

/**
 * Loads a level of these nodes, each with a limit named by its index. @returns the rules, and the indexes of hidden
 * nodes
 */
function load(nodes: readonly Written[]): { readonly rules: RuleTree; readonly hidden: readonly number[] } {
  const descriptors = nodes.map(({ key, value }, at) => ({
    key,
    value,
    rate_limit: { name: `${at}`, unit: 'day', requests_per_unit: 1 },
  }));
  const loaded = loadText(JSON.stringify({ domain: 'd', descriptors }));
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const hidden = loaded.warnings.flatMap(({ path: place, message }) =>
    message.startsWith('unreachable') ? [Number(/\d+/.exec(place)?.[0])] : [],
  );
  return { rules: loaded.rules, hidden };
}

/** The index of the node that an entry matches. */
function reached(rules: RuleTree, entry: Written): number | undefined {
  const found = match(rules, 'd', { entries: [entry], requestLimit: undefined });
  return 'limits' in found ? Number(found.limits[0]?.label.name) : undefined;
}

const node = (key: string, value = ''): Written => ({ key, value });

test.each<[what: string, nodes: readonly Written[], hidden: readonly number[]]>([
  ['a narrow pattern behind a wide one', [node('k', 'foo*'), node('k', 'foobar*')], [1]],
  ['a narrow pattern with others between', [node('k', 'foo*'), node('k', 'x*'), node('k', 'foobar*')], [2]],
  ['not a narrow pattern before a wide one', [node('k', 'foobar*'), node('k', 'foo*')], []],
  ['not a pattern that only overlaps', [node('k', 'a*'), node('k', '*b')], []],
  ['a pattern whose parts stand in the same order', [node('k', 'a*c'), node('k', 'a*b*c')], [1]],
  ['not a pattern in which parts of the other overlap', [node('k', 'ab*ba*'), node('k', 'aba*')], []],
  ['a pattern that differs in its number of stars alone', [node('k', 'a*'), node('k', 'a**')], [1]],
  ['not an exact value', [node('k', '*'), node('k', 'a')], []],
  ['a key alone, wherever the `*` stands', [node('k'), node('k', '*')], [0]],
  ['not a key alone beside a pattern that leaves values over', [node('k'), node('k', 'a*')], []],
  ['not a key alone beside another key', [node('k'), node('l', '*')], []],
  ['a key alone beside a pattern of keys', [node('user'), node('us*')], [0]],
  ['not a key alone beside a pattern of keys with a value', [node('user'), node('us*', 'a')], []],
  ['a pattern of keys behind a wider one', [node('us*'), node('user*'), node('user', 'a*')], [1, 2]],
  ['an exact value of a pattern of keys behind a wider one', [node('us*', 'a*'), node('user*', 'ab')], [1]],
])('the hidden node of a level: %s', (_, nodes, hidden) => {
  expect(load(nodes).hidden).toEqual(hidden);
});

test('a node hidden by two patterns is reported once', () => {
  expect(load([node('k', '*'), node('k', 'a*'), node('k', 'ab*')]).hidden).toEqual([1, 2]);
});

const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 4 });
const keys = fc.string({ unit: fc.constantFrom('a', 'b', '*'), minLength: 1, maxLength: 2 });
const level = fc.uniqueArray(fc.record({ key: keys, value: letters }), {
  selector: ({ key, value }) => `${key}=${value}`,
  minLength: 1,
  maxLength: 6,
});

/** All texts of these letters up to a length. */
const textsUpTo = (length: number): readonly string[] =>
  length === 0 ? [''] : ['', ...textsUpTo(length - 1).flatMap((text) => ['a', 'b', 'c'].map((one) => one + text))];

test('no entry reaches a hidden node', () => {
  const entries = textsUpTo(3).flatMap((key) => textsUpTo(4).map((value) => ({ key, value })));
  fc.assert(
    fc.property(level, (nodes) => {
      const { rules, hidden } = load(nodes);
      if (hidden.length === 0) return;
      const all = new Set(entries.map((entry) => reached(rules, entry)));
      expect(hidden.filter((at) => all.has(at))).toEqual([]);
    }),
    { numRuns: 60 },
  );
});

test('some entry reaches each of two nodes that is not hidden', () => {
  const filled = (text: string): string => text.replaceAll('*', 'c'); // a letter that no pattern contains
  fc.assert(
    fc.property(fc.tuple(keys, letters, keys, letters), ([key, value, otherKey, otherValue]) => {
      const nodes = [node(key, value), node(otherKey, otherValue)];
      fc.pre(key !== otherKey || value !== otherValue);
      const { rules, hidden } = load(nodes);
      for (const [at, written] of nodes.entries()) {
        if (hidden.includes(at)) continue;
        const entry = { key: filled(written.key), value: filled(written.value || '*') };
        expect(reached(rules, entry)).toBe(at);
      }
    }),
    { numRuns: 250 },
  );
});

test('a level with too many patterns is not analysed', () => {
  const unlike = Array.from({ length: 6_000 }, (_, at) => node('k', `*${10_000 + at}x`));
  const { hidden } = load([node('k', 'a*'), node('k', 'ab*'), ...unlike, node('k', 'ac*')]);
  expect(hidden).toEqual([1]);
});
