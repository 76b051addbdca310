import type { AlgorithmName } from '../algorithms/index.ts';

/** A node on the way down to a rule, as rule files have it. */
export interface RuleNode {
  readonly key: string;
  /** Absent: any value. */
  readonly value?: string;
}

/** Which limit the advice is about. */
export interface AdvisedLimit {
  readonly domain: string;
  readonly rule: string;
  readonly nodes: readonly RuleNode[];
  /** Its place among the limits of the rule, and how many there are. */
  readonly at: number;
  readonly of: number;
  /** `60 per minute`. */
  readonly text: string;
  readonly name?: string;
  readonly algorithm: AlgorithmName;
  readonly requestsPerUnit: number;
  readonly windowMs: number;
  readonly burst?: number;
  /** It counts, but refuses nothing. */
  readonly shadow: boolean;
  /** Other algorithms cannot stand in for it: its windows have a beginning that others lack, or are leased. */
  readonly keepsAlgorithm: boolean;
  /** `local_share`: the limit is at least so large. */
  readonly leastLimit: number;
}

/** Quantiles over keys, or over windows of keys. */
export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** What a limit would do in fixed windows. */
export interface TableRow {
  readonly limit: number;
  readonly keysHit: number;
  readonly requestsRefused: number;
  readonly is?: 'now' | 'proposed';
}

/** Keys and a part of all of them, 0 to 1. */
export interface KeyShare {
  readonly keys: number;
  readonly share: number;
}

export interface Proposal {
  readonly algorithm: AlgorithmName;
  readonly requestsPerUnit: number;
  /** Of buckets. */
  readonly burst?: number;
  /** What was seen of it, of the keys that do not stand apart, and of those that do. */
  readonly othersHit: KeyShare;
  readonly apartHit?: KeyShare;
  /** With 95 % confidence, no larger a part of keys like the others would be hit. */
  readonly atMostShare: number;
  /** Why, a sentence each. */
  readonly reasons: readonly string[];
}

export const warningKinds = ['never_fires', 'fires_often', 'one_key', 'boundary', 'many_clients'] as const;

export interface AdviceWarning {
  readonly kind: (typeof warningKinds)[number];
  readonly text: string;
}

export const grades = ['low', 'medium', 'high'] as const;

/** How sure the advice is. */
export interface Confidence {
  readonly grade: (typeof grades)[number];
  readonly requests: number;
  /** An estimate where not every key is followed. */
  readonly keys: number;
  /** One key in so many is followed, beside those with the most hits. */
  readonly oneIn: number;
  readonly first: string;
  readonly last: string;
  /** Days with traffic. */
  readonly days: number;
  /** What limits it, a sentence each. */
  readonly because: readonly string[];
}

/** What was seen of a limit, and what follows. */
export interface RuleAdvice {
  readonly limit: AdvisedLimit;
  readonly confidence: Confidence;
  /** Hits of a key in a window, over all windows with hits. */
  readonly windows: Quantiles;
  /** Hits of a key in its busiest window, over all keys. */
  readonly busiest: Quantiles;
  /** Hits within any interval of a length, at most, over all keys. */
  readonly envelope: readonly (Quantiles & { readonly intervalMs: number })[];
  /** The burst that keys need at a rate, in hits a window, over all keys. */
  readonly bursts: readonly (Quantiles & { readonly rate: number })[];
  readonly table: readonly TableRow[];
  readonly refusedNow: { readonly hits: number; readonly keys: KeyShare };
  readonly warnings: readonly AdviceWarning[];
  /** Absent: too little was seen; see `refusal`. */
  readonly proposal?: Proposal;
  /** Why nothing is proposed. */
  readonly refusal?: string;
}

/** The advice on all limits. */
export interface Advice {
  readonly limits: readonly RuleAdvice[];
  /** Limits that advice is not about, a text each. */
  readonly skipped: readonly string[];
}

/** What the operator accepts. */
export interface AdviceOptions {
  /** Part of the keys that do not stand apart which a proposal may hit: above 0, below 1. */
  readonly maxKeysHit: number;
  /** How a key is shown. */
  readonly shownKey: (key: string) => string;
}

export const DEFAULT_MAX_KEYS_HIT = 0.01;
