import {
  anyObject,
  anything,
  fields,
  flag,
  listOf,
  mapOf,
  number,
  oneOf,
  orNull,
  text,
  time,
  type ValueOf,
  whole,
} from '../../base/shape.ts';
import { listedOverride, setOverride } from '../../edge/http/shapes.ts';
import { entries } from '../../edge/listing/shapes.ts';

/** A change in the audit log. */
const auditLine = fields(
  {
    at: time,
    /** The name of the token that made the change. */
    who: text,
    change: text,
    reason: text,
    what: anyObject,
  },
  {
    before: anything,
    after: anything,
    /** The reason, if the change failed. */
    failed: text,
  },
);
export type AuditLine = ValueOf<typeof auditLine>;

const recording = fields(
  {
    recording: flag,
    /** Null: the recording has no end. */
    until: orNull(time),
  },
  /** Since when and why requests are missing. */
  { failing: text },
);

const role = oneOf('read', 'operate');

/** What a client may do, and facts about the service that the console shows. */
const session = fields(
  { version: text, name: text, needsToken: flag, hashKeys: flag },
  {
    /** Absent: callers' values are hidden. */
    role,
    /** Those of its token; absent: all. */
    domains: listOf(text),
    grpcPort: whole,
    /** Proxies have quotas. */
    hasQuotas: flag,
    /** Several sites share limits. */
    hasSites: flag,
    /** The last refusals are kept: EXPLAIN_SAMPLE. */
    keepsRefusals: flag,
    /** The most frequent clients are counted: TOP_KEYS_BYTES. */
    countsClients: flag,
    /** Usage is kept by this instance: USAGE_DIR, USAGE_URL. */
    keepsUsage: flag,
    notifies: flag,
    /** Series go back further: PROMETHEUS_URL. */
    hasPrometheus: flag,
    csrf: text,
  },
);
export type SessionInfo = ValueOf<typeof session>;

/** An instance, as it reports itself. */
export const instance = fields(
  {
    name: text,
    version: text,
    workers: whole,
    startedAtMs: number,
    atMs: number,
    /** Whether it is the instance that answers. */
    isThis: flag,
    decisionsPerSecond: number,
    refusedPerSecond: number,
  },
  {
    /** The hash of the rules in force. */
    rules: text,
  },
);
export type Instance = ValueOf<typeof instance>;

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

export const serviceAnswers = {
  'GET /api/v1/openapi.json': fields({ openapi: text, info: anyObject, paths: anyObject, components: anyObject }),
  'GET /api/v1/session': session,
  'POST /api/v1/session': fields({ name: text, role, csrf: text }, { domains: listOf(text) }),
  'DELETE /api/v1/session': fields({}),
  'GET /api/v1/audit': fields({ changes: listOf(auditLine) }),
  'GET /api/v1/overrides': fields({ overrides: listOf(listedOverride) }),
  'GET /api/v1/overrides/preview': fields({ counters: whole, isAtLeast: flag, examples: listOf(text) }),
  'PUT /api/v1/overrides': setOverride,
  'DELETE /api/v1/overrides': listedOverride,
  'GET /api/v1/recording': recording,
  'PUT /api/v1/recording': recording,
  'GET /api/v1/instances': fields({ instances: listOf(instance) }),
  'GET /api/v1/series': series,
  'GET /api/v1/timeline': fields({ marks: listOf(timelineMark) }),
  'GET /api/v1/series/rules': fields({ ...rangeFields, atMost: whole, rules: mapOf(columns) }),
};
