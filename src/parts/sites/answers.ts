import { fields, flag, listOf, number, oneOf, onlyTrue, text, type ValueOf, whole } from '../../base/shape.ts';
import { algorithm, entries } from '../../edge/listing/shapes.ts';
import { siteList } from '../../operate/answers/sites.ts';

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

const shareList = fields({
  limits: listOf(listedShare),
  /** Counters that are not listed. */
  more: whole,
});
export type ShareList = ValueOf<typeof shareList>;

export const siteAnswers = { 'GET /api/v1/sites': siteList, 'GET /api/v1/sites/limits': shareList };
