import type { JsonObject } from '../../../base/json.ts';
import type { RequestWork } from '../../../base/request-work.ts';
import type { LimitLabel, LimitPolicy, Spend } from '../../algorithms/limit.ts';
import type { Money } from '../../algorithms/money.ts';
import type { Limit } from '../../holds/limits.ts';
import type { IdKind } from '../read/format.ts';
import type { Requirement } from '../read/node-source.ts';
import type { MayBeOverlaid } from '../read/overlaid.ts';
import type { Place } from '../read/problem.ts';
import type { Matcher } from './matcher.ts';
import type { RequiredKeys } from './required-keys.ts';

/** The current rules, immutable and ready for matching. A reload creates a new tree. */
export interface RuleTree {
  readonly domains: ReadonlyMap<string, Domain>;
  readonly rules: RuleList;
  /** How statistics show a caller's value. Default: unchanged. */
  readonly shownValue?: (value: string) => string;
  /** Whether a value stands for another one, and so matches no pattern. Default: none does. */
  readonly isOpaque?: (value: string) => boolean;
}

/**
 * All rules of all domains, for listing. A rule may be built when it is first listed, so code that lists all of them
 * while requests are answered does so in slices.
 */
interface RuleList extends Iterable<Rule> {
  readonly length: number;
}

export interface Domain extends MayBeOverlaid {
  readonly name: string;
  /** Hits that a refused request spends; undefined for the service's default. */
  readonly spend: Spend | undefined;
  readonly root: Level;
  /** The number of rules that are listed for it. */
  readonly ruleCount: number;
  /** The entries that are ids of requests instead of parts of the counter, for each path, if any. */
  readonly ids?: readonly (readonly IdEntry[])[];
  /** What its levels require, if any does. */
  readonly requirements?: readonly Requirement[];
  /** Whether some of its levels match entries in any order. */
  readonly reorders?: true;
}

/** The places of keys in the one order that rules have. */
export type KeyOrder = ReadonlyMap<string, number>;

/** An entry that is an id of the request: `not_counted`. */
export interface IdEntry {
  readonly at: number;
  readonly key: string;
  readonly as: IdKind;
}

/** The nodes among which one entry of a descriptor is searched, indexed by the entry's key. */
export interface Level {
  readonly byKey: ReadonlyMap<string, Branch>;
  /** Nodes with a pattern for the key, for entries whose key has no branch. */
  readonly keyPatterns: PatternNodes | undefined;
  /** The keys that requests must carry if one of their descriptors reaches the level. */
  readonly required?: RequiredKeys | undefined;
  /** The order in which the entries from here on are matched, however they were sent. Default: as they were sent. */
  readonly order?: KeyOrder | undefined;
}

/** The nodes for one key, in the order of precedence. Patterns are also in `byValue`: they match their own text. */
export interface Branch {
  readonly byValue: ReadonlyMap<string, Node>;
  readonly addresses: AddressNodes | undefined;
  readonly patterns: PatternNodes | undefined;
  /** Those of the level, if one of them matches this key. */
  readonly keyPatterns: PatternNodes | undefined;
  readonly anyValue: Node | undefined;
}

/** Nodes with blocks of addresses. */
export interface AddressNodes {
  /** The node with the longest block that contains an address. */
  find(value: string): Node | undefined;
  /** In the order of the file. */
  readonly all: readonly PlacedNode[];
}

/** A node, and the entries that it matches. */
export interface PlacedNode {
  readonly key: Matcher;
  readonly value: Matcher;
  readonly node: Node;
}

/** A node with its position among the patterns of its level, in the order of the file. */
export interface RankedNode extends PlacedNode {
  readonly rank: number;
}

/** Nodes with patterns, which are searched together. */
export interface PatternNodes {
  /**
   * The first match, in the order of the file.
   *
   * @param work  charged before it is done
   * @throws TooCostly
   */
  find(key: string, value: string, work?: RequestWork): RankedNode | undefined;
  /** In the order of the file. */
  readonly all: readonly RankedNode[];
}

/** A node of the rule file. */
export interface Node {
  /** `user_alice`, `path_/login*`, `user`: its key and value. */
  readonly composite: string;
  readonly naming: Naming;
  /** Whether it has a rule; known without building it. */
  readonly hasRule: boolean;
  /** May be a getter, which `{ ...node }` leaves out. */
  readonly rule: Rule | undefined;
  readonly children: Level | undefined;
  /** The text that replaces a value in the counter key if all values that the node matches share one counter. */
  readonly sharedValue: string | undefined;
  /** Each address has its own counter, however it is written. */
  readonly countsAddresses?: true | undefined;
}

/**
 * How a level is named in statistics.
 *
 * rule   by the node: `user`, `path_/login*`
 * key    by the entry's key and the node's pattern, if the `*` is in the key: `user_us*`
 * value  by the entry's key and value (`value_to_metric`): `user_alice`
 */
export type Naming = 'rule' | 'key' | 'value';

/** A limit of a rule: its numbers, how it is shown to callers, and its policy. */
export interface RuleLimit {
  readonly limit: Limit;
  readonly label: LimitLabel;
  readonly policy: LimitPolicy;
  /** When it applies. Default: always, or whenever no limit of its schedule does. */
  readonly times?: LimitTimes;
  /** When another limit, which may admit more, replaces this one, in milliseconds since the epoch; default: never. */
  readonly endsAtMs?: number;
}

interface LimitTimes {
  /** The index of the node's limit that this is, or that it replaces. */
  readonly of: number;
  readonly active: ActiveTimes;
}

