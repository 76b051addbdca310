import fc from 'fast-check';
import { type LimitPolicy, spends } from '../../src/algorithms/limit.ts';
import type { WireRequest } from '../../src/rls/wire.ts';
import { LevelBuilder } from '../../src/rules/level-builder.ts';
import { finish } from '../../src/rules/steps.ts';
import type { Level, Node, RuleLimit, RuleTree } from '../../src/rules/tree.ts';
import { anyLimit, ruleLimitOf } from './limits.ts';
import { ruleOf } from './rules.ts';

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
}

const key = fc.constantFrom('a', 'b', 'k*');
const value = fc.constantFrom('', '', 'x', 'y', 'x*', '*');
const limitName = fc.constantFrom('', 'one', 'two');

/** Small limits often, so that requests meet them. */
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
  });

function levelOf(nodes: readonly DrawnNode[], path: string): Level {
  const level = new LevelBuilder();
  for (const drawn of nodes) level.add(drawn.key, drawn.value, nodeOf(drawn, path));
  return finish(level.build());
}

function nodeOf(
  { key: own, value: wanted, limits, unlimited, shadow, quota, replaces, children }: DrawnNode,
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
      ? ruleOf({ path, limits: numbered, replaces })
      : undefined;
  return {
    composite,
    naming: 'rule',
    rule,
    children: children.length > 0 ? levelOf(children, path) : undefined,
    sharedValue: undefined,
  };
}

/** Any small rule tree of the domain `d`. */
export const anyRules: fc.Arbitrary<RuleTree> = fc
  .record({ nodes: fc.array(anyNode(2), { minLength: 1, maxLength: 4 }), spend: fc.constantFrom(undefined, ...spends) })
  .map(({ nodes, spend }) => ({
    domains: new Map([['d', { name: 'd', spend, root: levelOf(nodes, 'd') }]]),
    rules: [],
  }));

const anyEntry = fc.record({
  key: fc.constantFrom('a', 'b', 'k1', 'z'),
  value: fc.constantFrom('', 'x', 'xy', 'y', 'w'),
});

const anyRequestLimit = fc.record({
  requests_per_unit: fc.integer({ min: 0, max: 3 }),
  unit: fc.constantFrom(0, 1, 2, 7),
  unit_multiplier: fc.constantFrom(null, { value: 0 }, { value: 2 }),
});

/** Any request for that domain, or another; some are not valid. */
export const anyRequest: fc.Arbitrary<WireRequest> = fc.record({
  domain: fc.constantFrom('d', 'd', 'd', 'd', 'other', ''),
  descriptors: fc.array(
    fc.record({
      entries: fc.array(anyEntry, { maxLength: 3 }),
      limit: fc.oneof({ weight: 9, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: anyRequestLimit }),
      hits_addend: fc.constantFrom(null, null, { value: 0 }, { value: 2 }, { value: 30 }),
      is_negative_hits: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
    }),
    { maxLength: 3 },
  ),
  hits_addend: fc.constantFrom(0, 0, 1, 3),
});
