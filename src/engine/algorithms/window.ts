import {
  type Algorithm,
  type Anchored,
  type AnyLimit,
  type HeldAt,
  hitsToFit,
  type LimitNumbers,
  type LimitSource,
  NEVER_MS,
  repeatWait,
  singleHitRefusalMs,
  takenBy,
} from './limit.ts';

/** Hits that fit into an unused window, including the soft ones. */
export const windowSize = ({ requestsPerUnit, soft }: AnyLimit): number => requestsPerUnit + soft;

/** What rows that count hits per window have in common. */
export const windowed = {
  capacity: ({ requestsPerUnit }: AnyLimit): number => requestsPerUnit,
  /** A hit is kept for at most two windows. */
  longestMemoryMs: ({ windowMs }: AnyLimit): number => 2 * windowMs,
  /** A process's part: whole hits, rounded down. */
  divide: <L extends AnyLimit>(limit: L, by: number): L => ({
    ...limit,
    requestsPerUnit: Math.floor(limit.requestsPerUnit / by),
    soft: Math.floor(limit.soft / by),
  }),
  heldAt: (): HeldAt => ({ first: 1, last: 1, unit: 1 }),
};

/** A sliding window's burst is its limit divided by this: a window admits at most a tenth more than the limit. */
const SLIDING_BURST_PART = 10;

/** The same for windows that slide. */
export const sliding = {
  ...windowed,
  bucketBurst: ({ requestsPerUnit }: AnyLimit): number => Math.max(Math.floor(requestsPerUnit / SLIDING_BURST_PART), 1),
  refusalHoldsMs: singleHitRefusalMs,
};

/** Describes a report of the hits before and after a step, when the last of them leaves the window, and when the hits fit. */
export const describeHits: Algorithm['describe'] = (
  limit,
  [before = 0, used = 0, emptyAtMs = 0, fitsMs = 0],
  nowMs,
  outcome,
) => {
  const { hits, accepted } = outcome;
  return {
    code: accepted ? 'OK' : 'OVER_LIMIT',
    hitsBefore: before,
    limitRemaining: Math.max(limit.requestsPerUnit - used, 0),
    durationUntilResetMs: Math.max(emptyAtMs - nowMs, 0),
    retryAfterMs: accepted ? 0 : hitsToFit(hits) <= windowSize(limit) ? Math.max(fitsMs - nowMs, 0) : NEVER_MS,
    repeatAfterMs: repeatWait(outcome, fitsMs - nowMs),
    delayMs: 0,
    soft: accepted && takenBy(outcome) > 0 && used > limit.requestsPerUnit,
  };
};

/** The part of a limit that determines where its windows begin. */
export type MayBeAnchored = Partial<Anchored>;

/** The start of the window that contains a time, for windows of constant length. @param phaseMs  see `Anchored` */
export const windowStart = (atMs: number, windowMs: number, phaseMs: number): number =>
  atMs - ((atMs + phaseMs) % windowMs); // never negative

/** Names the counters of windows of constant length: windows with equal boundaries share them. */
export const phaseName = ({ phaseMs }: Anchored): string => (phaseMs === 0 ? '' : `@${phaseMs}`);

/**
 * Reads where windows of constant length begin, for algorithms without calendar windows. Undefined if it is invalid.
 *
 * @returns the counter's name, and the anchor if there is one
 */
export function readPhase(
  { counter }: Pick<LimitNumbers, 'counter'>,
  { values: { alignment }, report, anchored }: LimitSource,
): (MayBeAnchored & Pick<LimitNumbers, 'counter'>) | undefined {
  if (alignment !== undefined && alignment !== 'epoch')
    return report('alignment', `alignment: ${alignment} requires fixed_window; use epoch, or { anchor, timezone }`);
  const found = anchored();
  return found ? { ...found.anchored, counter: `${counter}${phaseName(found.anchored)}` } : { counter };
}

/** An anchor as in rules. */
export const writeAnchor = ({ anchor, timezone }: MayBeAnchored): readonly string[] =>
  anchor === undefined ? [] : [`alignment: { anchor: ${anchor}, timezone: ${timezone} }`];

/** An anchor as JSON. */
export const listAnchor = ({ anchor, timezone }: MayBeAnchored): object =>
  anchor === undefined ? {} : { alignment: { anchor, timezone } };
