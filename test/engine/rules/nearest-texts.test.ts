import { editsBetween } from '../../../src/base/nearest.ts';
import { MAX_COMPARED_CHARACTERS, NearestTexts, TextDistance } from '../../../src/engine/rules/match/nearest-of.ts';
import fc from '../../helpers/property.ts';

/** Few characters, so that texts have much in common. */
const text = fc.string({
  unit: fc.constantFrom('a', 'b', 'c', '1', 'é', '界'),
  maxLength: MAX_COMPARED_CHARACTERS + 10,
});

test('edits are counted like in the full table of edits, up to a bound', () => {
  fc.assert(
    fc.property(text, text, fc.nat(60), (one, other, most) => {
      const edits = editsBetween(one.slice(0, MAX_COMPARED_CHARACTERS), other.slice(0, MAX_COMPARED_CHARACTERS));
      const distance = new TextDistance(one);
      expect(distance.to(other, Number.POSITIVE_INFINITY)).toBe(edits);
      expect(distance.to(other, most)).toBe(Math.min(edits, most));
    }),
    { numRuns: 20_000 },
  );
});

const same = (one: string): string => one;

/** The simplest implementation: sorts all texts. */
function sorted(to: string, texts: readonly string[], count: number): readonly string[] {
  const distanceTo = (one: string): number => editsBetween(to, one) + (one === to ? 0 : 0.5);
  return texts.toSorted((one, other) => distanceTo(one) - distanceTo(other)).slice(0, count);
}

test('the nearest texts are the same as by comparison with all texts, in the same order', () => {
  const short = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'd'), maxLength: 10 });
  fc.assert(
    fc.property(short, fc.array(short, { maxLength: 30 }), fc.integer({ min: 1, max: 5 }), (to, texts, count) => {
      expect(new NearestTexts().find(to, texts, same, count)).toEqual(sorted(to, texts, count));
    }),
    { numRuns: 3_000 },
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
