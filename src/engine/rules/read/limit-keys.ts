import { refills } from '../../algorithms/bucket.ts';
import { alignments } from '../../algorithms/fixed-window.ts';
import { rateNames } from '../../algorithms/index.ts';
import { DURATION, MAX_LIMIT, unitMs } from '../../algorithms/limit.ts';
import { MONEY } from '../../algorithms/money.ts';
import { parts } from '../../algorithms/sliding-window-buckets.ts';
import { roundings } from '../../algorithms/sliding-window-counter.ts';
import { algorithmsWith, canOwe, namedAlgorithms } from '../../holds/limits.ts';

const unitNames: readonly string[] = Object.keys(unitMs).map((unit) => unit.toLowerCase());

/** A date with a time of day in ISO 8601; without an offset it is local to a time zone. */
export const DATE_TIME = '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?$';

/** The keys of a limit, and of one that replaces it at certain times: how many hits pass, and how they are counted. */
export const limitKeys = {
  unit: {
    type: 'text',
    choices: unitNames,
    anyCase: true,
    meaning: 'second, minute, hour, day, week, month (30 days) or year (365 days)',
  },
  requests_per_unit: {
    type: 'count',
    maximum: MAX_LIMIT,
    meaning: 'hits that pass in one unit, 0 to 9007199254740990; absent: 0',
  },
  budget: {
    type: 'text',
    insteadOf: ['requests_per_unit'],
    goesWith: rateNames.filter(canOwe),
    pattern: MONEY,
    meaning: 'money that may be spent in one unit, in place of requests_per_unit: 500.00 USD; requires unit_cost',
  },
  per_replica: {
    type: 'count',
    insteadOf: ['requests_per_unit', 'budget'],
    minimum: 1,
    maximum: MAX_LIMIT,
    meaning: 'hits that pass in one unit for each replica of a service, in place of requests_per_unit',
  },
  replicas: {
    type: 'block',
    of: 'replicas',
    meaning: 'with per_replica: where the number of replicas comes from',
  },
  unlimited: { type: 'flag', meaning: 'everything passes and nothing is counted; instead of a unit' },
  name: { type: 'text', meaning: 'shown to callers; `replaces` refers to it' },
  replaces: { type: 'list', of: 'replaces', meaning: 'limits of the same request that this one replaces' },
  shadow_mode: {
    type: 'flag',
    meaning: "in rate_limits: this limit counts, but never refuses; absent: the node's shadow_mode",
  },
  quota_mode: {
    type: 'flag',
    meaning: "in rate_limits: refuses only when all quotas of a request are over; absent: the node's quota_mode",
  },
  algorithm: {
    type: 'text',
    choices: namedAlgorithms,
    meaning: 'how hits are counted; absent: fixed_window',
  },
  window: {
    type: 'text',
    insteadOf: ['unit', 'unit_multiplier'],
    pattern: DURATION,
    meaning: 'the length of the window, instead of a unit: 500ms, 30s, 5m, 1h30m, 2d, 1w',
  },
  unit_multiplier: { type: 'count', minimum: 1, meaning: 'units in a window, at least 1; absent: 1' },
  alignment: {
    type: 'text',
    goesWith: algorithmsWith('alignment'),
    choices: alignments,
    orBlock: 'anchor',
    meaning:
      'where windows begin: epoch (the default); with fixed_window also first_hit or calendar; or at a date: { anchor, timezone }',
  },
  timezone: {
    type: 'text',
    goesWith: algorithmsWith('timezone'),
    meaning: 'time zone of the calendar, a name of the IANA database; absent: UTC',
  },
  soft: {
    type: 'count',
    maximum: MAX_LIMIT,
    meaning: 'hits beyond the limit that pass but are flagged; absent: 0',
  },
  count_denied: {
    type: 'flag',
    goesWith: algorithmsWith('count_denied'),
    meaning: 'sliding_window_log: refused hits stay in the log',
  },
  rounding: {
    type: 'text',
    goesWith: algorithmsWith('rounding'),
    choices: roundings,
    meaning: 'sliding_window_counter: down (the default) admits a fraction of a hit, up refuses it',
  },
  buckets: {
    type: 'count',
    goesWith: algorithmsWith('buckets'),
    ...parts,
    meaning: 'sliding_window_buckets: number of equal parts of the window, 1 to 100',
  },
  burst: {
    type: 'count',
    goesWith: algorithmsWith('burst'),
    minimum: 1,
    maximum: MAX_LIMIT,
    meaning:
      'token_bucket: tokens of a full bucket (absent: requests_per_unit); leaky_bucket: hits at once (absent: 1)',
  },
  refill: {
    type: 'text',
    goesWith: algorithmsWith('refill'),
    choices: refills,
    meaning: 'token_bucket: continuous (the default), or interval: all at once when a window begins',
  },
  max_delay: {
    type: 'text',
    goesWith: algorithmsWith('max_delay'),
    pattern: DURATION,
    meaning: 'token_bucket, leaky_bucket: the longest that a request is held until its turn: 300ms, 2s; at most 1h',
  },
  ttl: {
    type: 'text',
    insteadOf: ['unit', 'unit_multiplier', 'window'],
    goesWith: algorithmsWith('ttl'),
    pattern: DURATION,
    meaning:
      'in_flight: time after which an unreleased slot is freed; must exceed the duration of any request: 30s, 5m; at most 1d',
  },
} as const;
