import { RequestWork, TooCostly } from '../../../../src/base/request-work.ts';
import { finish } from '../../../../src/engine/rules/compile/steps.ts';
import { PatternSet } from '../../../../src/engine/rules/match/pattern-set.ts';
import { asRegExp } from '../../../helpers/patterns.ts';
import fc from '../../../helpers/property.ts';

/** Few letters, so that parts repeat, overlap, and contain each other; not all of them are ASCII. */
const letter = fc.constantFrom('a', 'a', 'b', 'é');
const pattern = fc
  .string({ unit: fc.oneof(letter, fc.constant('*')), minLength: 1, maxLength: 10 })
  .filter((text) => text.includes('*'));
const text = fc.string({ unit: fc.oneof(letter, fc.constantFrom('*', 'c')), maxLength: 24 });

test('a set finds the first pattern that matches, in any number of searches', () => {
  fc.assert(
    fc.property(fc.array(pattern, { maxLength: 40 }), fc.array(text, { maxLength: 20 }), (patterns, texts) => {
      const set = finish(PatternSet.of(patterns));
      const each = patterns.map(asRegExp);
      for (const one of texts) {
        const wanted = each.findIndex((regExp) => regExp.test(one));
        expect(set.first(one)).toBe(wanted < 0 ? undefined : wanted);
      }
    }),
    { numRuns: 800 },
  );
});

test('a set of more characters than its tables hold finds the same patterns', () => {
  const word = (at: number): string =>
    String.fromCodePoint(...[at, at * 7, at * 31].map((one) => 0x4e00 + (one % 5_000)));
  const patterns = Array.from({ length: 2_000 }, (_, at) => `*${word(at)}*${word(at + 1)}*`);
  const set = finish(PatternSet.of(patterns));
  for (const at of [0, 1, 500, 1_998]) {
    expect(set.first(`x${word(at)}y${word(at + 1)}z`)).toBe(
      patterns.findIndex((one) => asRegExp(one).test(`x${word(at)}y${word(at + 1)}z`)),
    );
    expect(set.first(`x${word(at + 1)}y${word(at)}`)).toBeUndefined();
  }
});

test('a search that was refused does not affect the next one', () => {
  const set = finish(PatternSet.of(['*a*b*', '*a*c*', '*b*d*']));
  const hostile = 'ab'.repeat(300_000);
  expect(() => set.first(hostile, new RequestWork())).toThrow(TooCostly);
  expect(set.first('xbxd')).toBe(2);
  expect(set.first('acb')).toBe(0);
});

/** The work of a search. */
function unitsOf(patterns: readonly string[], searched: string): number {
  const work = new RequestWork();
  finish(PatternSet.of(patterns)).first(searched, work);
  return work.units;
}

test('a part that a text has many times costs no more than its characters', () => {
  const letters = Array.from('abcdefghijklmnop');
  const patterns = letters.flatMap((one) => letters.map((other) => `*${one}1*${other}2*x*`));
  const [firsts, seconds] = [1, 2].map((digit) => letters.map((one) => `${one}${digit}`).join(''));
  const twice = `${firsts}${seconds}${seconds}`;
  const often = `${firsts}${seconds}${seconds?.repeat(100)}`;
  const characters = (often.length - twice.length) / 512;
  expect(unitsOf(patterns, often) - unitsOf(patterns, twice)).toBeCloseTo(characters);
});
