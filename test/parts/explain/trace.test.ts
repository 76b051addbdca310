import '../../helpers/realm.ts';
import fc from 'fast-check';
import { match } from '../../../src/engine/rules/match/match.ts';
import { textMatcher } from '../../../src/engine/rules/match/matchers.ts';
import { mismatchAt, trace } from '../../../src/parts/explain/trace.ts';
import { anyRequest, anyRules } from '../../helpers/explained.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: remote_address
    descriptors:
      - key: path
        value: /login
        rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: path
    value: /a*
    rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: path
    value: /ab*
    rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: path
    value: /abc
    rate_limit: { unit: minute, requests_per_unit: 2 }
`);

const entries = (...texts: readonly string[]) =>
  texts.map((text) => ({ key: text.split('=')[0] ?? '', value: text.split('=')[1] ?? '' }));
const traced = (...texts: readonly string[]) =>
  trace(rules, 'demo', { entries: entries(...texts), requestLimit: undefined });

test('a node with a * that matches its own text is not listed against itself', () => {
  const own = rulesFrom(`
domain: demo
descriptors: [{ key: r/*, value: r/*, rate_limit: { unit: minute, requests_per_unit: 2 } }]
`);
  expect(trace(own, 'demo', { entries: entries('r/*=r/*'), requestLimit: undefined }).path[0]?.tried).toEqual([
    { key: 'r/*', value: 'r/*', kind: 'exact', matched: true },
  ]);
});

test('the chosen node and every reason against the others are listed', () => {
  expect(traced('path=/abx').path[0]?.tried).toEqual([
    { key: 'path', value: '/a*', kind: 'wildcard', matched: true },
    { key: 'path', value: '/ab*', kind: 'wildcard', matched: false, reason: 'earlier_wildcard_won' },
    { key: 'path', value: '/abc', kind: 'exact', matched: false, reason: 'value_differs' },
    { key: 'user', kind: 'any_value', matched: false, reason: 'no_such_key' },
    { key: 'remote_address', kind: 'any_value', matched: false, reason: 'no_such_key' },
  ]);
  expect(traced('path=/abc').path[0]?.tried.slice(0, 3)).toMatchObject([
    { kind: 'exact', matched: true },
    { value: '/a*', reason: 'more_specific_won' },
    { value: '/ab*', reason: 'more_specific_won' },
  ]);
  expect(traced('path=/a*').path[0]?.tried.slice(0, 2)).toMatchObject([
    { value: '/a*', kind: 'exact', matched: true },
    { value: '/ab*', kind: 'wildcard', matched: false, reason: 'wildcard_fails' },
  ]);
  expect(traced('path=/b').path[0]?.tried.slice(0, 2)).toMatchObject([
    { value: '/a*', reason: 'wildcard_fails', of: 'value', offset: 1 },
    { value: '/ab*', reason: 'wildcard_fails', of: 'value', offset: 1 },
  ]);
});

test.each<[string, readonly string[], object]>([
  [
    'has a key that no rule has',
    ['usr=alice'],
    { level: 1, reason: 'no_such_key', why: "level 1: no rule has the key 'usr'; the nearest is demo.user" },
  ],
  ['has a value that no pattern matches', ['path=/b'], { level: 1, reason: 'wildcard_fails' }],
  ['has another value on the second level', ['remote_address=1', 'path=/x'], { level: 2, reason: 'value_differs' }],
  [
    'ends above the rules',
    ['remote_address=1'],
    { level: 1, reason: 'path_too_short', nearest: [{ rule: 'demo.remote_address.path_/login' }] },
  ],
  [
    'goes on below the last rule',
    ['user=alice', 'path=/a'],
    { level: 2, reason: 'path_too_long', nearest: [{ rule: 'demo.user' }] },
  ],
  [
    'has the right entries in another order',
    ['path=/login', 'remote_address=1'],
    {
      nearest: expect.arrayContaining([
        expect.objectContaining({
          rule: 'demo.remote_address.path_/login',
          descriptor: entries('remote_address=1', 'path=/login'),
        }),
      ]),
    },
  ],
  ['has no entries', [], { level: 0, reason: 'path_too_short' }],
])('the trace of a descriptor that %s names the level where it stopped, and the nearest rule', (_, texts, stopped) => {
  expect(traced(...texts).stopped).toMatchObject(stopped);
});

test('the trace of a domain without rules names the nearest domain', () => {
  expect(trace(rules, 'demos', { entries: entries('user=a'), requestLimit: undefined }).stopped).toMatchObject({
    reason: 'no_domain',
    why: "no rules have the domain 'demos'; the nearest is 'demo'",
    nearest: expect.arrayContaining([expect.objectContaining({ rule: 'demo.user', file: 'rules.yaml', line: 4 })]),
  });
});

test('a trace has the same result as a match, and the same reason as statistics', () => {
  fc.assert(
    fc.property(anyRules, anyRequest, (tree, { domain, descriptors }) => {
      for (const { entries: own } of descriptors) {
        const descriptor = { entries: own, requestLimit: undefined };
        const { found, stopped, path } = trace(tree, domain, descriptor);
        expect(found).toEqual(match(tree, domain, descriptor));
        expect(stopped?.reason).toBe('reason' in found ? found.reason : undefined);
        expect(stopped === undefined).toBe('rule' in found);
        for (const { tried } of path) expect(tried.filter(({ matched }) => matched).length).toBeLessThanOrEqual(1);
      }
    }),
    { seed: 3, numRuns: 500 },
  );
});

test('a pattern that does not match shows where the text differs', () => {
  const at = (pattern: string, text: string) => mismatchAt(textMatcher(pattern), text);
  expect([at('abc', 'abd'), at('a*c', 'abd'), at('/x*', '/y'), at('a*b*c', 'azzc'), at('a*', 'abc')]).toEqual([
    2,
    2,
    1,
    1,
    undefined,
  ]);
});
