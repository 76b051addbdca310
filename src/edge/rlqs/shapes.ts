import { fields, listOf, number, oneOf, text, type ValueOf, whole } from '../../base/shape.ts';
import { entries } from '../../engine/rules/match/shapes.ts';

/** The assignment of one bucket to one proxy, and its use. Rates are per second. */
export const proxyQuota = fields(
  {
    domain: text,
    entries,
    /** The last assignment that was sent on its stream; none: the proxy may have one from an earlier stream. */
    assigned: oneOf('share', 'allow', 'deny', 'none', 'expired'),
    reportedMsAgo: number,
  },
  {
    /** Absent: the proxy has no name of its own. */
    proxy: text,
    /** Absent: no rule can be applied. */
    rule: text,
    share: number,
    burst: number,
    /** The rate of the rule, which all proxies share. */
    rate: number,
    /** Requests and allowed requests between its last two reports. Absent: not known yet. */
    demand: number,
    used: number,
  },
);
export type ProxyQuota = ValueOf<typeof proxyQuota>;

export const quotaReport = fields({
  /** The buckets with the highest demand. */
  quotas: listOf(proxyQuota),
  /** The number of buckets that are not listed. */
  more: whole,
});
export type QuotaReport = ValueOf<typeof quotaReport>;
