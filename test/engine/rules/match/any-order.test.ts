import '../../../helpers/realm.ts';
import { createCounterKeys } from '../../../../src/engine/backends/key.ts';
import { countedEntries, type Entry, match } from '../../../../src/engine/rules/match/match.ts';
import { formatProblem } from '../../../../src/engine/rules/read/problem.ts';
import fc from '../../../helpers/property.ts';
import { loadText, rulesFrom } from '../../../helpers/rules.ts';

const RULES = `
domain: d
match: any_order
descriptors:
  - key: user
    descriptors:
      - key: path
        rate_limit: { unit: day, requests_per_unit: 1 }
        descriptors: [{ key: method, value: POST, rate_limit: { unit: day, requests_per_unit: 2 } }]
  - key: path
    value: /a*
    share_threshold: true
    rate_limit: { unit: day, requests_per_unit: 3 }
  - key: tag
    descriptors: [{ key: tag, rate_limit: { unit: day, requests_per_unit: 4 } }]
`;
const rules = rulesFrom(RULES);

const entriesOf = (written: string): readonly Entry[] =>
  written.split(' ').map((one) => ({ key: one.split('=')[0] ?? '', value: one.split('=')[1] ?? '' }));

const limitOf = (written: string, tree = rules) => {
  const found = match(tree, 'd', { entries: entriesOf(written), requestLimit: undefined });
  return found.kind === 'limited' ? found : undefined;
};

test.each([
  ['user=a path=/x', 1],
  ['path=/x user=a', 1],
  ['method=POST user=a path=/x', 2],
  ['path=/x method=POST user=a', 2],
  ['path=/abc', 3],
  ['tag=1 tag=2', 4],
  ['method=POST user=a', undefined],
  ['path=/x', undefined],
])('%s matches the limit of %s', (written, limit) => {
  expect(limitOf(written)?.limits[0]?.limit.requestsPerUnit).toBe(limit);
});

test('all orders of the entries count in one counter, with the values in the order of the rules', () => {
  const keys = createCounterKeys('');
  const orders = ['user=a path=/x method=POST', 'method=POST path=/x user=a', 'path=/x user=a method=POST'];
  const counters = orders.map((order) => {
    const found = limitOf(order);
    const limit = found?.limits[0]?.limit;
    return limit && keys(limit, 'd', found.entries);
  });
  expect(new Set(counters)).toEqual(new Set(['fixed_window.2|86400000|1:d|4:user|1:a|4:path|2:/x|6:method|4:POST']));
  for (const order of orders) {
    const found = limitOf(order);
    expect(found && countedEntries(found.rule, entriesOf(order))).toEqual(found?.entries);
  }
});

test('entries with the same key keep the order in which they were sent', () => {
  expect(limitOf('tag=1 tag=2')?.entries).not.toEqual(limitOf('tag=2 tag=1')?.entries);
});

test('entries above match: any_order keep their order', () => {
  const below = rulesFrom(`
domain: d
descriptors:
  - key: tenant
    match: any_order
    descriptors:
      - { key: user, descriptors: [{ key: path, rate_limit: { unit: day, requests_per_unit: 1 } }] }
  - { key: user, descriptors: [{ key: path, rate_limit: { unit: day, requests_per_unit: 5 } }] }
`);
  const limits = ['tenant=t path=p user=u', 'tenant=t user=u path=p', 'user=u tenant=t path=p', 'path=p user=u'].map(
    (order) => limitOf(order, below)?.limits[0]?.limit.requestsPerUnit,
  );
  expect(limits).toEqual([1, 1, undefined, undefined]);
});

test.each([
  ['match: some_order\ndescriptors: [{ key: a }]', "must be in_order or any_order, got 'some_order'"],
  ['match: any_order', 'goes with descriptors, whose keys it is about; got none'],
  [
    'match: any_order\ndescriptors: [{ key: a, descriptors: [{ key: "b*" }] }]',
    "match: any_order requires keys without '*' below it, got 'b*'",
  ],
  [
    'match: any_order\ndescriptors: [{ key: a, descriptors: [{ key: b }] }, { key: b, descriptors: [{ key: a }] }]',
    "match: any_order requires one order of the keys in the rules below, got 'a' above 'b' and below it",
  ],
])('refuses %s', (written, message) => {
  const loaded = loadText(`domain: d\n${written}\n`);
  expect(loaded.ok ? [] : loaded.problems.map(formatProblem)).toEqual([expect.stringContaining(message)]);
});

test('any tree matches the entries of each of its paths in every order, like the entries in order without the key', () => {
  const keys = ['a', 'b', 'c', 'd'];
  // a path through keys in alphabetical order, so that no two are above each other
  const paths = fc.uniqueArray(fc.subarray(keys, { minLength: 1 }), { minLength: 1, selector: (path) => path.join() });
  fc.assert(
    fc.property(paths, fc.shuffledSubarray(keys, { minLength: 1 }), (all, sent) => {
      const nodes = (depth: number, from: readonly (readonly string[])[]): string => {
        const heads = [...new Set(from.flatMap((path) => path[depth] ?? []))];
        const node = (key: string): string => {
          const own = from.filter((path) => path[depth] === key);
          const limit = own.some((path) => path.length === depth + 1)
            ? ', rate_limit: { unit: day, requests_per_unit: 1 }'
            : '';
          const below = own.filter((path) => path.length > depth + 1);
          return `{ key: ${key}${limit}${below.length > 0 ? `, descriptors: [${nodes(depth + 1, below)}]` : ''} }`;
        };
        return heads.map(node).join(', ');
      };
      const text = (more: string) => `domain: d\n${more}descriptors: [${nodes(0, all)}]\n`;
      const found = limitOf(sent.map((key) => `${key}=1`).join(' '), rulesFrom(text('match: any_order\n')));
      const inOrder = limitOf(
        sent
          .toSorted()
          .map((key) => `${key}=1`)
          .join(' '),
        rulesFrom(text('')),
      );
      expect([found?.rule.path, found?.entries]).toEqual([inOrder?.rule.path, inOrder?.entries]);
    }),
  );
});
