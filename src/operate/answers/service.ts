import { anyObject, anything, fields, flag, listOf, oneOf, text, time, type ValueOf, whole } from '../../base/shape.ts';

/** A change in the audit log. */
export const auditLine = fields(
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

/** Work beside the answers to callers. */
export const workName = oneOf(
  'usage',
  'usage_retention',
  'usage_rows',
  'recording',
  'audit_log',
  'overrides',
  'candidate',
  'statistics',
  'traces',
  'findings',
  'sites',
  'notifications',
  'replicas',
);
export type WorkName = ValueOf<typeof workName>;

export const serviceAnswers = {
  'GET /api/v1/openapi.json': fields({ openapi: text, info: anyObject, paths: anyObject, components: anyObject }),
  'GET /api/v1/session': session,
  'POST /api/v1/session': fields({ name: text, role, csrf: text }, { domains: listOf(text) }),
  'DELETE /api/v1/session': fields({}),
};
