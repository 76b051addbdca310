import type { AnyLimit } from '../../engine/algorithms/limit.ts';

/** The numbers of a limit that determine a site's share. */
interface ShareNumbers extends AnyLimit {
  readonly of: 'fixed_window' | 'token_bucket';
  readonly burst: number;
  readonly sites: number;
  readonly site: number;
  /** Indices of sites that an operator declared lost, whose parts the others divide. Default: none. */
  readonly lost?: readonly number[];
  /** Percentage by which all sites together may exceed the limit. */
  readonly maxErrorPercent: number;
}

/** Whether the limit is a token bucket; else it is a window. */
export const isBucket = ({ of }: Pick<ShareNumbers, 'of'>): boolean => of === 'token_bucket';

/** The hits that are divided among the sites: for a bucket its burst. */
export const siteTotal = (limit: Pick<ShareNumbers, 'of' | 'requestsPerUnit' | 'burst'>): number =>
  isBucket(limit) ? limit.burst : limit.requestsPerUnit;

/** One of several equal parts; the first parts share the remainder. */
const equalPart = (total: number, parts: number, at: number): number =>
  Math.floor(total / parts) + (at < total % parts ? 1 : 0);

/** An equal part, plus one of the parts of lost sites, which have none. */
function sitePart(total: number, { sites, site, lost }: ShareNumbers): number {
  const own = equalPart(total, sites, site);
  if (!lost) return own;
  if (lost.includes(site)) return 0;
  const left = lost.reduce((sum, place) => sum + equalPart(total, sites, place), 0);
  return own + equalPart(left, sites - lost.length, site - lost.filter((place) => place < site).length);
}

/** For a bucket, the token-ms that are refilled per millisecond. */
export const siteRate = ({ requestsPerUnit, sites, lost }: ShareNumbers): number =>
  lost ? Math.floor((requestsPerUnit * sites) / (sites - lost.length)) : requestsPerUnit;

/** The site's part of the limit. */
export const siteBase = (limit: ShareNumbers): number => sitePart(siteTotal(limit), limit);

/** The hits by which all sites together may exceed the limit. */
export const maxError = (limit: ShareNumbers): number => Math.floor((siteTotal(limit) * limit.maxErrorPercent) / 100);

/** The site's part of `maxError`: the hits that it may admit before others have lent them. */
export const siteAdvance = (limit: ShareNumbers): number => sitePart(maxError(limit), limit);

/** One token in token-ms. A site has a longer window, so that its rate is an exact part of the limit's. */
export const siteTokenMs = ({ windowMs, sites }: ShareNumbers): number => windowMs * sites;

/** The hits that a site may admit, with those that moved to it: in a bucket, these are used or refilled. */
export const admissible = (limit: ShareNumbers, base: number, moved: number): number =>
  isBucket(limit) ? base : base + moved;
