import { fields, flag, listOf, number, oneOf, text, time, type ValueOf, whole } from '../../base/shape.ts';
import { algorithm } from '../../engine/rules/match/shapes.ts';

/** A node on the path to a rule, as in rule files. */
const ruleNode = fields(
  { key: text },
  {
    /** Absent: any value. */
    value: text,
    /** The first of its blocks of addresses. */
    addresses: text,
  },
);

/** The limit that the advice is about. */
const advisedLimit = fields(
  {
    domain: text,
    rule: text,
    nodes: listOf(ruleNode),
    /** Its index among the limits of the rule, and their number. */
    at: whole,
    of: whole,
    /** `60 per minute`. */
    text,
    algorithm,
    requestsPerUnit: whole,
    windowMs: number,
    /** The limit counts, but refuses nothing. */
    shadow: flag,
    /** No other algorithm can replace its own: its windows start at fixed times, or are leased. */
    keepsAlgorithm: flag,
    /** `local_share`: the smallest value that the limit may have. */
    leastLimit: number,
  },
  { name: text, burst: number },
);
export type AdvisedLimit = ValueOf<typeof advisedLimit>;

/** Quantiles over keys, or over windows of keys. */
const quantileFields = { p50: number, p90: number, p99: number, p999: number, max: number };
const quantiles = fields(quantileFields);

/** A number of keys, and their share of all keys, 0 to 1. */
const keyShare = fields({ keys: number, share: number });

const proposal = fields(
  {
    algorithm,
    requestsPerUnit: whole,
    /** The keys that do not stand apart and that the limit would have hit. */
    othersHit: keyShare,
    /** With 95 % confidence, the limit would hit at most this share of keys like the others. */
    atMostShare: number,
    /** Reasons, a sentence each. */
    reasons: listOf(text),
  },
  {
    /** The burst of a bucket. */
    burst: number,
    /** The keys that stand apart and that the limit would have hit. */
    apartHit: keyShare,
  },
);
export type Proposal = ValueOf<typeof proposal>;

/** The confidence in the advice. */
const confidence = fields({
  grade: oneOf('low', 'medium', 'high'),
  requests: number,
  /** An estimate unless every key is followed. */
  keys: number,
  /** One key in this many is followed, in addition to those with the most hits. */
  oneIn: number,
  first: time,
  last: time,
  /** Days with traffic. */
  days: number,
  /** Reasons for the grade, a sentence each. */
  because: listOf(text),
});

/** The observed traffic of a limit, and the advice that follows from it. */
const ruleAdvice = fields(
  {
    limit: advisedLimit,
    confidence,
    /** Hits of a key in a window: quantiles over all windows with hits. */
    windows: quantiles,
    /** Hits of a key in its busiest window: quantiles over all keys. */
    busiest: quantiles,
    /** The most hits of a key within any interval of a length: quantiles over all keys. */
    envelope: listOf(fields({ ...quantileFields, intervalMs: number })),
    /** The burst that a key needs at a rate, in hits a window: quantiles over all keys. */
    bursts: listOf(fields({ ...quantileFields, rate: number })),
    /** The effects of limits in fixed windows. */
    table: listOf(
      fields({ limit: number, keysHit: number, requestsRefused: number }, { is: oneOf('now', 'proposed') }),
    ),
    refusedNow: fields({ hits: number, keys: keyShare }),
    warnings: listOf(
      fields({ kind: oneOf('never_fires', 'fires_often', 'one_key', 'boundary', 'many_clients'), text }),
    ),
  },
  {
    /** Absent: there was too little traffic; see `refusal`. */
    proposal,
    /** Why nothing is proposed. */
    refusal: text,
  },
);
export type RuleAdvice = ValueOf<typeof ruleAdvice>;

/** The advice on all limits. */
export const advice = fields({
  limits: listOf(ruleAdvice),
  /** Limits without advice, a text each. */
  skipped: listOf(text),
  /** What else the reader should know, a text each. */
  warnings: listOf(text),
});
export type Advice = ValueOf<typeof advice>;
