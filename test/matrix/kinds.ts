/** The domain of all kinds. */
export const DOMAIN = 'matrix';

/**
 * A kind of limit, and what doors and views must say of it once `room` hits have passed and two more were asked for.
 */
export interface Kind {
  readonly name: string;
  /** The limit of its node, as in a rule file. */
  readonly limit: string;
  /** Further keys of its node. */
  readonly node?: string;
  /** What callers do with it; slots and reservations are held by an id, unless `isAnonymous`. */
  readonly use: 'spend' | 'slots' | 'reserve';
  readonly isAnonymous?: true;
  /** The values of the entry `tenant` share it. */
  readonly isShared?: true;
  /** Callers send the entries after the first one in another order than the rules have them. */
  readonly isReordered?: true;
  /** Each request asks this node, too, which has room for more. */
  readonly beside?: string;
  /** An operator gives this descriptor the limit. */
  readonly isOverridden?: true;
  /** It counts only failures, which follow each request that passes. */
  readonly isReported?: true;
  /** The request states the limit. */
  readonly isStated?: true;
  /** Hits that pass. */
  readonly room: number;
  /** Why the next hit passes nevertheless; absent: it is refused. */
  readonly passes?: 'shadow' | 'quota';
  /** Its name in rules and in all views. */
  readonly algorithm: string;
  /** The limit in answers and headers. */
  readonly shown: number;
  /** The parameters of its policy in `RateLimit-Policy`; absent if it can refuse nothing. */
  readonly policy?: string;
  /** How long the next hit is refused: for less than a day, a minute, a second, or until hits are given back. */
  readonly wait: 'day' | 'minute' | 'second' | 'never';
  /** What its counter contains in the end. */
  readonly used: number;
  /** The arithmetic of the next hit's refusal. Default: compares it with the room. */
  readonly refusal?: string;
  /** What is on record as used: nothing of requests in flight, and nothing before a reservation is committed. */
  readonly usage?: number;
}

const DAY = 'unit: day, requests_per_unit: 3';
const SLOTS = 'algorithm: in_flight, requests_per_unit: 3, ttl: 60s';
const ADAPT = 'algorithm: in_flight, ttl: 60s, adapt: { min: 3, max: 10 }';
const RESERVE = `${DAY}, reserve: { ttl: 60s }`;

type Told = 'use' | 'room' | 'algorithm' | 'shown' | 'policy' | 'wait' | 'used' | 'usage';

/** A fixed window, which counts refused hits as well. */
const windowed: Pick<Kind, Told> = {
  use: 'spend',
  room: 3,
  algorithm: 'fixed_window',
  shown: 3,
  policy: 'q=3;w=86400',
  wait: 'day',
  used: 5,
  usage: 3,
};
const counted: Pick<Kind, Told> = { ...windowed, used: 3 };
const slots: Pick<Kind, Exclude<Told, 'usage'>> = {
  use: 'slots',
  room: 3,
  algorithm: 'in_flight',
  shown: 3,
  policy: 'q=3;qu="concurrent-requests"',
  wait: 'minute',
  used: 3,
};
const adaptive = { ...slots, shown: 10, policy: 'q=10;qu="concurrent-requests"' };
const { usage: _, ...uncommitted } = windowed;
const reserved: Pick<Kind, Exclude<Told, 'usage'>> = { ...uncommitted, use: 'reserve', wait: 'minute', used: 3 };

/** The same limit in a mode in which it lets all hits pass; quotas do, as each request has another one with room. */
function inMode(mode: 'shadow' | 'quota', name: string, { policy, ...of }: Omit<Kind, 'name'>): Kind {
  const modal = { ...of, name: `${mode}_${name}`, node: `${mode}_mode: true`, passes: mode };
  return mode === 'shadow' ? modal : { ...modal, beside: `${mode}_${name}_spare`, ...(policy && { policy }) };
}

const modes = (['shadow', 'quota'] as const).flatMap((mode) => [
  inMode(mode, 'window', { ...windowed, limit: `{ ${DAY} }` }),
  inMode(mode, 'bucket', { ...counted, algorithm: 'token_bucket', limit: `{ ${DAY}, algorithm: token_bucket }` }),
  inMode(mode, 'slots', { ...slots, limit: `{ ${SLOTS} }` }),
  inMode(mode, 'adaptive', { ...adaptive, limit: `{ ${ADAPT} }` }),
  inMode(mode, 'reservation', { ...reserved, limit: `{ ${RESERVE} }` }),
]);

/** Rates are shared by the second. */
const sharedRate = 'unit: second, requests_per_unit: 3, share: { by: tenant, spare: 0% }';

