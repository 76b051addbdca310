import { fields, flag, listOf, number, oneOf, text, time, type ValueOf, whole } from '../../base/shape.ts';
import { algorithm } from '../../edge/listing/shapes.ts';

/** A node on the path to a rule, as in rule files. */
const ruleNode = fields(
  { key: text },
  {
    /** Exact value; absent for any value. */
    value: text,
    /** First of its address blocks. */
    addresses: text,
  },
);

/** The limit that the advice is about. */
const advisedLimit = fields(
  {
    domain: text,
    rule: text,
    nodes: listOf(ruleNode),
    /** Index among the limits of the rule, and their number. */
    at: whole,
    of: whole,
    /** The limit as text, such as `60 per minute`. */
    text,
    algorithm,
    requestsPerUnit: whole,
    windowMs: number,
    /** Whether the limit counts but refuses nothing. */
    shadow: flag,
    /** Whether its algorithm cannot be replaced, since its windows start at fixed times or are leased. */
    keepsAlgorithm: flag,
    /** Minimum value of the limit, set by `local_share`. */
    leastLimit: number,
  },
  { name: text, burst: number },
);
export type AdvisedLimit = ValueOf<typeof advisedLimit>;

/** Quantiles over keys, or over windows of keys. */
const quantileFields = { p50: number, p90: number, p99: number, p999: number, max: number };
const quantiles = fields(quantileFields);

/** A number of keys, and their fraction of all keys, 0 to 1. */
const keyShare = fields({ keys: number, share: number });

const proposal = fields(
  {
    algorithm,
    requestsPerUnit: whole,
    /** The keys that do not stand apart and that the limit would have hit. */
    othersHit: keyShare,
    /** Maximum fraction of normal keys that the limit would hit, with 95 % confidence. */
    atMostShare: number,
    /** Reasons, one sentence each. */
    reasons: listOf(text),
  },
  {
    /** Burst, for buckets. */
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
  /** Number of keys; an estimate unless every key is tracked. */
  keys: number,
  /** One key in this many is tracked, in addition to those with most hits. */
  oneIn: number,
  first: time,
  last: time,
  /** Number of days with traffic. */
  days: number,
  /** Reasons for the grade, one sentence each. */
  because: listOf(text),
});

/** The observed traffic of a limit, and the advice that follows from it. */
const ruleAdvice = fields(
  {
    limit: advisedLimit,
    confidence,
    /** Hits of a key in a window, as quantiles over all windows with hits. */
    windows: quantiles,
    /** Hits of a key in its busiest window, as quantiles over all keys. */
    busiest: quantiles,
    /** Peak hits of a key within any interval of a length, as quantiles over all keys. */
    envelope: listOf(fields({ ...quantileFields, intervalMs: number })),
    /** Burst that a key needs at a rate, in hits per window, as quantiles over all keys. */
    bursts: listOf(fields({ ...quantileFields, rate: number })),
    /** The effects of limits in fixed windows. */
    table: listOf(
      fields({ limit: number, keysHit: number, requestsRefused: number }, { is: oneOf('now', 'proposed') }),
    ),
    refusedNow: fields({ hits: number, keys: keyShare }),
    warnings: listOf(
      fields({
        kind: oneOf('never_fires', 'fires_often', 'one_key', 'boundary', 'beyond_boundary', 'many_clients'),
        text,
      }),
    ),
  },
  {
    /** Absent if there was too little traffic; see `refusal`. */
    proposal,
    /** The reason why nothing is proposed. */
    refusal: text,
  },
);
export type RuleAdvice = ValueOf<typeof ruleAdvice>;

/** The advice on all limits. */
const advice = fields({
  limits: listOf(ruleAdvice),
  /** Limits without advice, one text each. */
  skipped: listOf(text),
  /** What else the reader should know, a text each. */
  warnings: listOf(text),
});
export type Advice = ValueOf<typeof advice>;

export const adviceAnswers = { 'GET /api/v1/advice': advice };
