import fc from 'fast-check';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import type { StandingOverride } from '../../src/engine/decide/overrides.ts';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import { loadText } from './rules.ts';

/** Ways to count, as in rule files. */
const anyRate = fc.constantFrom(
  'unit: minute, requests_per_unit: 3',
  'unit: second, requests_per_unit: 2',
  'unit: minute, requests_per_unit: 3, soft: 1',
  'unit: minute, requests_per_unit: 3, alignment: first_hit',
  'unit: day, requests_per_unit: 5, alignment: calendar, timezone: Europe/Berlin',
  'unit: minute, requests_per_unit: 4, algorithm: sliding_window_log',
  'unit: minute, requests_per_unit: 4, algorithm: sliding_window_counter',
  'unit: minute, requests_per_unit: 4, algorithm: sliding_window_buckets, buckets: 6',
  'unit: minute, requests_per_unit: 4, algorithm: token_bucket, burst: 2',
  'unit: second, requests_per_unit: 2, algorithm: token_bucket, max_delay: 2s',
  'unit: minute, requests_per_unit: 6, algorithm: leaky_bucket, burst: 2',
  'unit: day, budget: 3 USD',
  'unit: day, budget: 3 USD, algorithm: token_bucket',
  'unit: minute, per_replica: 3, replicas: { file: /dev/null }',
  'unlimited: true',
);

/** What a limit may have beside it. */
const anyMore = fc.subarray(
  [
    'penalty: { block: 2m }',
    'penalty: { block: 30s, grow: 2x up to 5m }',
    'charge: always',
    'notify: [50%, 100%]',
    'active: { hours: 00:00-12:00 }',
    'active: { hours: 12:00-12:01 }',
    'on_store_failure: local',
    'consistency: leased',
    'name: one',
    'replaces: [{ name: one }]',
  ],
  { maxLength: 2 },
);

const anyLimit = fc.tuple(anyRate, anyMore).map(([rate, more]) => `{ ${[rate, ...more].join(', ')} }`);

/** What a node may have beside its limits. */
const anyTraits = fc.subarray(
  [
    'shadow_mode: true',
    'quota_mode: true',
    'count_when: 401|5xx',
    'response: {}',
    'value_to_metric: true',
    'detailed_metric: true',
    'metadata: { plan: free }',
  ],
  { maxLength: 2 },
);

const anyMatch = fc.constantFrom('', '', '', "value: 'x*', ", "value: 'x*', share_threshold: true, ", 'value: x, ');

/** A node with limits on rates, of which one may be named by `blocked_by` below. */
const anyRateNode = (key: string) =>
  fc
    .record({
      match: anyMatch,
      limits: fc.array(anyLimit, { minLength: 1, maxLength: 2 }),
      traits: anyTraits,
      below: fc.constantFrom(
        '',
        '',
        'blocked_by: one',
        'blocked_by: one, rate_limit: { unit: minute, requests_per_unit: 5 }',
      ),
    })
    .map(({ match, limits, traits, below }) => {
      const costs = limits.join().includes('budget') ? ['unit_cost: 1 USD'] : [];
      const child = below ? [`descriptors: [{ key: z, ${below} }]`] : [];
      return `  - { key: ${key}, ${match}${[`rate_limits: [${limits.join(', ')}]`, ...traits, ...costs, ...child].join(', ')} }`;
    });

const SLOTS = 'algorithm: in_flight, requests_per_unit: 2, ttl: 60s';

/** Nodes whose hits are held by the id of a request, or shared by children. */
const anyHeldNode = (key: string) =>
  fc
    .record({
      limit: fc.constantFrom(
        `{ ${SLOTS} }`,
        `{ algorithm: in_flight, ttl: 60s, adapt: { min: 2, max: 4 } }`,
        '{ unit: minute, requests_per_unit: 9, reserve: { ttl: 30s } }',
        '{ unit: minute, requests_per_unit: 9, reserve: { ttl: 30s, on_lapse: free, estimate: 2 } }',
        '{ unit: day, budget: 9 USD, reserve: { ttl: 30s } }',
        `{ ${SLOTS}, share: { by: z, spare: 0% } }`,
      ),
      order: fc.constantFrom('', 'match: any_order, '),
      traits: fc.subarray(['shadow_mode: true', 'quota_mode: true', 'response: {}'], { maxLength: 1 }),
      failures: fc.boolean(),
    })
    .map(({ limit, order, traits, failures }) => {
      const cost = limit.includes('budget') ? ['unit_cost: 1 USD'] : [];
      const commit = `descriptors: [{ key: z, not_counted: commit${failures ? ', count_when: 5xx' : ''} }]`;
      const below = limit.includes('reserve')
        ? [commit]
        : limit.includes('share')
          ? ['descriptors: [{ key: z, share: { weight: 1 } }]']
          : [];
      const own = [`rate_limit: ${limit}`, ...traits, ...cost, ...below].join(', ');
      return `  - { key: ${key}, ${order}descriptors: [{ key: id, not_counted: hold, ${own} }] }`;
    });

