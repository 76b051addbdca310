import { otherBlocks, otherKeys, timeKeys } from '../../../parts/rule-keys.ts';
import { algorithms, rateNames } from '../../algorithms/index.ts';
import { spends, storeFailurePolicies } from '../../algorithms/limit.ts';
import { UNIT_COST } from '../../algorithms/money.ts';
import { algorithmsWith, canOwe, type NamedAlgorithm } from '../../holds/limits.ts';
import { DATE_TIME, limitKeys } from './limit-keys.ts';

/** What the value of an entry may say about the request alone. */
export const idKinds = ['hold', 'trace', 'priority'] as const;
export type IdKind = (typeof idKinds)[number];

/** The roles of an entry that is not part of the counter. */
export const notCounted = [...idKinds, 'commit'] as const;

/** A number, or a percentage. */
const PART = '^([0-9]+|[0-9]+(\\.[0-9]+)?%)$';

/** Statuses of responses: `401|403|5xx`. */
const STATUS = '([1-5][0-9][0-9]|[1-5]xx)';

/** A media type, with parameters or without. */
export const MEDIA_TYPE = '^[\\w!#$&^.+-]+/[\\w!#$&^.+-]+(; *[\\w.-]+=[\\w.-]+)*$';

/** About a block of IP addresses; `parseAddressBlock` is exact. */
export const ADDRESS_BLOCK = '^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$';

/** The keys that envoyproxy/ratelimit has, too, and its types for their values. */
export const goTypes: Readonly<Record<string, string>> = {
  domain: 'string',
  descriptors: '[]config.YamlDescriptor',
  key: 'string',
  value: 'string',
  rate_limit: 'config.YamlRateLimit',
  shadow_mode: 'bool',
  quota_mode: 'bool',
  detailed_metric: 'bool',
  value_to_metric: 'bool',
  share_threshold: 'bool',
  metadata: 'map[string]interface {}',
  unit: 'string',
  requests_per_unit: 'uint32',
  unlimited: 'bool',
  name: 'string',
  replaces: '[]config.yamlReplaces',
};

/** It ignores these keys where they mean nothing. */
export const referenceKeys: ReadonlySet<string> = new Set(Object.keys(goTypes));

/** The keys of a limit. */
const rateLimit = {
  ...limitKeys,
  ...otherKeys,
  share: {
    type: 'block',
    of: 'share',
    goesWith: algorithmsWith('share'),
    meaning:
      'the values of a key share the limit: each may use what others leave; token_bucket (the default then) with unit: second or minute, or in_flight with an id',
  },
  charge: {
    type: 'text',
    goesWith: rateNames.filter(canOwe),
    choices: ['accepted', 'always'],
    meaning:
      'accepted (the default): count as the algorithm does; always: also count refused hits, for reports of hits already used',
  },
  on_store_failure: {
    type: 'text',
    choices: ['error', ...storeFailurePolicies],
    meaning:
      'while the counters cannot be reached: error (the default: UNAVAILABLE, so that the proxy decides), allow, deny or local (counted in each process)',
  },
  on_overload: {
    type: 'text',
    choices: ['local', 'error'],
    meaning:
      'while a process is too late to ask the store: local (the default: it answers from memory) or error (as if the store had failed: see on_store_failure)',
  },
  local_share: {
    type: 'count',
    minimum: 1,
    meaning:
      'how many processes share the limit while they count in memory; absent: as many as have used the store recently',
  },
  consistency: {
    type: 'text',
    goesWith: rateNames.filter((name) => algorithms[name].leaseMs !== undefined),
    choices: ['strict', 'leased'],
    meaning:
      'strict (the default, unless CONSISTENCY says otherwise): every hit is counted in Redis; leased: a process debits many hits at once and answers from them',
  },
  notify: {
    type: 'texts',
    goesWith: rateNames,
    pattern: '^([1-9][0-9]?|100)%$',
    meaning: 'tells operators when a counter has used these shares of the limit: [80%, 100%]; requires NOTIFY',
  },
  ...timeKeys,
  on_change: {
    type: 'text',
    choices: ['keep', 'reset'],
    meaning:
      'what happens to counters when the numbers of the limit change: keep (the default), or reset (they start anew)',
  },
} as const satisfies Record<string, Field>;

const match = {
  type: 'text',
  choices: ['in_order', 'any_order'],
  meaning:
    'in_order (the default): the entries of a descriptor match the nodes below in this order; any_order: in any order',
} as const satisfies Field;

/**
 * The rule file format in one place: the blocks of a file, their keys, and the type and meaning of each key. The reader
 * checks files against it, and the schema for editors is generated from it.
 */
