import { fields, number, oneOf, text, type ValueOf } from '../../../base/shape.ts';
import { entries } from '../../../edge/listing/shapes.ts';

/** The assignment of one bucket to one proxy, and its use. Rates are per second. */
export const proxyQuota = fields(
  {
    domain: text,
    entries,
    /** Last assignment sent on its stream; with `none`, the proxy may have one from an earlier stream. */
    assigned: oneOf('share', 'allow', 'deny', 'none', 'expired'),
    reportedMsAgo: number,
  },
  {
    /** Name of the proxy; absent if it has none of its own. */
    proxy: text,
    /** Path of the rule; absent if none applies. */
    rule: text,
    share: number,
    burst: number,
    /** Rate of the rule, which all proxies share. */
    rate: number,
    /** Requests and allowed requests between its last two reports; absent until known. */
    demand: number,
    used: number,
  },
);
export type ProxyQuota = ValueOf<typeof proxyQuota>;