const anySharedNode = (key: string) =>
  fc.constantFrom(
    `  - { key: ${key}, rate_limit: { unit: second, requests_per_unit: 4, share: { by: z } }, descriptors: [{ key: z, share: { weight: 1 } }] }`,
    `  - { key: ${key}, rate_limit: { unit: second, requests_per_unit: 9, share: { by: z } }, descriptors: [{ key: z, share: { priority: value } }] }`,
  );

const anyNodeOf = (key: string) =>
  fc.oneof(
    { weight: 4, arbitrary: anyRateNode(key) },
    { weight: 2, arbitrary: anyHeldNode(key) },
    { weight: 1, arbitrary: anySharedNode(key) },
  );

const KEYS = ['a', 'b', 'c'] as const;

/** The text of a valid rule file of the domain `d`, with two or three features at once. */
export const anyFeaturedText: fc.Arbitrary<string> = fc
  .record({
    nodes: fc.tuple(...KEYS.map(anyNodeOf)),
    head: fc.subarray(
      [
        'spend: all_or_nothing',
        'match: any_order',
        'require: [a]',
        'require: { keys: [b], limit: { unit: minute, requests_per_unit: 2 } }',
      ],
      { maxLength: 1 },
    ),
  })
  .map(({ nodes, head }) => ['domain: d', ...head, 'descriptors:', ...nodes, ''].join('\n'))
  .filter((text) => loadText(text).ok);

export function treeOf(text: string): RuleTree {
  const loaded = loadText(text);
  if (!loaded.ok) throw new Error('it is valid');
  return loaded.rules;
}

const anyEntries = fc
  .record({
    key: fc.constantFrom(...KEYS),
    value: fc.constantFrom('x', 'x', 'xy', 'w'),
    below: fc.constantFrom<readonly string[]>([], [], ['id'], ['id'], ['id', 'z'], ['z'], ['z', 'id']),
    id: fc.constantFrom('1', '2', '3'),
    child: fc.constantFrom('s', 't', 'critical'),
    isReversed: fc.integer({ min: 0, max: 5 }).map((drawn) => drawn === 0),
  })
  .map(({ key, value, below, id, child, isReversed }) => {
    const entries = [{ key, value }, ...below.map((one) => ({ key: one, value: one === 'id' ? id : child }))];
    return isReversed ? entries.toReversed() : entries;
  });

/** Requests for these rules: asked for, given back, peeked at, or with the status of a response. */
export const anyFeaturedRequest: fc.Arbitrary<WireRequest> = fc.record({
  domain: fc.constant('d'),
  descriptors: fc.array(
    fc.record({
      entries: anyEntries,
      limit: fc.constant(null),
      hits_addend: fc.constantFrom(
        null,
        null,
        null,
        { value: 0 },
        { value: 2 },
        { value: 401 },
        { value: 200 },
        { value: 30 },
      ),
      is_negative_hits: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
    }),
    { minLength: 1, maxLength: 2 },
  ),
  hits_addend: fc.constantFrom(0, 0, 1),
});

export const anyEffect = fc.constantFrom<StandingOverride['effect']>(
  { kind: 'block' },
  { kind: 'exempt' },
  { kind: 'limit', requestsPerUnit: 2, unit: 'SECOND' },
);

/** An override of the key `a`, with and without the ids of requests. */
export const overrideOf = (effect: StandingOverride['effect'], untilMs: number): StandingOverride => ({
  domain: 'd',
  entries: [{ key: 'a', value: 'x' }],
  effect,
  untilMs,
  by: '',
  reason: '',
});
