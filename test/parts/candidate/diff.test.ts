import '../../helpers/realm.ts';
import { ruleAsJson } from '../../../src/edge/listing/describe.ts';
import { type Entry, match } from '../../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { ruleText } from '../../../src/operate/observe/rule-summary.ts';
import { countDifferences, diffJson, diffRules } from '../../../src/parts/candidate/diff/diff.ts';
import { diffText } from '../../../src/parts/candidate/render-diff.ts';
import { paintFor } from '../../../src/parts/lab/commands/paint.ts';
import fc from '../../helpers/property.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const limit = (requests: number) => ({ rate_limit: { unit: 'day', requests_per_unit: requests } });
const rules = (...descriptors: readonly object[]): RuleTree =>
  rulesFrom(JSON.stringify({ domain: 'demo', descriptors }));

const any = { key: 'user', ...limit(1) };
const admin = { key: 'user', value: 'admin' };
const below = { descriptors: [{ key: 'path', ...limit(2) }] };
const [a, ab] = [
  { key: 'user', value: 'a*', ...limit(3) },
  { key: 'user', value: 'ab*', ...limit(4) },
];
const anyPath = { ...any, ...below };
const net = (...addresses: readonly string[]) => ({ key: 'user', addresses, ...limit(5) });

test.each<[title: string, before: readonly object[], after: readonly object[], rerouted: readonly object[]]>([
  ['a node without a limit that hides the rule of any value', [any], [any, admin], [hides('user_admin', 'user')]],
  ['a node that uncovers it again', [any, admin], [any], [uncovers('user_admin', 'user')]],
  ['a node without a limit that hides a pattern', [a], [a, admin], [hides('user_admin', 'user_a*')]],
  ['a pattern for keys that hides a key', [any], [any, { key: 'u*' }], [hides('u*', 'user')]],
  ['a new rule that hides the rules below another', [anyPath], [anyPath, ab], [hides('user_ab*', 'user.path')]],
  ['a new rule with rules below that hides none', [anyPath], [anyPath, { ...ab, ...below }], []],
  ['a node two levels down', [anyPath], [deeper()], [hides('user.path_/', 'user.path')]],
  ['patterns that change their order', [a, ab], [ab, a], [precedes('user_ab*', 'user_a*')]],
  ['patterns that change their order and match nothing in common', [a, b()], [b(), a], []],
  ['exact values that change their order', [admin, any], [any, admin], []],
  ['a node without a limit where nothing matched', [a], [a, { key: 'user', value: 'bob' }], []],
  [
    'a block within another one',
    [net('10.0.0.0/8')],
    [net('10.0.0.0/8'), { key: 'user', addresses: '10.1.0.0/16' }],
    [hides('user_10.1.0.0/16', 'user_10.0.0.0/8')],
  ],
  [
    'a block without a limit before patterns',
    [{ ...a, value: '10.*' }],
    [
      { ...a, value: '10.*' },
      { key: 'user', addresses: '10.0.0.0/8' },
    ],
    [hides('user_10.0.0.0/8', 'user_10.*')],
  ],
  ['a block outside of others', [net('10.0.0.0/8')], [net('10.0.0.0/8'), { key: 'user', addresses: '11.0.0.0/8' }], []],
  [
    'blocks that change their order',
    [net('10.0.0.0/8'), net('10.1.0.0/16')],
    [net('10.1.0.0/16'), net('10.0.0.0/8')],
    [],
  ],
  ['a pattern behind one that hides it, but for its own text', [a], [a, { key: 'user', value: 'ab*' }], [literal()]],
])('%s', (_, before, after, rerouted) => {
  const diff = diffRules(rules(...before), rules(...after));
  expect(diff.rerouted).toEqual(rerouted);
  expect(diff).toMatchObject({ removed: [], changed: [], domains: [] });
});

function hides(node: string, ...others: readonly string[]): object {
  return { kind: 'hides', node: `demo.${node}`, others: others.map((one) => `demo.${one}`) };
}
function uncovers(node: string, ...others: readonly string[]): object {
  return { ...hides(node, ...others), kind: 'uncovers' };
}
function precedes(node: string, ...others: readonly string[]): object {
  return { ...hides(node, ...others), kind: 'precedes' };
}
function literal(): object {
  return { ...hides('user_ab*', 'user_a*'), isLiteral: true };
}
function b(): object {
  return { key: 'user', value: 'b*', ...limit(3) };
}
function deeper(): object {
  return { ...any, descriptors: [...below.descriptors, { key: 'path', value: '/' }] };
}

