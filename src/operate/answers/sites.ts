import { fields, listOf, number, oneOf, text, type ValueOf, whole } from '../../base/shape.ts';

const peerFields = {
  site: text,
  /** Answered and unanswered calls. */
  exchanges: whole,
  failures: whole,
  /** Consecutive unanswered calls. */
  failing: whole,
  /** Hits borrowed from it. */
  borrowed: number,
  /** Loans that arrived too late, or from a site whose clock differs too much from this one's. */
  untimely: whole,
  /** Calls from that site answered here, and the time of the last on the monotonic clock; 0 without one. */
  asked: whole,
  /** The duration of the last answered call; 0: there was none. */
  roundTripMs: number,
  /** Reason for the failure of the last call; empty if it succeeded. */
  problem: text,
  /** Time since the last answered call; -1 without one. */
  silentMs: number,
  /** Time since the last call from that site; -1 without one. */
  askedMsAgo: number,
};
const peer = fields(peerFields);
/** The exchange of a process, or of all, with another site. */
export type PeerReport = ValueOf<typeof peer>;

/** The sites that share limits, and the exchange of this instance with each. */
export const siteList = fields({
  /** This site, and all of them in the order of their names. */
  site: text,
  sites: listOf(text),
  /** The sites in SITE_LOST, whose parts the others divide. */
  lost: listOf(text),
  /** Excess over the limit that was furthest beyond its bound in the last minute, as a fraction of the limit. */
  errorRatio: number,
  /** Bound declared by the rule of that limit. */
  errorBound: number,
  peers: listOf(
    fields({
      ...peerFields,
      /** `idle`: nothing was exchanged recently, since nothing was needed. */
      state: oneOf('in_step', 'cut_off', 'idle'),
    }),
  ),
});
export type SiteList = ValueOf<typeof siteList>;
