import '../../helpers/realm.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { overrideOperations } from '../../../src/parts/overrides/operations.ts';
import { countedRules } from '../../helpers/counted-rules.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const VALUES = 500;
const lines = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join('');
const rules = rulesFrom(
  `domain: shop\ndescriptors:\n${lines(
    VALUES,
    (at) => `  - {key: user, value: customer-${at}, rate_limit: {unit: hour, requests_per_unit: 10}}\n`,
  )}${lines(
    10,
    (at) =>
      `  - {key: slot${at}, descriptors: [{key: id${at}, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 2, ttl: 10s}}]}\n`,
  )}`,
);

/** The warning for an override that blocks a descriptor. */
async function warningOf(tree: RuleTree, key: string, value: string, more = {}): Promise<string | undefined> {
  const operations = overrideOperations({
    overrides: { follow: async () => [], put: async () => {} },
    audit: { change: (_: unknown, make: () => Promise<void>) => make() },
    ...{ clock: Date.now, hash: undefined, rules: () => tree },
  } as never); // the only properties that the operation reads
  const until = new Date(Date.now() + 60_000).toISOString();
  const body = { domain: 'shop', descriptor: [{ key, value }], effect: 'block', until, reason: 'a test', ...more };
  const answer = await operations
    .find(({ method }) => method === 'PUT')
    ?.answer({ client: { name: 'ops' }, body } as never);
  return (answer as { readonly warning?: string }).warning;
}

test("an override's descriptor is compared with the rules once for its warning, regardless of how many rules have ids", async () => {
  let compared = 0;
  const tree = countedRules(rules, () => compared++);
  expect(await warningOf(tree, 'user', 'custamor-7')).toContain('the nearest is shop.user_customer-');
  expect(compared).toBe(VALUES);
});

test('an override for a counter of a rule with ids has no warning', async () => {
  expect(await warningOf(rules, 'slot3', 'a')).toBeUndefined();
  expect(await warningOf(rules, 'user', 'customer-7')).toBeUndefined();
});

test('an override with wildcards has a warning only if no rule has its key or domain', async () => {
  const wild = { wildcard: true };
  expect(await warningOf(rules, 'user', 'cust*', wild)).toBeUndefined();
  expect(await warningOf(rules, 'id3', 'a*', wild)).toBeUndefined();
  const other = rulesFrom(
    'domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n',
  );
  expect(await warningOf(other, 'user', 'cust*', wild)).toBeUndefined();
  expect(await warningOf(other, 'usr', 'cust*', wild)).toContain("no rule has the key 'usr'");
  expect(await warningOf(other, 'user', 'cust*', { ...wild, domain: 'shp' })).toContain(
    "no rules have the domain 'shp'",
  );
});
