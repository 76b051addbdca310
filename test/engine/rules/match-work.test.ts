import { RequestWork, TooCostly } from '../../../src/base/request-work.ts';
import { matchAll } from '../../../src/engine/rules/match/match.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { MAX_MATCH_UNITS } from '../../helpers/patterns.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const limit = 'rate_limit: {unit: minute, requests_per_unit: 2}';
const rulesWith = (patterns: readonly string[]) =>
  rulesFrom(
    `domain: demo\ndescriptors:\n  - {key: user, ${limit}}\n${patterns.map((value) => `  - {key: path, value: "${value}", ${limit}}\n`).join('')}`,
  );
const searched = (count: number) => rulesWith(Array.from({ length: count }, (_, at) => `*/v${at}/*`));
/** Patterns that two lists of parts cross, and a text with all parts of the first, then twice those of the second. */
const crossed = (count: number) => {
  const parts = Array.from({ length: count }, (_, at) => at);
  const rules = rulesWith(parts.flatMap((one) => parts.map((other) => `*a${one}.*b${other}.*c*`)));
  const second = parts.map((at) => `b${at}.`).join('');
  return { rules, text: parts.map((at) => `a${at}.`).join('') + second + second };
};

/** The work of matching a request with these values. */
function unitsOf(rules: ReturnType<typeof rulesWith>, values: readonly string[], key = 'path'): number {
  const work = new RequestWork();
  const descriptors = values.map((value) => ({ entries: [{ key, value }], requestLimit: undefined }));
  matchAll(rules, 'demo', descriptors, { clock: fakeClock(), work });
  return work.units;
}

test.each([20, 100, 1_000])(
  'with %i patterns, matching costs in proportion to the length of the texts, and not to the patterns',
  (count) => {
    const text = '/v'.repeat(50);
    const one = unitsOf(searched(count), [text]);
    expect(one).toBeGreaterThan(text.length / 1_024);
    expect(one).toBe(unitsOf(searched(10), [text]));
    expect(unitsOf(searched(count), [text.repeat(2)])).toBeGreaterThan(1.8 * one);
    expect(unitsOf(searched(count), [text, text])).toBeCloseTo(2 * one);
  },
);

test('patterns that a text has in part cost in proportion to the number of their next parts that it has', () => {
  const [few, many] = [crossed(10), crossed(20)];
  expect(unitsOf(many.rules, [many.text])).toBeGreaterThan(4 * unitsOf(few.rules, [few.text]));
});

test('texts of plain keys, and texts that a pattern excludes by its beginning or end, cost nothing to search', () => {
  const text = '/v'.repeat(5_000);
  expect(unitsOf(searched(100), [text], 'user')).toBe(0);
  expect(unitsOf(rulesWith(['/a/*/x', '/b*/v/*', '*/v1/*/']), [text])).toBe(0);
});

test('an ordinary path costs a fraction of what a request may cost, with a thousand patterns too', () => {
  expect(unitsOf(searched(1_000), ['/api/users/12345/orders'])).toBeLessThan(MAX_MATCH_UNITS / 1_000);
});

test.each([20, 100, 1_000])('with %i patterns, a request is refused before its work exceeds the maximum', (count) => {
  const rules = searched(count);
  const text = '/v'.repeat(8_000);
  const values = Array.from({ length: 250 }, () => text);
  const work = new RequestWork();
  const descriptors = values.map((value) => ({ entries: [{ key: 'path', value }], requestLimit: undefined }));
  expect(() => matchAll(rules, 'demo', descriptors, { clock: fakeClock(), work })).toThrow(TooCostly);
  expect(work.units).toBeLessThanOrEqual(MAX_MATCH_UNITS);
});

test('thousands of patterns that end differently cost nothing to search', () => {
  const many = rulesWith(Array.from({ length: 2_000 }, (_, at) => `*.${at}.example.com`));
  expect(unitsOf(many, ['a.b.example.org'])).toBe(0);
  expect(unitsOf(many, ['a.1999.example.com'])).toBe(0);
});

test('patterns that differ in nested beginnings and ends are refused before they cost too much', () => {
  const lengths = Array.from({ length: 40 }, (_, at) => at + 1);
  const rules = rulesWith(lengths.flatMap((one) => lengths.map((other) => `${'a'.repeat(one)}*${'b'.repeat(other)}`)));
  const value = 'a'.repeat(100) + 'b'.repeat(100);
  expect(unitsOf(rules, [value])).toBe((40 * 40) / 64);
  expect(() =>
    unitsOf(
      rules,
      Array.from({ length: 250 }, () => value),
    ),
  ).toThrow(TooCostly);
});
