import { fields, flag, listOf, number, oneOf, onlyTrue, text, type ValueOf, whole } from '../../base/shape.ts';
import { algorithm, entries } from '../../edge/listing/shapes.ts';

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

/** One site's part of a shared limit, as far as the answering site knows. In whole hits; for a bucket, in tokens. */
const sitePortion = fields(
  {
    site: text,
    /** The site's equal part of the limit. */
    base: number,
    /** Hits that the answering site gave to this one in this window, less those it took; for itself the reverse. */
    moved: number,
    /** Base plus moved: the hits that it may admit in a window. A bucket's base: moved tokens are used, or refilled. */
    share: number,
  },
  {
    /** Absent: the site has not answered in this window. */
    used: number,
    usedMsAgo: number,
    /** The site is in `SITE_LOST`: the other sites have its part. */
    isLost: onlyTrue,
  },
);
export type SitePortion = ValueOf<typeof sitePortion>;

/** A counter of a shared limit. */
const listedShare = fields(
  {
    domain: text,
    entries,
    rule: text,
    /** `6000 per minute`. */
    limit: text,
    algorithm,
    mode: oneOf('escrow', 'optimistic'),
    /** `mode: optimistic`: this site has used up its advance, and continues as with escrow. */
    hasFallenBack: flag,
    /** Of a token bucket, whose moved hits expire; else of a window. */
    isBucket: flag,
    /** The most hits that all sites together may admit at once: the hits of a window, or the burst of a bucket. */
    total: number,
    /** The hits that this site may still admit, including those in advance. */
    left: number,
    /** The time until the window ends; for a bucket, until moved tokens expire. */
    leftMs: number,
    errorBound: number,
    sites: listOf(sitePortion),
  },
  {
    name: text,
    /** The excess over the limit, as a fraction of it; absent: not all sites have reported their use. */
    errorRatio: number,
  },
);
export type ListedShare = ValueOf<typeof listedShare>;

export const shareList = fields({
  limits: listOf(listedShare),
  /** Counters that are not listed. */
  more: whole,
});
export type ShareList = ValueOf<typeof shareList>;