export const kinds: readonly Kind[] = [
  { ...windowed, name: 'window', limit: `{ ${DAY} }` },
  { ...windowed, name: 'first_hit', limit: `{ ${DAY}, alignment: first_hit }` },
  { ...windowed, name: 'calendar', limit: `{ ${DAY}, alignment: calendar, timezone: Europe/Berlin }` },
  ...['sliding_window_log', 'sliding_window_counter', 'sliding_window_buckets', 'token_bucket', 'leaky_bucket'].map(
    (algorithm): Kind => {
      const own = { sliding_window_buckets: ', buckets: 24', leaky_bucket: ', burst: 3' }[algorithm] ?? '';
      return { ...counted, algorithm, name: algorithm, limit: `{ ${DAY}, algorithm: ${algorithm}${own} }` };
    },
  ),
  {
    ...windowed,
    name: 'soft',
    limit: '{ unit: day, requests_per_unit: 2, soft: 1 }',
    shown: 2,
    policy: 'q=2;w=86400',
    refusal: '> 2 + 1 soft',
  },
  { ...windowed, name: 'charged', limit: `{ ${DAY}, charge: always }`, usage: 5 },
  { ...windowed, name: 'active', limit: `{ ${DAY}, active: { hours: 00:00-24:00 } }` },
  {
    ...windowed,
    name: 'budget',
    node: 'unit_cost: 1 USD',
    limit: '{ unit: day, budget: 3 USD }',
    shown: 300,
    policy: 'q=300;qu="USD-cents";w=86400',
    used: 5e9,
    usage: 3e9,
  },
  { ...windowed, name: 'responding', node: 'response: {}', limit: `{ ${DAY} }` },
  { ...windowed, name: 'notifying', limit: `{ ${DAY}, notify: [50%, 100%] }` },
  { ...windowed, name: 'per_replica', limit: '{ unit: day, per_replica: 3, replicas: { file: /dev/null } }' },
  { ...windowed, name: 'overridden', limit: '{ unit: day, requests_per_unit: 100 }', isOverridden: true },
  { ...windowed, name: 'stated', limit: '{ unit: day, requests_per_unit: 100 }', isStated: true },
  {
    ...counted,
    name: 'allocation',
    limit: '{ algorithm: allocation, requests_per_unit: 3 }',
    algorithm: 'allocation',
    policy: 'q=3',
    wait: 'never',
  },
  {
    ...counted,
    name: 'shared_rate',
    isShared: true,
    limit: `{ ${sharedRate} }`,
    algorithm: 'token_bucket',
    policy: 'q=3;w=1',
    wait: 'second',
  },
  { ...slots, name: 'slots', limit: `{ ${SLOTS} }` },
  { ...slots, name: 'anonymous_slots', isAnonymous: true, limit: `{ ${SLOTS} }`, used: 5 },
  {
    ...slots,
    name: 'soft_slots',
    limit: '{ algorithm: in_flight, requests_per_unit: 2, soft: 1, ttl: 60s }',
    shown: 2,
    policy: 'q=2;qu="concurrent-requests"',
    refusal: '> 2 + 1 soft',
  },
  { ...slots, name: 'shared_slots', isShared: true, limit: `{ ${SLOTS}, share: { by: tenant, spare: 0% } }` },
  {
    ...slots,
    name: 'any_order_slots',
    isShared: true,
    isReordered: true,
    limit: `{ ${SLOTS}, share: { by: tenant, spare: 0% } }`,
  },
  { ...adaptive, name: 'adaptive', limit: `{ ${ADAPT} }` },
  { ...adaptive, name: 'shared_adaptive', isShared: true, limit: `{ ${ADAPT}, share: { by: tenant, spare: 0% } }` },
  { ...reserved, name: 'reservation', limit: `{ ${RESERVE} }` },
  { ...windowed, name: 'failures', isReported: true, node: 'count_when: 401|5xx', limit: `{ ${DAY} }`, used: 3 },
  {
    ...counted,
    name: 'failures_bucket',
    isReported: true,
    node: 'count_when: 401',
    algorithm: 'token_bucket',
    limit: `{ ${DAY}, algorithm: token_bucket }`,
  },
  // the hit that begins the block is counted, and none during it
  {
    ...windowed,
    name: 'penalty',
    limit: `{ ${DAY}, penalty: { block: 1h } }`,
    used: 4,
    refusal: 'refused by a block of 1h',
  },
  {
    ...counted,
    name: 'penalty_log',
    algorithm: 'sliding_window_log',
    limit: `{ ${DAY}, algorithm: sliding_window_log, penalty: { block: 12h, grow: 2x up to 20h } }`,
    refusal: 'refused by a block of 12h',
  },
  ...modes,
];

export const hasId = ({ use, isAnonymous }: Kind): boolean => use !== 'spend' && !isAnonymous;

/** The path of its rule. */
export const pathOf = (kind: Kind): string =>
  [DOMAIN, kind.name, ...(hasId(kind) ? ['id'] : []), ...(kind.isShared ? ['tenant'] : [])].join('.');

/** The rules of all kinds; a node beside another one has room for a hundred hits. */
export function rulesOf(all: readonly Kind[]): string {
  const nodeOf = (kind: Kind, key: string, limit: string): string => {
    const leaf = [
      `rate_limit: ${limit}`,
      kind.node,
      kind.isShared && 'descriptors: [{ key: tenant, share: { weight: 1 } }]',
    ];
    const own = leaf.filter((text) => text).join(', ');
    return hasId(kind)
      ? `  - { key: ${key}, ${kind.isReordered ? 'match: any_order, ' : ''}descriptors: [{ key: id, not_counted: hold, ${own} }] }`
      : `  - { key: ${key}, ${own} }`;
  };
  const nodes = all.flatMap((kind) => [
    nodeOf(kind, kind.name, kind.limit),
    ...(kind.beside ? [nodeOf(kind, kind.beside, kind.limit.replace(/(_unit|min|max): \d+/g, '$1: 100'))] : []),
  ]);
  return [`domain: ${DOMAIN}`, 'descriptors:', ...nodes, ''].join('\n');
}
