import { algorithms } from '../../engine/algorithms/index.ts';
import type { State } from '../../engine/algorithms/limit.ts';
import type { SiteShareLimit } from '../../engine/algorithms/site-share.ts';
import { advanceOf, baseOf } from '../../engine/algorithms/site-share-state.ts';

/** The answering site's part of a limit that sites share. In whole hits. */
export interface SiteStanding {
  /** Its part of the limit, and the further hits that it may admit in advance. */
  readonly base: number;
  readonly advance: number;
  /** Hits used in this window; for a bucket, tokens not refilled yet, including those lent. */
  readonly used: number;
  readonly lent: number;
  readonly borrowed: number;
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

export function siteStanding(limit: SiteShareLimit, state: State | undefined, nowMs: number): SiteStanding {
  const reading = { ...limit, transfer: { kind: 'read' } } as const;
  const { step, describe } = algorithms.site_share;
  const { accepted, state: now } = step(reading, state, nowMs, 0, false);
  const { site } = describe(reading, now, nowMs, { hits: 0, accepted, charged: false });
  const { used = 0, given = [], taken = [] } = site ?? {};
  return { base: baseOf(limit), advance: advanceOf(limit), used, lent: sumOf(given), borrowed: sumOf(taken) };
}

/** The terms of the hits that a site has used; borrowed hits are negative. */
export function siteTerms({ of }: SiteShareLimit, { used, lent, borrowed }: SiteStanding): readonly string[] {
  if (of === 'token_bucket') return [String(used)];
  return [String(used), ...(lent > 0 ? [`${lent} lent`] : []), ...(borrowed > 0 ? [`-${borrowed} borrowed`] : [])];
}
