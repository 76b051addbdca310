import { textMatcher } from '../../../../src/engine/rules/match/matchers.ts';
import { asRegExp } from '../../../helpers/patterns.ts';
import fc from '../../../helpers/property.ts';

/**
 * Few letters, so that patterns and texts often match; includes `.` and a line feed, which are special in regular
 * expressions.
 */
const letter = fc.constantFrom('a', 'b', '.', '\n', 'é');
const pattern = fc.string({ unit: fc.oneof(letter, fc.constant('*')), maxLength: 8 });
const candidate = fc.string({ unit: fc.oneof(letter, fc.constant('*')), maxLength: 12 });

test('a wildcard matches the same texts as an equivalent regular expression', () => {
  fc.assert(
    fc.property(pattern, candidate, (text, wanted) => {
      expect(textMatcher(text).matches(wanted)).toBe(asRegExp(text).test(wanted));
    }),
    { numRuns: 1_000 },
  );
});

test('the beginning and the end of a wildcard do not overlap in the text', () => {
  expect(textMatcher('ab*ba').matches('aba')).toBe(false);
  expect(textMatcher('ab*ba').matches('abba')).toBe(true);
  expect(textMatcher('a*b*b').matches('ab')).toBe(false);
});

test('a wildcard matches itself with any text in place of each `*`', () => {
  fc.assert(
    fc.property(pattern, fc.array(candidate, { minLength: 8, maxLength: 8 }), (text, fillings) => {
      let next = 0;
      const filled = text.replaceAll('*', () => fillings[next++] ?? '');
      expect(textMatcher(text).matches(filled)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test('matching many stars with a long text takes negligible time', () => {
  expect(textMatcher('a*'.repeat(1_000)).matches('a'.repeat(16_384))).toBe(true);
  expect(textMatcher(`${'a*'.repeat(1_000)}b`).matches('a'.repeat(16_384))).toBe(false);
  expect(textMatcher(`${'*a'.repeat(1_000)}*b*c`).matches(`${'a'.repeat(16_000)}c`)).toBe(false);
});
