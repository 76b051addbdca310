import { NearestTexts } from '../../../src/base/nearest.ts';
import fc from '../../helpers/property.ts';

/** The number of characters that are compared. */
const COMPARED = 48;

/** Insertions, deletions, replacements and swaps of neighbours, by the definition. */
function editsBetween(one: string, other: string): number {
  if (one === '' || other === '') return one.length + other.length;
  const [shorter, short] = [one.slice(0, -1), other.slice(0, -1)];
  const isSwapped = one.length > 1 && short !== '' && one.at(-1) === other.at(-2) && one.at(-2) === other.at(-1);
  return Math.min(
    edits(shorter, other) + 1,
    edits(one, short) + 1,
    edits(shorter, short) + (one.at(-1) === other.at(-1) ? 0 : 1),
    isSwapped ? edits(one.slice(0, -2), other.slice(0, -2)) + 1 : Number.POSITIVE_INFINITY,
  );
}

const known = new Map<string, number>();

function edits(one: string, other: string): number {
  const pair = `${one}\n${other}`;
  const found = known.get(pair) ?? editsBetween(one, other);
  known.set(pair, found);
  return found;
}

const same = (one: string): string => one;

/** The simplest implementation: sorts all texts. */
function sorted(to: string, texts: readonly string[], count: number): readonly string[] {
  const first = to.slice(0, COMPARED);
  const distanceTo = (one: string): number =>
    edits(first, one.slice(0, COMPARED)) + (one.slice(0, COMPARED) === first ? 0 : 0.5);
  return texts.toSorted((one, other) => distanceTo(one) - distanceTo(other)).slice(0, count);
}

test.each([
  ['short', { unit: fc.constantFrom('a', 'b', 'c', 'd'), maxLength: 10 }],
  ['long', { unit: fc.constantFrom('a', 'b', 'c', '1', 'é', '界'), maxLength: COMPARED + 10 }],
])('the nearest of %s texts are the same as by comparison with all texts, in the same order', (_, constraints) => {
  const text = fc.string(constraints);
  fc.assert(
    fc.property(text, fc.array(text, { maxLength: 30 }), fc.integer({ min: 1, max: 5 }), (to, texts, count) => {
      expect(new NearestTexts().find(to, texts, same, count)).toEqual(sorted(to, texts, count));
    }),
    { numRuns: 500 },
  );
});

test('capitals and marks hardly count', () => {
  expect(new NearestTexts().find('remoteAddress', ['remote_port', 'remote_address', 'user'], same, 1)).toEqual([
    'remote_address',
  ]);
});

test('searches compare a maximum number of texts in total, and then find nothing more', () => {
  const nearest = new NearestTexts(3);
  expect(nearest.find('a', ['b', 'a'], same, 1)).toEqual(['a']);
  expect(nearest.find('a', ['b', 'a'], same, 1)).toEqual(['b']);
  expect(nearest.find('a', ['a'], same, 1)).toEqual([]);
});