test('two rules with the same path text are different rules', () => {
  const joined = { key: 'user_admin', ...limit(1) };
  const { added, removed } = diffRules(rules(joined), rules({ ...admin, ...limit(1) }));
  expect([added.map(({ rule }) => rule.path), removed.map(({ rule }) => rule.path)]).toEqual([
    ['demo.user_admin'],
    ['demo.user_admin'],
  ]);
});

test('a node that charges reservations is a separate rule', () => {
  const rate_limit = { unit: 'minute', requests_per_unit: 9, reserve: { ttl: '60s' } };
  const hold = (more: object = {}) => ({
    key: 'tenant',
    descriptors: [{ key: 'id', not_counted: 'hold', rate_limit, ...more }],
  });
  const commit = { descriptors: [{ key: 'used', not_counted: 'commit' }] };
  const { added, changed } = diffRules(rules(hold()), rules(hold(commit)));
  expect(added.map(({ rule }) => rule.path)).toEqual(['demo.tenant.id.used']);
  expect(changed).toEqual([]);
});

test('a rule is changed if its unlimited days change', () => {
  const scheduled = (days: string): RuleTree => {
    const schedule = [{ active: { days }, unlimited: true }];
    return rules({ key: 'user', rate_limit: { unit: 'day', requests_per_unit: 1, schedule } });
  };
  const diff = diffRules(scheduled('sat'), scheduled('sun'));
  expect(diffJson(diff)).toMatchObject({
    changed: [
      {
        before: { times: [[{ active: 'days: sat, timezone: UTC', unlimited: true }, { limit: 0 }]] },
        after: { times: [[{ active: 'days: sun, timezone: UTC', unlimited: true }, { limit: 0 }]] },
      },
    ],
  });
  expect(diffText(diff, paintFor(false, undefined))).toContain('unlimited: { days: sun, timezone: UTC }');
  expect(countDifferences(diffRules(scheduled('sat'), scheduled('sat')))).toBe(0);
});

test.each<[change: string, before: object, after: object]>([
  ['metadata', { metadata: { plan: 'free' } }, { metadata: { plan: 'paid' } }],
  ['value_to_metric', {}, { value_to_metric: true }],
  ['detailed_metric', { value_to_metric: true }, { detailed_metric: true }],
  ['not_counted', {}, { not_counted: 'trace' }],
  ['shadow_mode', {}, { shadow_mode: true }],
  ['share_threshold', { value: '10.*' }, { value: '10.*', share_threshold: true }],
  ['the body of response', { response: { body: 'wait' } }, { response: { body: 'wait a minute' } }],
])('shows what differs between two rules that differ in %s only', (_, before, after) => {
  const diff = diffRules(rules({ ...any, ...before }), rules({ ...any, ...after }));
  const [was = '', now = ''] = diffText(diff, paintFor(false, undefined)).match(/(?<=^ {4}(was|now) ).*/gm) ?? [];
  expect(was).not.toBe('');
  expect(now.replace(/; counters.*/, '')).not.toBe(was);
  const [changed] = diff.changed;
  expect(changed && ruleAsJson(changed.before)).not.toEqual(changed && ruleAsJson(changed.after));
});

test('domains that are new, removed, or have other ids are listed', () => {
  const empty = rulesFrom(JSON.stringify({ domain: 'other', descriptors: [{ key: 'user' }] }));
  expect(diffRules(rules(any), empty).domains).toEqual([
    { name: 'other', kind: 'added' },
    { name: 'demo', kind: 'removed' },
  ]);
  const id = { key: 'id', not_counted: 'hold' };
  expect(diffRules(rules(any), rules(any, id)).domains).toEqual([{ name: 'demo', kind: 'ids' }]);
});

interface DrawnNode {
  readonly key: string;
  readonly value: string;
  readonly requests: number | undefined;
  readonly shares: boolean;
  readonly children: readonly DrawnNode[];
}

const keys = ['a', 'ab', 'b', 'a*'];
const values = ['', 'x', 'xy', 'y', 'x*', '*', '*y'];

const anyNode = (depth: number): fc.Arbitrary<DrawnNode> =>
  fc.record({
    key: fc.constantFrom(...keys),
    value: fc.constantFrom(...values),
    requests: fc.constantFrom(undefined, undefined, 1, 2),
    shares: fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0),
    children: depth > 1 ? anyNodes(depth - 1) : fc.constant([]),
  });
