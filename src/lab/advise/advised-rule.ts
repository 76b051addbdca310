import type { AlgorithmName } from '../../engine/algorithms/index.ts';

/** A node on the path to a rule, as in rule files. */
interface RuleNode {
  readonly key: string;
  /** Absent: any value. */
  readonly value?: string;
  /** The first of its blocks of addresses. */
  readonly addresses?: string;
}

/** The limit that the advice is about. */
export interface AdvisedLimit {
  readonly domain: string;
  readonly rule: string;
  readonly nodes: readonly RuleNode[];
  /** Its index among the limits of the rule, and their number. */
  readonly at: number;
  readonly of: number;
  /** `60 per minute`. */
  readonly text: string;
  readonly name?: string;
  readonly algorithm: AlgorithmName;
  readonly requestsPerUnit: number;
  readonly windowMs: number;
  readonly burst?: number;
  /** The limit counts, but refuses nothing. */
  readonly shadow: boolean;
  /** No other algorithm can replace its own: its windows start at fixed times, or are leased. */
  readonly keepsAlgorithm: boolean;
  /** `local_share`: the smallest value that the limit may have. */
  readonly leastLimit: number;
}

/** Quantiles over keys, or over windows of keys. */
interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** The effect of a limit in fixed windows. */
interface TableRow {
  readonly limit: number;
  readonly keysHit: number;
  readonly requestsRefused: number;
  readonly is?: 'now' | 'proposed';
}

/** A number of keys, and their share of all keys, 0 to 1. */
interface KeyShare {
  readonly keys: number;
  readonly share: number;
}

export interface Proposal {
  readonly algorithm: AlgorithmName;
  readonly requestsPerUnit: number;
  /** The burst of a bucket. */
  readonly burst?: number;
  /** The keys that the limit would have hit: among the keys that do not stand apart, and among those that do. */
  readonly othersHit: KeyShare;
  readonly apartHit?: KeyShare;
  /** With 95 % confidence, the limit would hit at most this share of keys like the others. */
  readonly atMostShare: number;
  /** Reasons, a sentence each. */
  readonly reasons: readonly string[];
}

const warningKinds = ['never_fires', 'fires_often', 'one_key', 'boundary', 'many_clients'] as const;

interface AdviceWarning {
  readonly kind: (typeof warningKinds)[number];
  readonly text: string;
}

const grades = ['low', 'medium', 'high'] as const;

/** The confidence in the advice. */
interface Confidence {
  readonly grade: (typeof grades)[number];
  readonly requests: number;
  /** An estimate unless every key is followed. */
  readonly keys: number;
  /** One key in this many is followed, in addition to those with the most hits. */
  readonly oneIn: number;
  readonly first: string;
  readonly last: string;
  /** Days with traffic. */
  readonly days: number;
  /** Reasons for the grade, a sentence each. */
  readonly because: readonly string[];
}

/** The observed traffic of a limit, and the advice that follows from it. */
export interface RuleAdvice {
  readonly limit: AdvisedLimit;
  readonly confidence: Confidence;
  /** Hits of a key in a window: quantiles over all windows with hits. */
  readonly windows: Quantiles;
  /** Hits of a key in its busiest window: quantiles over all keys. */
  readonly busiest: Quantiles;
  /** The most hits of a key within any interval of a length: quantiles over all keys. */
  readonly envelope: readonly (Quantiles & { readonly intervalMs: number })[];
  /** The burst that a key needs at a rate, in hits a window: quantiles over all keys. */
  readonly bursts: readonly (Quantiles & { readonly rate: number })[];
  readonly table: readonly TableRow[];
  readonly refusedNow: { readonly hits: number; readonly keys: KeyShare };
  readonly warnings: readonly AdviceWarning[];
  /** Absent: there was too little traffic; see `refusal`. */
  readonly proposal?: Proposal;
  /** Why nothing is proposed. */
  readonly refusal?: string;
}

/** The advice on all limits. */
export interface Advice {
  readonly limits: readonly RuleAdvice[];
  /** Limits without advice, a text each. */
  readonly skipped: readonly string[];
}

/** The operator's choices. */
export interface AdviceOptions {
  /** The share of the keys that do not stand apart which a proposal may hit: above 0, below 1. */
  readonly maxKeysHit: number;
  /** Formats a key for display. */
  readonly shownKey: (key: string) => string;
}

export const DEFAULT_MAX_KEYS_HIT = 0.01;
