import type { Anchored, AnyLimit, LimitNumbers, LimitSource } from './limit.ts';

/** The capacity of algorithms that count hits by the window. */
export const windowCapacity = ({ requestsPerUnit }: AnyLimit): number => requestsPerUnit;

/** Hits that fit into an unspent window, the soft ones included. */
export const windowSize = ({ requestsPerUnit, soft }: AnyLimit): number => requestsPerUnit + soft;

/** For algorithms that remember a hit for two windows at most. */
export const twoWindowsMs = ({ windowMs }: AnyLimit): number => 2 * windowMs;

/** What part of a window's limit one of several processes may count: whole hits, rounded down. */
export function divideWindow<L extends AnyLimit>(limit: L, by: number): L {
  return { ...limit, requestsPerUnit: Math.floor(limit.requestsPerUnit / by), soft: Math.floor(limit.soft / by) };
}

/** What of a limit says where its windows begin. */
export type MayBeAnchored = Partial<Anchored>;

/** The start of the window of one length that a moment lies in. @param phaseMs  see `Anchored` */
export const windowStart = (atMs: number, windowMs: number, phaseMs = 0): number =>
  atMs - ((atMs + phaseMs) % windowMs);

/** Names the counters of windows of one length: those that begin alike share them. */
export const phaseName = ({ phaseMs }: Anchored): string => (phaseMs === 0 ? '' : `@${phaseMs}`);

/**
 * Reads where windows of one length begin, for algorithms without others. Undefined where that is wrong.
 *
 * @returns the counter's name, and the anchor where there is one
 */
export function readPhase(
  { counter }: Pick<LimitNumbers, 'counter'>,
  { values: { alignment }, wrong, anchored }: LimitSource,
): (MayBeAnchored & Pick<LimitNumbers, 'counter'>) | undefined {
  if (alignment !== undefined && alignment !== 'epoch')
    return wrong('alignment', `alignment: ${alignment} goes with fixed_window; take epoch, or { anchor, timezone }`);
  const found = anchored();
  return found ? { ...found.anchored, counter: `${counter}${phaseName(found.anchored)}` } : { counter };
}

/** An anchor as rules say it. */
export const writeAnchor = ({ anchor, timezone }: MayBeAnchored): readonly string[] =>
  anchor === undefined ? [] : [`alignment: { anchor: ${anchor}, timezone: ${timezone} }`];

/** The same for programs. */
export const listAnchor = ({ anchor, timezone }: MayBeAnchored): object =>
  anchor === undefined ? {} : { alignment: { anchor, timezone } };
