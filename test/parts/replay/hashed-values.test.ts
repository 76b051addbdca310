import '../../helpers/realm.ts';
import { hashValue } from '../../../src/base/hashed.ts';
import { type Entry, match } from '../../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { matchDigest } from '../../../src/parts/lab/record/hashing.ts';
import { hashedEntries } from '../../../src/parts/record/recorder.ts';
import { ReplayEngine } from '../../../src/parts/replay/engine.ts';
import { HashedValues, hashBlind } from '../../../src/parts/replay/hashed-values.ts';
import type { RecordedRequest } from '../../../src/parts/replay/request.ts';
import fc from '../../helpers/property.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const KEY = 'secret';
const limit = { rate_limit: { unit: 'day', requests_per_unit: 9 } };
const createRules = (...nodes: readonly object[]): RuleTree =>
  rulesFrom(JSON.stringify({ domain: 'demo', descriptors: nodes }));
const node = (value: string, more: object = limit): object => ({ key: 'user', ...(value && { value }), ...more });

const MODES = {
  spend: 'each',
  shadowMode: false,
  quotaMode: false,
  memory: { maxCounters: 100, maxBytes: 1e6 },
} as const;

/** A request with one descriptor, as in a recording with hashes. */
function recorded(entries: readonly Entry[], rules: RuleTree): RecordedRequest {
  const met = match(rules, 'demo', { entries, requestLimit: undefined });
  return {
    timeMs: 1,
    request: {
      domain: 'demo',
      descriptors: [{ entries: hashedEntries(rules, 'demo', entries, KEY), requestLimit: undefined, hits: 1 }],
    },
    hashedBy: ['rule' in met ? met.rule.path : undefined],
  };
}

/** The result of a replay with rules for requests that were recorded with other rules. */
function replayed(requests: readonly RecordedRequest[], rules: RuleTree, recordedUnder: RuleTree | undefined = rules) {
  const engine = new ReplayEngine(rules, MODES);
  const hashed = new HashedValues([rules]);
  if (recordedUnder) hashed.onRules(matchDigest(recordedUnder));
  const paths = requests.map((one) => {
    const answer = engine.answer(one);
    hashed.observe(one, answer);
    return answer.descriptors[0]?.rule;
  });
  return { paths, unmatchable: hashed.unmatchable, mismatched: hashed.mismatched };
}

const user = (value: string): readonly Entry[] => [{ key: 'user', value }];

test('a hash that looks like a pattern matches the rule that its value matched', () => {
  const rules = createRules(node('#*'), node(''), { key: '*r', value: '#*', ...limit });
  const requests = [recorded(user('anna'), rules), recorded([{ key: 'owner', value: 'anna' }], rules)];
  expect(replayed(requests, rules)).toEqual({ paths: ['demo.user', undefined], unmatchable: 0, mismatched: 0 });
});

test('a hash matches no pattern of other rules, and is counted as one that they cannot match', () => {
  const rules = createRules(node(''));
  const requests = [recorded(user('anna'), rules)];
  const others = createRules(node('an*'), node('#*'), node(''));
  expect(replayed(requests, others, rules)).toEqual({ paths: ['demo.user'], unmatchable: 1, mismatched: 0 });
  const alike = createRules(node('', { rate_limit: { unit: 'day', requests_per_unit: 1 } }), {
    key: 'other',
    ...limit,
  });
  expect(replayed(requests, alike, rules)).toMatchObject({ unmatchable: 0, mismatched: 0 });
});

test('rules that name values cannot match hashes of a recording without the digest of its rules', () => {
  const rules = createRules(node('anna'), node(''));
  const engine = new ReplayEngine(rules, MODES);
  const hashed = new HashedValues([rules]);
  const request = recorded(user('bert'), rules);
  hashed.observe(request, engine.answer(request));
  expect(hashed).toMatchObject({ unmatchable: 1, mismatched: 0 });
});