const anyNodes = (depth: number): fc.Arbitrary<readonly DrawnNode[]> =>
  fc.array(anyNode(depth), { minLength: depth > 1 ? 2 : 0, maxLength: 4 });

/** A small change of the nodes of a level, or of those below one of them. */
const anyEdit = fc.record({
  kind: fc.constantFrom('drop', 'move', 'add', 'limit', 'share'),
  at: fc.nat(3),
  isBelow: fc.boolean(),
  node: anyNode(1),
});
type Edit = typeof anyEdit extends fc.Arbitrary<infer T> ? T : never;

function edited(nodes: readonly DrawnNode[], { isBelow, ...edit }: Edit): readonly DrawnNode[] {
  const at = edit.at % Math.max(nodes.length, 1);
  const chosen = nodes[at];
  if (!chosen) return [edit.node];
  const others = nodes.filter((one) => one !== chosen);
  const replaced = (one: DrawnNode) => nodes.with(at, one);
  if (isBelow && chosen.children.length > 0)
    return replaced({ ...chosen, children: edited(chosen.children, { ...edit, isBelow: false }) });
  switch (edit.kind) {
    case 'drop':
      return others;
    case 'move':
      return [...others, chosen];
    case 'add':
      return [...nodes.slice(0, at), edit.node, ...nodes.slice(at)];
    case 'limit':
      return replaced({ ...chosen, requests: edit.node.requests });
    default:
      return replaced({ ...chosen, shares: !chosen.shares });
  }
}

/** The nodes in a rule file's form; of several with the same key and value, only the first. */
function written(nodes: readonly DrawnNode[]): readonly object[] {
  const first = new Map(nodes.toReversed().map((one) => [`${one.key}=${one.value}`, one]));
  const kept = nodes.filter((one) => first.get(`${one.key}=${one.value}`) === one);
  return kept.map(({ key, value, requests, shares, children }) => ({
    key,
    ...(value !== '' && { value }),
    ...(requests && limit(requests)),
    ...(shares && (key + value).includes('*') && { share_threshold: true }),
    ...(children.length > 0 && { descriptors: written(children) }),
  }));
}

const entries: readonly Entry[] = keys.flatMap((key) => values.map((value) => ({ key, value })));
const asked = entries.flatMap((one) => [[one], ...entries.map((other) => [one, other])]);

/** The part of a descriptor's match that affects the answer. */
function metBy(tree: RuleTree, descriptor: readonly Entry[]): string {
  const found = match(tree, 'demo', { entries: descriptor, requestLimit: undefined });
  return 'rule' in found ? JSON.stringify({ ...found, rule: ruleText(found.rule) }) : found.kind;
}

test('both rule sets answer every request alike if no difference is found', () => {
  let [alike, different] = [0, 0];
  fc.assert(
    fc.property(anyNodes(2), fc.array(anyEdit, { minLength: 1, maxLength: 2 }), (nodes, edits) => {
      const [before, after] = [nodes, edits.reduce(edited, nodes)].map((drawn) => rules(...written(drawn)));
      if (!before || !after) throw new Error('there are two');
      if (countDifferences(diffRules(before, after)) > 0) different++;
      else {
        alike++;
        expect(asked.filter((one) => metBy(after, one) !== metBy(before, one))).toEqual([]);
      }
      expect(countDifferences(diffRules(before, before))).toBe(0);
    }),
    { numRuns: 400 },
  );
  expect(Math.min(alike, different)).toBeGreaterThan(20);
});

test('appending a block to a list keeps its counters, and a value of the same text is another node', () => {
  const shared = { ...net('10.0.0.0/8'), share_threshold: true };
  const longer = { ...shared, addresses: ['10.0.0.0/8', '192.0.2.1'] };
  const { added, removed, rerouted } = diffRules(rules(shared), rules(longer));
  expect(added).toMatchObject([{ before: { path: 'demo.user_10.0.0.0/8' }, counters: [{ isKept: true }] }]);
  expect(removed).toMatchObject([{ after: { path: 'demo.user_10.0.0.0/8' } }]);
  expect(rerouted).toEqual([]);
  const value = { key: 'user', value: '10.0.0.0/8', ...limit(5) };
  expect(countDifferences(diffRules(rules(shared), rules(value)))).toBeGreaterThan(0);
});
