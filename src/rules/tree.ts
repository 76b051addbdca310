import type { Limit } from '../algorithms/index.ts';
import type { LimitLabel, LimitPolicy, Spend } from '../algorithms/limit.ts';
import type { JsonObject } from '../json.ts';
import type { ActiveTimes } from './active-times.ts';
import type { IdKind } from './format.ts';
import type { MayBeOverlaid } from './overlaid.ts';
import type { Place } from './problem.ts';
import type { Wildcard } from './wildcard.ts';

/** The rules in force: immutable, ready to be matched. A reload makes a new one. */
export interface RuleTree {
  readonly domains: ReadonlyMap<string, Domain>;
  /** Every rule of every domain, for listing. */
  readonly rules: readonly Rule[];
  /** How statistics name a value that a caller sent; absent: as it is. */
  readonly shownValue?: (value: string) => string;
}

export interface Domain extends MayBeOverlaid {
  readonly name: string;
  /** What a request spends that one of its limits refuses; undefined: as the service does by default. */
  readonly spend: Spend | undefined;
  readonly root: Level;
  /** The entries that are ids of requests, and no part of the counter: those of each way down; absent: none. */
  readonly ids?: readonly (readonly IdEntry[])[];
}

/** An entry that is an id of the request: `not_counted`. */
export interface IdEntry {
  /** Its place in the descriptor, from 0. */
  readonly at: number;
  readonly key: string;
  readonly as: IdKind;
}

/** The nodes that one entry of a descriptor is looked up among, indexed by the entry's key. */
export interface Level {
  readonly byKey: ReadonlyMap<string, Branch>;
  /** Nodes with a `*` in their key: for entries whose key has no branch. */
  readonly keyWildcards: WildcardIndex;
}

/** The nodes for one key, in the order of precedence. */
export interface Branch {
  readonly byValue: ReadonlyMap<string, Node>;
  /** Those with a `*` in key or value that this key can match. */
  readonly wildcards: WildcardIndex;
  readonly anyValue: Node | undefined;
}

/** Nodes with a `*`, ready to be searched. */
export interface WildcardIndex {
  /** The first, in the order of the file, that matches key and value. */
  find(key: string, value: string): Node | undefined;
  /** All of them, in the order of the file. */
  readonly all: readonly WildcardNode[];
}

export interface WildcardNode {
  readonly key: Wildcard;
  /** Absent: any value. */
  readonly value: Wildcard | undefined;
  readonly node: Node;
}

/** A node of the rule file. */
export interface Node {
  /** `user_alice`, `path_/login*`, `user`: its key and value. */
  readonly composite: string;
  /** What statistics call the level that it matched. */
  readonly naming: Naming;
  readonly rule: Rule | undefined;
  readonly children: Level | undefined;
  /** The text that stands for a value in the counter key where all values that a `*` matches share one counter. */
  readonly sharedValue: string | undefined;
}

/**
 * rule   by the node: `user`, `path_/login*`
 * key    by the key that was asked for and the node's pattern, where the key has the `*`: `user_us*`
 * value  by the key and value that were asked for (`value_to_metric`): `user_alice`
 */
export type Naming = 'rule' | 'key' | 'value';

/** A limit as a rule has it: its numbers, how callers are shown it, and what is decided around it. */
export interface RuleLimit {
  readonly limit: Limit;
  readonly label: LimitLabel;
  readonly policy: LimitPolicy;
  /** When it applies; absent: always, or whenever no limit of its schedule does. */
  readonly times?: LimitTimes;
  /**
   * Of limits as they apply now: when another one, which may admit more, stands in for it. Milliseconds since the
   * epoch; absent: none does.
   */
  readonly endsAtMs?: number;
}

export interface LimitTimes {
  /** The limit of the node, from 0, that it is or stands in for. */
  readonly of: number;
  readonly active: ActiveTimes;
}

/** A limit of a schedule, or that there is none at these times. */
export interface ScheduleEntry {
  /** As a rule says it; absent: always. */
  readonly active?: string;
  /** Absent: at these times nothing is limited. */
  readonly limit?: RuleLimit;
  readonly unlimited?: true;
}

/** Which limits of a rule apply when. Times are milliseconds since the epoch. */
export interface RuleSchedule {
  /** The limits that apply at a time, each with when it ends. */
  at(nowMs: number): readonly RuleLimit[];
  /** When other limits apply next; infinity: never. */
  changesAtMs(nowMs: number): number;
  /** The same times, with other limits; what becomes undefined does not apply at all. */
  map(change: (limit: RuleLimit) => RuleLimit | undefined): RuleSchedule;
  /** All that it says: for each limit of the node, those of its schedule in their order, then itself. */
  toJSON(): readonly (readonly ScheduleEntry[])[];
}

/** What applies to the descriptors that end at a node. */
export interface Rule extends MayBeOverlaid {
  readonly domain: string;
  /** `demo.user_alice.path`: the domain and each node's key and value. Names the rule on `/rlconfig` and in headers. */
  readonly path: string;
  /** Where its node stands; undefined: the request brought the limit along. */
  readonly place: Pick<Place, 'file' | 'line'> | undefined;
  /** The path's parts below the domain, a level each: what statistics are kept under, unless `named` says otherwise. */
  readonly levels: readonly string[];
  /**
   * by_rule     statistics under `levels`
   * by_levels   some level is named after what was asked for: see `Naming`
   * by_request  `detailed_metric`: every level is
   */
  readonly named: 'by_rule' | 'by_levels' | 'by_request';
  /** Whenever they apply: those of the node in their order, then those of schedules. */
  readonly limits: readonly RuleLimit[];
  /** Which of them apply when; absent: all of them always. */
  readonly schedule?: RuleSchedule;
  /** Everything passes and nothing is counted; `limits` is empty. */
  readonly unlimited: boolean;
  /** The node's `shadow_mode`; what counts is that of each limit. */
  readonly shadow: boolean;
  /** The node's `quota_mode`; what counts is that of each limit. */
  readonly quota: boolean;
  /** Names of limits that this rule makes void for the requests it matches. */
  readonly replaces: readonly string[];
  /** The entries that are ids of the request, and no part of the counter, in their order; absent: none. */
  readonly ids?: readonly IdEntry[];
  /** Which entry, the last one, says that the hits have been used (`not_counted: commit`); absent: none does. */
  readonly commitAt?: number;
  /** Metadata that the operator wants sent to the proxy with the answer. */
  readonly metadata: JsonObject | undefined;
}