test('a value that looks like a hash and matched a pattern is counted as one that now matches another rule', () => {
  const rules = createRules(node('#*'), node(''));
  const value = hashValue('anna', KEY);
  expect(replayed([recorded(user(value), rules)], rules)).toEqual({
    paths: ['demo.user'],
    unmatchable: 0,
    mismatched: 1,
  });
});

test('with the recorded rules, all hashes match the rules that their values matched', () => {
  const keys = fc.constantFrom('user', 'us*', '*', 'path');
  const values = fc.constantFrom('', 'anna', 'a*', '#*', '*A*', '*-*', '*_*', '*e*', '*');
  const nodeOf = (children: fc.Arbitrary<readonly object[]>) =>
    fc
      .record({ key: keys, value: values, hasLimit: fc.boolean(), descriptors: children })
      .map(({ key, value, hasLimit, descriptors }) => ({
        key,
        ...(value && { value }),
        ...(hasLimit && limit),
        ...(descriptors.length > 0 && { descriptors }),
      }));
  const composite = ({ key, value = '' }: { readonly key: string; readonly value?: string }) => `${key}=${value}`;
  const nodesOf = (children: fc.Arbitrary<readonly object[]>) =>
    fc.uniqueArray(nodeOf(children), { selector: composite, maxLength: 5 });
  const entry = fc.record({ key: fc.constantFrom('user', 'path', 'other'), value: fc.string({ maxLength: 4 }) });
  let met = 0;
  fc.assert(
    fc.property(
      nodesOf(nodesOf(fc.constant([]))),
      fc.array(fc.array(entry, { minLength: 1, maxLength: 2 }), { minLength: 20, maxLength: 20 }),
      (nodes, requests) => {
        const rules = createRules(...nodes);
        const blind = hashBlind(rules);
        for (const entries of requests) {
          const path = (found: ReturnType<typeof match>) => ('rule' in found ? found.rule.path : undefined);
          const plain = path(match(rules, 'demo', { entries, requestLimit: undefined }));
          const hashes = hashedEntries(rules, 'demo', entries, KEY);
          expect(path(match(blind, 'demo', { entries: hashes, requestLimit: undefined }))).toBe(plain);
          if (plain !== undefined) met++;
        }
      },
    ),
    { numRuns: 200 },
  );
  expect(met).toBeGreaterThan(200);
});

test('of entries in any order, those are hashed that no rule names', () => {
  const rules = rulesFrom(`
domain: demo
match: any_order
descriptors:
  - key: tenant
    descriptors: [{ key: plan, value: gold, rate_limit: { unit: day, requests_per_unit: 9 } }]
`);
  const sent = [
    { key: 'plan', value: 'gold' },
    { key: 'tenant', value: 'anna' },
  ];
  const [plan, tenant] = hashedEntries(rules, 'demo', sent, KEY);
  expect([plan?.value, tenant?.value]).toEqual(['gold', hashValue('anna', KEY)]);
  expect(replayed([recorded(sent, rules)], rules)).toMatchObject({ paths: ['demo.tenant.plan_gold'], mismatched: 0 });
});

test.each([
  ['share: { priority: value }', 'rate_limit: { unit: second, requests_per_unit: 9, share: { by: class } }', ''],
  ['not_counted: priority', '', 'rate_limit: { algorithm: in_flight, ttl: 60s, adapt: { min: 1, max: 9 } }'],
])('a recording keeps the priorities that requests state by %s, and hashes other values', (child, own, held) => {
  const id = held && `, descriptors: [{ key: id, not_counted: hold, ${held} }]`;
  const rules = rulesFrom(
    `domain: demo\ndescriptors:\n  - { key: api, ${own ? `${own}, ` : ''}descriptors: [{ key: class, ${child}${id} }] }\n`,
  );
  const shown = ['critical', '60', 'anna'].map((value) => {
    const sent = [{ key: 'api', value: 'v1' }, { key: 'class', value }, ...(held ? [{ key: 'id', value: '1' }] : [])];
    return hashedEntries(rules, 'demo', sent, KEY)[1]?.value;
  });
  expect(shown).toEqual(['critical', '60', hashValue('anna', KEY)]);
});