export const format = {
  file: {
    domain: { type: 'text', required: true, meaning: 'domain of these rules, which callers send as `domain`' },
    descriptors: { type: 'list', of: 'node', meaning: 'the first level of the rule tree' },
    match,
    spend: {
      type: 'text',
      choices: spends,
      meaning:
        'what a request spends if a limit refuses it: each (every limit counts on its own), all_or_nothing or spare_others',
    },
    require: {
      type: 'keys',
      orBlock: 'require',
      meaning: 'keys that every request of the domain must carry: [customer], or one of [[user], [api_key]]',
    },
  },
  node: {
    key: {
      type: 'text',
      required: true,
      meaning: 'the key of the entry that this node matches; `*` in it matches any text',
    },
    value: { type: 'text', meaning: 'the value that it matches; `*` in it matches any text; absent: any value' },
    addresses: {
      type: 'texts',
      insteadOf: ['value'],
      pattern: ADDRESS_BLOCK,
      meaning:
        'blocks of IP addresses that it matches: 10.0.0.0/8, 2001:db8::/32, 10.0.0.1, or a list of them; the first one names the node',
    },
    rate_limit: {
      type: 'block',
      of: 'rate_limit',
      meaning: 'the limit; absent: descriptors that end here are not limited',
    },
    rate_limits: {
      type: 'list',
      of: 'rate_limit',
      insteadOf: ['rate_limit'],
      minimum: 1,
      maximum: 16,
      meaning: 'several limits, instead of rate_limit; all must let a request pass',
    },
    descriptors: { type: 'list', of: 'node', meaning: 'the next level of the rule tree' },
    match,
    shadow_mode: { type: 'flag', meaning: 'counts, but answers OK when over the limit' },
    quota_mode: { type: 'flag', meaning: 'refuses only when all quota rules of a request are over their limits' },
    share_threshold: { type: 'flag', meaning: 'all values that the `*` or the addresses match share one counter' },
    not_counted: {
      type: 'text',
      choices: notCounted,
      meaning:
        'hold, trace: the value is an id of the request, and not part of the counter; hold: id of a request in flight, for limits below with algorithm: in_flight or reserve; trace: id to find refusals by. priority: the value is the priority of the request for limits below with adapt. commit: hits are the actual use of the request, for limits with reserve on the node above',
    },
    unit_cost: {
      type: 'text',
      pattern: UNIT_COST,
      meaning:
        'what a hit costs budgets of this node: 0.01 USD, 0.0025 USD per 1000; with not_counted: commit, of those above',
    },
    charged_later: {
      type: 'flag',
      meaning:
        'requests only check the limits, and are charged when they end: checks without a charge are reported as a finding; learnt for limits with reserve',
    },
    blocked_by: {
      type: 'texts',
      meaning:
        'names of limits with penalty of the node directly above: what counts here is refused during their blocks, too',
    },
    count_when: {
      type: 'text',
      pattern: `^${STATUS}(\\|${STATUS})*$`,
      meaning:
        'only responses with these statuses count: 401|403|5xx; a request begins with fewer than 100 hits, which the limits only check, and ends with its status as hits. With not_counted: commit, these responses have used one hit, and others none',
    },
    share: {
      type: 'block',
      of: 'child',
      insteadOf: ['rate_limit', 'rate_limits'],
      meaning: 'the part of these values in the shared limit of the node above; without a value: of those not listed',
    },
    response: {
      type: 'block',
      of: 'response',
      meaning:
        'body, content type and headers of the response to requests that limits of this node refuse; {}: a problem document of RFC 9457',
    },
    detailed_metric: { type: 'flag', meaning: 'statistics under every key and value of the descriptor' },
    value_to_metric: { type: 'flag', meaning: 'statistics under the value that was matched' },
    metadata: { type: 'struct', meaning: 'returned with the answer' },
    require: {
      type: 'keys',
      orBlock: 'require',
      meaning:
        'keys that a request must carry, in any of its descriptors, if one of them passes this node: [customer], or one of [[user], [api_key]]',
    },
  },
  rate_limit: rateLimit,
  share: {
    by: {
      type: 'text',
      required: true,
      meaning: 'the key of the entry below this node whose values share the limit',
    },
    spare: {
      type: 'text',
      pattern: '^([0-9]|[1-4][0-9]|50)%$',
      meaning:
        'percentage of the limit, at least a hit, that is left to values that have used less than half of their share; 0% to 50%; absent: 5%',
    },
  },
  child: {
    reserve: {
      type: 'text',
      pattern: PART,
      meaning:
        'hits per unit, or a percentage of those of the node above, that siblings cannot take from it; absent: none',
    },
    weight: {
      type: 'count',
      minimum: 1,
      maximum: 1_000,
      meaning: 'its part of what is not reserved, relative to its siblings that ask; absent: 1',
    },
    ceiling: {
      type: 'text',
      pattern: PART,
      meaning: 'the most hits per unit, or a percentage of those of the node above; absent: no limit of its own',
    },
    priority: {
      type: 'text',
      pattern: '^(critical|default|sheddable|value|[1-9][0-9]?|100)$',
      meaning:
        'part of the bucket that the hits may use: critical (100, beyond the fair share), default (85), sheddable (60), or a percentage; value: as the value of the entry says',
    },
    by: { type: 'text', meaning: 'the key of the next level, whose values share the part of this node' },
  },
  replicas: {
    dns: {
      type: 'text',
      pattern: '^[\\w.-]{1,253}$',
      meaning: 'host name with an address for each replica, such as that of a headless service: checkout.shop.svc',
    },
    file: {
      type: 'text',
      insteadOf: ['dns'],
      meaning: 'path of a file on the host of Weir that has their number, or a line for each',
    },
    min: { type: 'count', minimum: 1, maximum: 100_000, meaning: 'counts while fewer are known, or none; absent: 1' },
    max: { type: 'count', minimum: 1, maximum: 100_000, meaning: 'counts while there are more; absent: 1000' },
  },
  ...otherBlocks,
  anchor: {
    anchor: {
      type: 'text',
      required: true,
      pattern: DATE_TIME,
      meaning: 'a moment at which a window begins: 2026-11-27T00:00',
    },
    timezone: { type: 'text', meaning: 'time zone of the anchor, a name of the IANA database; absent: UTC' },
  },
  response: {
    body: {
      type: 'text',
      meaning:
        'text or JSON, at most 8192 characters, with {retry_after} (seconds, as Retry-After), {limit} (5 per minute) and {rule}; absent: a problem document',
    },
    content_type: {
      type: 'text',
      pattern: MEDIA_TYPE,
      meaning:
        'media type of the body; absent: application/problem+json without a body, application/json if it is JSON, else text/plain; charset=utf-8',
    },
    headers: {
      type: 'struct',
      meaning: 'further headers of the response: { Location: https://example.com/slow-down }',
    },
  },
  require: {
    keys: {
      type: 'keys',
      required: true,
      meaning:
        'the keys, all of which a request must carry with a value: [customer]; a list of lists has alternatives: [[user], [api_key]]',
    },
    otherwise: {
      type: 'text',
      choices: ['refuse', 'allow'],
      meaning: 'what happens to other requests: refuse (the default: OVER_LIMIT), or allow, which only reports them',
    },
    limit: {
      type: 'block',
      of: 'rate_limit',
      insteadOf: ['otherwise'],
      meaning: 'a limit that other requests share; they also count under the rules that they match',
    },
    per: {
      type: 'texts',
      meaning: 'with limit: keys whose values have counters of their own: remote_address; absent: one counter for all',
    },
  },
  replaces: {
    name: { type: 'text', required: true, meaning: 'the `name` of the limit to replace' },
  },
} as const satisfies Record<string, Record<string, Field>>;

