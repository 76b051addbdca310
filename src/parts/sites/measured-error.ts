import type { Monotonic } from '../../base/clock.ts';
import type { SiteReport } from '../../engine/holds/reports.ts';
import { siteTotal } from './site-part.ts';
import type { SiteShareLimit } from './site-share.ts';

/** Time for which the maximum error is shown. */
const SHOWN_MS = 60_000;

/**
 * The excess over a limit, as a fraction of it.
 *
 * @param used  hits used by all sites, as far as known
 * @param room  hits that this site may still admit of its share; negative if it has admitted hits in advance
 */
export function computeErrorRatio(limit: SiteShareLimit, used: number, room: number): number {
  const total = siteTotal(limit);
  return Math.max(used - total, -room, 0) / Math.max(total, 1);
}

export type MeasuredError = ReturnType<typeof createMeasuredError>;

/** The excess over shared limits, as far as exchanges show it. */
export function createMeasuredError(monotonicMs: Monotonic) {
  let furthest = { ratio: 0, bound: 0, atMs: 0 };
  const isOver = (): boolean => monotonicMs() - furthest.atMs > SHOWN_MS;
  return {
    /** Excess of the limit furthest beyond, or nearest to, its bound in the last minute, as a fraction of the limit. */
    get ratio(): number {
      return isOver() ? 0 : furthest.ratio;
    },
    /** Bound declared by the rule of that limit. */
    get bound(): number {
      return isOver() ? 0 : furthest.bound;
    },
    /** @param others  hits admitted in the same epoch by the other sites that answered */
    note(limit: SiteShareLimit, { used, room }: SiteReport, others: number): void {
      const ratio = computeErrorRatio(limit, used + others, room);
      const bound = limit.maxErrorPercent / 100;
      if (ratio - bound < furthest.ratio - furthest.bound && !isOver()) return;
      furthest = { ratio, bound, atMs: monotonicMs() };
    },
  };
}