/** When a limit applies. */
export interface ActiveTimes {
  /** As written in the rule: `from: 2026-11-27T00:00, until: 2026-12-01T00:00, timezone: Europe/Berlin`. */
  readonly text: string;
  isActive(nowMs: number): boolean;
  /** Next time that `isActive` changes, in milliseconds since the epoch; infinity if it never does. */
  changesAtMs(nowMs: number): number;
}

/** One limit over time: the first of these that is active applies; if none is, there is no limit. */
export type LimitOverTime = readonly LimitAtTimes[];

export interface LimitAtTimes {
  /** When it applies. Default: always. */
  readonly active?: ActiveTimes;
  /** The limit; undefined if these times are unlimited. */
  readonly limit: RuleLimit | undefined;
}

/** A limit of a schedule, or the absence of one at these times. */
export interface ScheduleEntry {
  /** As written in the rule. Default: always. */
  readonly active?: string;
  readonly limit?: RuleLimit;
  readonly unlimited?: true;
}

/** When each limit of a rule applies. Times are milliseconds since the epoch. */
export interface RuleSchedule {
  /** The limits that apply at a time, each with its end. */
  at(nowMs: number): readonly RuleLimit[];
  /** Next time that the limits change; infinity if they never do. */
  changesAtMs(nowMs: number): number;
  /** The same times with mapped limits; a limit that becomes undefined never applies. */
  map(change: (limit: RuleLimit) => RuleLimit | undefined): RuleSchedule;
  /** The whole schedule: for each limit of the node, the limits of its schedule in order, then itself. */
  toJSON(): readonly (readonly ScheduleEntry[])[];
}

/** The rule for descriptors that end at a node. */
export interface Rule extends MayBeOverlaid {
  readonly domain: string;
  /** `demo.user_alice.path`: the domain and each node's key and value. Names the rule on `/rlconfig` and in headers. */
  readonly path: string;
  /** Place of its node; undefined if the limit came with the request. */
  readonly place: Pick<Place, 'file' | 'line'> | undefined;
  /** The levels of the path below the domain: its name in statistics, unless `named` differs. */
  readonly levels: readonly string[];
  /**
   * by_rule     statistics under `levels`
   * by_levels   some level is named by the request: see `Naming`
   * by_request  `detailed_metric`: every level is
   */
  readonly named: 'by_rule' | 'by_levels' | 'by_request';
  /** The limits of all times: those of the node in order, then those of schedules. */
  readonly limits: readonly RuleLimit[];
  readonly schedule?: RuleSchedule;
  /** Everything passes and nothing is counted; `limits` is empty. */
  readonly unlimited: boolean;
  /** The node's `shadow_mode`; only that of each limit has an effect. */
  readonly shadow: boolean;
  /** The node's `quota_mode`; only that of each limit has an effect. */
  readonly quota: boolean;
  /** Names of limits that this rule replaces for the requests it matches. */
  readonly replaces: readonly string[];
  /** The entries that are ids of the request instead of parts of the counter, in order, if any. */
  readonly ids?: readonly IdEntry[];
  /** Its entries from this place on may be sent in any order, and are counted in this one. */
  readonly anyOrder?: { readonly from: number; readonly order: KeyOrder };
  /** The entries whose values share counters, and what is counted instead; without a text the network of an address. */
  readonly pools?: readonly { readonly at: number; readonly value: string | undefined }[];
  /** Index of the entry, the last one, that marks the hits as used (`not_counted: commit`), if any. */
  readonly commitAt?: number;
  readonly unitCost?: UnitCost;
  /** Its requests are checked when they begin, and charged when they end. */
  readonly chargedLater?: true;
  /** The statuses of responses that its limits count, and nothing else. Default: hits count. */
  readonly countWhen?: Statuses;
  /** The number of entries of the node whose limit this rule's children share; absent if its limits are its own. */
  readonly sharedBelow?: number;
  readonly metadata: JsonObject | undefined;
  /** The response to requests that it refuses; absent: as the proxy makes it. */
  readonly response?: RuleResponse;
}

/** The response to a refused request. */
export interface RuleResponse {
  /** With placeholders: see `createRefusal`; absent: a problem document. */
  readonly body?: string;
  readonly contentType: string;
  readonly headers: readonly { readonly key: string; readonly value: string }[];
}

/** Statuses of responses, as `count_when` has them: `401|5xx`. */
export interface Statuses {
  readonly text: string;
  readonly ranges: readonly (readonly [first: number, last: number])[];
}

/** What a hit costs. */
export interface UnitCost extends Money {
  /** Of a commit with a price of its own: those of one request are added up. */
  readonly isPart?: true;
}

/** The rules of a level and below it. */
export function* listedRules(level: Level): Iterable<Rule> {
  for (const { byValue, addresses, anyValue } of level.byKey.values()) {
    for (const node of byValue.values()) yield* listNodeRules(node);
    for (const { node } of addresses?.all ?? []) yield* listNodeRules(node);
    if (anyValue) yield* listNodeRules(anyValue);
  }
}

function* listNodeRules({ rule, children }: Node): Iterable<Rule> {
  if (rule && rule.commitAt === undefined) yield rule;
  if (children) yield* listedRules(children);
}

/** The rules of domains; each iteration walks the trees. */
export function listRules(domains: ReadonlyMap<string, Domain>): RuleList {
  let length = 0;
  for (const { ruleCount } of domains.values()) length += ruleCount;
  return {
    length,
    *[Symbol.iterator]() {
      for (const { root } of domains.values()) yield* listedRules(root);
    },
  };
}
