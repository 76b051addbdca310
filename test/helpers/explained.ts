import fc from 'fast-check';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import { type LimitPolicy, spends } from '../../src/engine/algorithms/limit.ts';
import { finish } from '../../src/engine/rules/compile/steps.ts';
import { LevelBuilder } from '../../src/engine/rules/match/level-builder.ts';
import type { Domain, Level, Node, RuleLimit, RuleTree } from '../../src/engine/rules/match/tree.ts';
import type { Requirement } from '../../src/engine/rules/read/node-source.ts';
import { MISSING, missingName } from '../../src/engine/rules/read/requirement.ts';
import { anyLimit, fixedWindowOf, ruleLimitOf } from './limits.ts';
import { ruleOf } from './rules.ts';
import { childOf, fairShareOf } from './shares.ts';

/** A node of a random rule tree. */
interface DrawnNode {
  readonly key: string;
  readonly value: string;
  readonly limits: readonly RuleLimit[];
  readonly unlimited: boolean;
  readonly shadow: boolean;
  readonly quota: boolean;
  readonly replaces: readonly string[];
  readonly children: readonly DrawnNode[];
  readonly required: DrawnRequirement | undefined;
  /** Its children share its limit. */
  readonly shared?: boolean;
}

/** What a level requires, and the limit of requests that lack it. */
interface DrawnRequirement extends Requirement {
  readonly limit: RuleLimit;
}

const key = fc.constantFrom('a', 'b', 'k*');
const value = fc.constantFrom('', '', 'x', 'y', 'x*', '*');
const limitName = fc.constantFrom('', 'one', 'two');

/** Often small limits, so that requests reach them. */
const anySmallLimit = fc
  .record({
    limit: anyLimit,
    name: limitName,
    policy: fc.constantFrom<LimitPolicy['onStoreFailure']>(undefined, 'allow', 'deny', 'local'),
    charges: fc.integer({ min: 0, max: 5 }).map((drawn) => drawn === 0),
    isLeased: fc.boolean(),
  })
  .map(({ limit, name, policy, isLeased, charges }): RuleLimit => {
    const mayLease = isLeased && (limit.algorithm === 'fixed_window' || limit.algorithm === 'token_bucket');
    return {
      ...ruleLimitOf(limit, { name }),
      policy: {
        ...(policy && { onStoreFailure: policy }),
        ...(mayLease && { consistency: 'leased' }),
        ...(charges && !mayLease && { charge: 'always' }),
      },
    };
  });

const anyRequirement: fc.Arbitrary<DrawnRequirement> = fc.record({
  keys: fc.constantFrom<Requirement['keys']>([['a']], [['b'], ['k1']], [['a', 'b']]),
  otherwise: fc.constantFrom<Requirement['otherwise']>('refuse', 'limit', 'allow'),
  per: fc.constantFrom<Requirement['per']>([], ['z'], ['b', 'a']),
  limit: anySmallLimit,
});

const oftenNone = (weight: number): fc.Arbitrary<DrawnRequirement | undefined> =>
  fc.oneof({ weight, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: anyRequirement });

const anyNode = (depth: number): fc.Arbitrary<DrawnNode> =>
  fc.record({
    key,
    value,
    limits: fc.array(anySmallLimit, { maxLength: 2 }),
    unlimited: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
    shadow: fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0),
    quota: fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0),
    replaces: fc.constantFrom([], [], [], ['one'], ['two']),
    children: depth > 1 ? fc.array(anyNode(depth - 1), { maxLength: 2 }) : fc.constant([]),
    required: depth > 1 ? oftenNone(9) : fc.constant(undefined),
  });

/** A limit of a few hits per second, and what its children have of it. */
const anySharedNode: fc.Arbitrary<DrawnNode> = fc
  .record({
    value,
    rate: fc.integer({ min: 4, max: 40 }),
    shadow: fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0),
    children: fc.array(
      fc.record({
        value,
        reserve: fc.constantFrom(0, 0, 1, 2),
        weight: fc.integer({ min: 1, max: 3 }),
        ceiling: fc.constantFrom(0, 0, 3),
        threshold: fc.constantFrom(undefined, 60, 100),
      }),
      { maxLength: 2 },
    ),
  })
  .map(({ value: own, rate, shadow, children }) => {
    const whole = fairShareOf(rate, { by: 'b' });
    const { by: _, ...part } = whole;
    const node = { unlimited: false, shadow, quota: false, replaces: [], required: undefined, shared: true };
    return {
      ...{ ...node, key: 'a', value: own, limits: [ruleLimitOf(whole)] },
      children: children.map(({ value: name, threshold, ...numbers }) => {
        const limit = { ...part, path: [childOf({ key: 'b', ...numbers })], ...(threshold && { threshold }) };
        return { ...node, key: 'b', value: name, limits: [ruleLimitOf(limit)], children: [] };
      }),
    };
  });

function levelOf(nodes: readonly DrawnNode[], path: string, required: DrawnRequirement | undefined): Level {
  const level = new LevelBuilder();
  for (const drawn of nodes) level.add({ key: drawn.key, value: drawn.value }, nodeOf(drawn, path));
  if (required) level.add({ key: MISSING, value: missingName(required), required }, missingNode(required, path));
  return finish(level.build());
}

