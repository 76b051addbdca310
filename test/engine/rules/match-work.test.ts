import { MAX_MATCH_UNITS, RequestWork, TooCostly } from '../../../src/base/request-work.ts';
import { matchAll } from '../../../src/engine/rules/match/match.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const limit = 'rate_limit: {unit: minute, requests_per_unit: 2}';
const rulesWith = (patterns: readonly string[]) =>
  rulesFrom(
    `domain: demo\ndescriptors:\n  - {key: user, ${limit}}\n${patterns.map((value) => `  - {key: path, value: "${value}", ${limit}}\n`).join('')}`,
  );
const searched = (count: number) => rulesWith(Array.from({ length: count }, (_, at) => `*/v${at}/*`));

/** The work of matching a request with these values. */
function unitsOf(rules: ReturnType<typeof rulesWith>, values: readonly string[], key = 'path'): number {
  const work = new RequestWork();
  const descriptors = values.map((value) => ({ entries: [{ key, value }], requestLimit: undefined }));
  matchAll(rules, 'demo', descriptors, fakeClock(), work);
  return work.units;
}

test.each([20, 100, 1_000])(
  'with %i patterns, matching costs in proportion to the patterns and to the length of the texts',
  (count) => {
    const text = '/v'.repeat(50);
    const one = unitsOf(searched(count), [text]);
    expect(one).toBeGreaterThan((count * text.length) / 2_048);
    expect(unitsOf(searched(count), [text.repeat(2)])).toBeGreaterThan(1.8 * one);
    expect(unitsOf(searched(count), [text, text])).toBeCloseTo(2 * one);
  },
);

test('texts of plain keys, and texts that a pattern excludes by its beginning or end, cost nothing to search', () => {
  const text = '/v'.repeat(5_000);
  expect(unitsOf(searched(100), [text], 'user')).toBe(0);
  expect(unitsOf(rulesWith(['/a/*/x', '/b*/v/*', '*/v1/*/']), [text])).toBe(0);
});

test('an ordinary path costs a fraction of what a request may cost, with a thousand patterns too', () => {
  expect(unitsOf(searched(1_000), ['/api/users/12345/orders'])).toBeLessThan(MAX_MATCH_UNITS / 10);
});

test.each([20, 100, 1_000])('with %i patterns, a request is refused before its work exceeds the maximum', (count) => {
  const rules = searched(count);
  const values = Array.from({ length: 250 }, () => '/v'.repeat(8_000));
  const work = new RequestWork();
  const descriptors = values.map((value) => ({ entries: [{ key: 'path', value }], requestLimit: undefined }));
  expect(() => matchAll(rules, 'demo', descriptors, fakeClock(), work)).toThrow(TooCostly);
  expect(work.units).toBeLessThanOrEqual(MAX_MATCH_UNITS);
});

test('thousands of patterns that end differently cost in proportion to their number', () => {
  const many = rulesWith(Array.from({ length: 2_000 }, (_, at) => `*.${at}.example.com`));
  const few = rulesWith(Array.from({ length: 200 }, (_, at) => `*.${at}.example.com`));
  const host = ['a.b.example.org'];
  expect(unitsOf(many, host)).toBeGreaterThan(9 * unitsOf(few, host));
});
