import { matchDigest } from '../../../../src/parts/lab/record/hashing.ts';
import { rulesFrom } from '../../../helpers/rules.ts';

const limit = (requests: number) => `rate_limit: { unit: minute, requests_per_unit: ${requests} }`;
const digestRules = (...nodes: readonly string[]): string =>
  matchDigest(rulesFrom(`domain: demo\ndescriptors:\n${nodes.map((node) => `  - { ${node} }\n`).join('')}`));

const user = `key: user, ${limit(2)}`;
const [a, ab] = [`key: user, value: "a*", ${limit(2)}`, `key: user, value: "ab*", ${limit(2)}`];

test('rules with the same matches have the same digest, regardless of limits and the order of names', () => {
  const path = `key: path, ${limit(1)}`;
  expect(digestRules(user, path)).toBe(digestRules(path, `key: user, ${limit(9)}`));
});

test.each([
  ['a node without a rule', [user], [user, 'key: user, value: admin']],
  ['the order of patterns', [a, ab], [ab, a]],
  ['a level below', [user], [`${user}, descriptors: [{ key: path }]`]],
  ['where the key of a pattern ends', [`key: "us*_a", ${limit(2)}`], [`key: "us*", value: a, ${limit(2)}`]],
  ['a pattern for keys', [user], [user, `key: "us*", ${limit(2)}`]],
])('%s changes the digest', (_, one, other) => expect(digestRules(...one)).not.toBe(digestRules(...other)));