function missingNode({ otherwise, limit, per }: DrawnRequirement, above: string): Node {
  const plain = { naming: 'rule', sharedValue: undefined } as const;
  const refusal = ruleLimitOf({ ...fixedWindowOf(0, 60_000), counter: 'fixed_window.2|60000#0' });
  const names = ['missing', ...per];
  const path = [above, ...names].join('.');
  const rule =
    otherwise === 'allow'
      ? ruleOf({ path, unlimited: true })
      : ruleOf({ path, limits: [otherwise === 'refuse' ? { ...refusal, policy: { onStoreFailure: 'deny' } } : limit] });
  return names.reduceRight<Node | undefined>((below, composite) => {
    if (!below) return { ...plain, composite, hasRule: true, rule, children: undefined };
    const level = new LevelBuilder();
    level.add({ key: below.composite }, below);
    return { ...plain, composite, hasRule: false, rule: undefined, children: finish(level.build()) };
  }, undefined) as Node; // there is one at least
}

/** The requirements of nodes, and of all nodes below them. */
const requirementsOf = (nodes: readonly DrawnNode[]): readonly Requirement[] =>
  nodes.flatMap(({ required, children }) => [...(required ? [required] : []), ...requirementsOf(children)]);

function nodeOf(
  { key: own, value: wanted, limits, unlimited, shadow, quota, replaces, children, required, shared }: DrawnNode,
  above: string,
): Node {
  const composite = wanted === '' ? own : `${own}_${wanted}`;
  const path = `${above}.${composite}`;
  const modes = { ...(shadow && { shadow: true as const }), ...(quota && { quota: true as const }) };
  const numbered = limits.map(({ limit, label, policy }, at) => ({
    limit: { ...limit, counter: `${limit.counter}#${at}` },
    label,
    policy: { ...policy, ...modes },
  }));
  const rule = unlimited
    ? ruleOf({ path, unlimited: true, replaces })
    : numbered.length > 0
      ? ruleOf({ path, limits: numbered, replaces, ...(shared && above !== 'd' && { sharedBelow: 1 }) })
      : undefined;
  return {
    composite,
    naming: 'rule',
    hasRule: rule !== undefined,
    rule,
    children: children.length > 0 || required ? levelOf(children, path, required) : undefined,
    sharedValue: undefined,
  };
}

const treeOf = (node: fc.Arbitrary<DrawnNode>): fc.Arbitrary<RuleTree> =>
  fc
    .record({
      nodes: fc.array(node, { minLength: 1, maxLength: 4 }),
      spend: fc.constantFrom(undefined, ...spends),
      required: oftenNone(5),
    })
    .map(({ nodes, spend, required }) => {
      const requirements = [...(required ? [required] : []), ...requirementsOf(nodes)];
      const domain: Domain = {
        ...{ name: 'd', spend, root: levelOf(nodes, 'd', required), ruleCount: 0 },
        ...(requirements.length > 0 && { requirements }),
      };
      return { domains: new Map([['d', domain]]), rules: [] };
    });

/** Any small rule tree of the domain `d`. */
export const anyRules = treeOf(fc.oneof({ weight: 5, arbitrary: anyNode(2) }, { weight: 1, arbitrary: anySharedNode }));

/** The same without limits that children share, which memcached cannot count. */
export const anyRulesWithoutShares = treeOf(anyNode(2));

const anyEntry = fc.record({
  key: fc.constantFrom('a', 'b', 'k1', 'z'),
  value: fc.constantFrom('', 'x', 'xy', 'y', 'w'),
});

const anyRequestLimit = fc.record({
  requests_per_unit: fc.integer({ min: 0, max: 3 }),
  unit: fc.constantFrom(0, 1, 2, 7),
  unit_multiplier: fc.constantFrom(null, { value: 0 }, { value: 2 }),
});

/** @param withoutLimit  the number of descriptors without their own limit for each one with a limit */
const requestWith = (
  domain: fc.Arbitrary<string>,
  entries: fc.Arbitrary<WireRequest['descriptors'][number]['entries']>,
  withoutLimit: number,
): fc.Arbitrary<WireRequest> =>
  fc.record({
    domain,
    descriptors: fc.array(
      fc.record({
        entries,
        limit: fc.oneof(
          { weight: withoutLimit, arbitrary: fc.constant(null) },
          { weight: 1, arbitrary: anyRequestLimit },
        ),
        hits_addend: fc.constantFrom(null, null, { value: 0 }, { value: 2 }, { value: 30 }),
        is_negative_hits: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
      }),
      { maxLength: 3 },
    ),
    hits_addend: fc.constantFrom(0, 0, 1, 3),
  });

/** Any request, mostly for the domain `d`; some are invalid. */
export const anyRequest = requestWith(
  fc.constantFrom('d', 'd', 'd', 'd', 'other', ''),
  fc.array(anyEntry, { maxLength: 3 }),
  9,
);

const anyLikelyEntry = fc.record({
  key: fc.constantFrom('a', 'a', 'b', 'b', 'k1'),
  value: fc.constantFrom('x', 'x', 'xy', 'y'),
});

/** The same, but more requests match a limit. */
export const anyLikelyRequest = requestWith(
  fc.oneof({ weight: 20, arbitrary: fc.constant('d') }, { weight: 1, arbitrary: fc.constantFrom('other', '') }),
  fc.oneof(
    { weight: 6, arbitrary: fc.array(anyLikelyEntry, { minLength: 1, maxLength: 1 }) },
    { weight: 3, arbitrary: fc.array(anyLikelyEntry, { minLength: 2, maxLength: 2 }) },
    { weight: 1, arbitrary: fc.array(anyEntry, { maxLength: 3 }) },
  ),
  20,
);