/** The type of a key's value. `count` is an integer from 0 to its maximum, or 4294967295; `struct` any mapping. */
export type Field = FieldFacts &
  (
    | {
        readonly type: 'text';
        /**
         * The accepted texts. The first is the default of a key that may be absent, unless its meaning says otherwise.
         */
        readonly choices?: readonly string[];
        /** `choices` are case-insensitive. */
        readonly anyCase?: boolean;
        readonly pattern?: string;
        /** A block that may replace the text. */
        readonly orBlock?: string;
      }
    /** One text, or a list of them. */
    | { readonly type: 'texts'; readonly pattern?: string }
    /** A list of keys, or of alternative lists of keys. `orBlock` may replace it. */
    | { readonly type: 'keys'; readonly orBlock?: string }
    | ({ readonly type: 'count' } & Bounds)
    | { readonly type: 'flag' | 'struct' }
    | ({ readonly type: 'list'; readonly of: string } & Bounds)
    | { readonly type: 'block'; readonly of: string }
  );

interface FieldFacts {
  readonly meaning: string;
  readonly required?: boolean;
  /** Keys of the same block that must then be absent. */
  readonly insteadOf?: readonly string[];
  /** The only algorithms that have the key. */
  readonly goesWith?: readonly NamedAlgorithm[];
  /** Its limits depend on the priority that a request states: `not_counted: priority`. */
  readonly readsPriority?: true;
  /** The limit is divided among places that count by themselves. */
  readonly divides?: true;
  /** Refusals begin a block, which no process can count by itself. */
  readonly blocks?: true;
  /** Hits are reserved before their number is known, and have ids. */
  readonly reserves?: true;
  /** It says when limits apply. */
  readonly times?: true;
}

/** Bounds of a count's value, or of a list's length. */
interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
}

export type Shape = keyof typeof format;

type LimitKey = keyof typeof rateLimit;

/** The keys of limits of which a fact is true. */
export const limitKeysWith = (isTrue: (field: Field) => boolean): readonly LimitKey[] =>
  (Object.keys(rateLimit) as LimitKey[]).filter((key) => isTrue(rateLimit[key])); // its own keys

/** The keys that divide a limit. */
export const dividing = limitKeysWith(({ divides }) => divides === true);

/** Those whose refusals begin a block. */
export const blocking = limitKeysWith(({ blocks }) => blocks === true);

/** Those that have hits reserved first. */
export const reserving = limitKeysWith(({ reserves }) => reserves === true);

/** Those that say when limits apply. */
export const timed = limitKeysWith(({ times }) => times === true);
