import type { Limit, Spend } from '../algorithms/limit.ts';
import type { Wildcard } from './wildcard.ts';

/** The rules in force: immutable, ready to be matched. A reload makes a new one. */
export interface RuleTree {
  readonly domains: ReadonlyMap<string, Domain>;
  /** Every rule of every domain, for listing. */
  readonly rules: readonly Rule[];
}

export interface Domain {
  readonly name: string;
  /** What a request spends that one of its limits refuses; undefined: as the service does by default. */
  readonly spend: Spend | undefined;
  readonly root: Level;
}

/** The nodes that one entry of a descriptor is looked up among, indexed by the entry's key. */
export interface Level {
  readonly byKey: ReadonlyMap<string, Branch>;
  /** Nodes with a `*` in their key, in the order of the file: for entries whose key has no branch. */
  readonly keyWildcards: readonly WildcardNode[];
}

/** The nodes for one key, in the order of precedence. */
export interface Branch {
  readonly byValue: ReadonlyMap<string, Node>;
  /** Those with a `*` in key or value that this key can match, in the order of the file; the first that matches counts. */
  readonly wildcards: readonly WildcardNode[];
  readonly anyValue: Node | undefined;
}

export interface WildcardNode {
  readonly key: Wildcard;
  /** Absent: any value. */
  readonly value: Wildcard | undefined;
  readonly node: Node;
}

/** A node of the rule file. */
export interface Node {
  readonly rule: Rule | undefined;
  readonly children: Level | undefined;
  /** The text that stands for a value in the counter key where all values that a `*` matches share one counter. */
  readonly sharedValue: string | undefined;
}

/** What applies to the descriptors that end at a node. */
export interface Rule {
  /** `demo.user_alice.path`: the domain and each node's key and value. Names the rule in statistics and on `/rlconfig`. */
  readonly path: string;
  readonly limits: readonly Limit[];
  /** Everything passes and nothing is counted; `limits` is empty. */
  readonly unlimited: boolean;
  /** Over the limit is answered OK. */
  readonly shadow: boolean;
  /** Refuses a request only together with all its other quota rules. */
  readonly quota: boolean;
  /** Names of limits that this rule makes void for the requests it matches. */
  readonly replaces: readonly string[];
  /** It stands for a limit that a caller brought along: there is no end to such rules. */
  readonly broughtAlong?: true;
}
