import { editsBetween } from '../../../src/base/nearest.ts';
import { NearestTexts } from '../../../src/engine/rules/match/nearest-of.ts';
import fc from '../../helpers/property.ts';

/** The number of characters that are compared. */
const COMPARED = 48;

const same = (one: string): string => one;

/** The simplest implementation: sorts all texts. */
function sorted(to: string, texts: readonly string[], count: number): readonly string[] {
  const first = to.slice(0, COMPARED);
  const distanceTo = (one: string): number =>
    editsBetween(first, one.slice(0, COMPARED)) + (one.slice(0, COMPARED) === first ? 0 : 0.5);
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
