import { fields, flag, listOf, mapOf, number, oneOf, onlyTrue, text, type ValueOf, whole } from '../../base/shape.ts';
import { domainJson, entries, listedRule } from '../../edge/listing/shapes.ts';

/** The result of the last reload. */
const reload = fields({
  at_ms: number,
  text,
  /** Paths of changed rules. */
  counters_kept: listOf(text),
  counters_anew: listOf(text),
});

const ruleList = fields(
  {
    /** Rules are in force. */
    loaded: flag,
    /** They are those of the last load. */
    newest: flag,
    problems: listOf(text),
    domains: listOf(domainJson),
    /** The number of rules that are not listed. */
    more: whole,
    rules: listOf(listedRule),
  },
  { hash: text, reload },
);

/** Example requests of the same number of hits, and what a limit decides about each. */
const illustration = fields({
  windowMs: number,
  windows: whole,
  capacity: number,
  hits: whole,
  arrivals: listOf(fields({ atMs: number, before: number, passed: flag })),
});
export type Illustration = ValueOf<typeof illustration>;

/** What a rule cost the store in a minute, estimated from a sample of its calls. */
const ruleCost = fields({ rule: text, operations: whole, ms: number, bytes: whole });
export type RuleCost = ValueOf<typeof ruleCost>;

const rangeFields = { range: oneOf('60s', '10m', '1h', '24h', '7d', '30d'), stepMs: whole, startedAtMs: number };
/** A list for each field, the oldest step first. */
const columns = mapOf(listOf(number));
export type Columns = ValueOf<typeof columns>;

const series = fields(
  {
    ...rangeFields,
    /** Since when there is history. */
    beginsAtMs: number,
    /** Where it is from. */
    source: oneOf('memory', 'prometheus'),
    series: columns,
  },
  {
    rule: text,
    /** Why the history is not from Prometheus. */
    problem: text,
  },
);
export type SeriesAnswer = ValueOf<typeof series>;

/** A change that explains a plot. */
const timelineMark = fields(
  {
    /** Milliseconds since the epoch. */
    atMs: number,
    kind: oneOf('reload', 'rejected', 'store_down', 'store_up', 'candidate', 'override'),
    /** A sentence for people. */
    text,
  },
  {
    /** The descriptor of an override. */
    domain: text,
    entries,
  },
);
export type TimelineMark = ValueOf<typeof timelineMark>;

const refusedClientFields = {
  rule: text,
  descriptor: text,
  /** Refused requests of the last minute. */
  requests: whole,
  atMostTooHighBy: number,
  /** The part of its hits in the last minute that was refused. */
  refusedShare: number,
  /** When it was refused for the first time, without five minutes in between in which it was not. */
  sinceMs: number,
  /** Refused requests per second over the last ten minutes, a step of ten seconds each, the oldest first. */
  recent: listOf(number),
};
/** A client, which a descriptor identifies, that a rule refuses. */
const refusedClient = fields(refusedClientFields, {
  /** Absent if values are hashed. */
  entries,
  /** The end of the descriptor was cut off, since it is too long. */
  cut: onlyTrue,
  /** Absent: the count is not too low. */
  atMostTooLowBy: number,
});
export type RefusedClient = ValueOf<typeof refusedClient>;

export const consoleAnswers = {
  'GET /api/v1/rules': ruleList,
  'GET /api/v1/rules/costs': fields({ costs: listOf(ruleCost) }),
  'GET /api/v1/rules/illustration': illustration,
  'GET /api/v1/series': series,
  'GET /api/v1/timeline': fields({ marks: listOf(timelineMark) }),
  'GET /api/v1/series/rules': fields({ ...rangeFields, atMost: whole, rules: mapOf(columns) }),
};
