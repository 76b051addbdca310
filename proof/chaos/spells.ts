import type { CallRecord, FaultRecord, RunLog } from './log.ts';

/** Overlapping faults, and the time until the next ones began. */
export interface Spell {
  /** The faults; empty for the time before the first one. */
  readonly faults: readonly FaultRecord[];
  readonly begunMs: number;
  readonly endedMs: number;
  /** The calls answered from its start until the start of the next spell. */
  readonly calls: readonly CallRecord[];
  /** Time from the end of the faults until the last answer to a troubled call; 0 if there was none afterwards. */
  readonly normalAfterMs: number;
}

/** Whether the counters did not decide a call. */
export const isTrouble = ({ outcome, degraded }: CallRecord): boolean =>
  degraded !== undefined || (outcome !== 'OK' && outcome !== 'OVER_LIMIT');

/** Splits a run into the time before the first fault, and a spell for each group of overlapping faults. */
export function findSpells({ faults, calls }: Pick<RunLog, 'faults' | 'calls'>): readonly Spell[] {
  const groups: FaultRecord[][] = [[]];
  let endedMs = Number.NEGATIVE_INFINITY;
  for (const fault of faults.toSorted((a, b) => a.begunMs - b.begunMs)) {
    if (fault.begunMs > endedMs) groups.push([]);
    groups.at(-1)?.push(fault);
    endedMs = Math.max(endedMs, fault.endedMs);
  }
  const begins = groups.map((group) => group[0]?.begunMs ?? Number.NEGATIVE_INFINITY);
  return groups.map((group, at) => {
    const [fromMs, untilMs] = [begins[at] ?? 0, begins[at + 1] ?? Number.POSITIVE_INFINITY];
    const own = calls.filter(({ answeredMs }) => answeredMs >= fromMs && answeredMs < untilMs);
    const ended = Math.max(...group.map((fault) => fault.endedMs), Number.NEGATIVE_INFINITY);
    return { faults: group, begunMs: fromMs, endedMs: ended, calls: own, normalAfterMs: normalAfterMs(own, ended) };
  });
}

function normalAfterMs(calls: readonly CallRecord[], endedMs: number): number {
  if (endedMs === Number.NEGATIVE_INFINITY) return 0;
  const late = calls.filter((call) => call.sentMs > endedMs && isTrouble(call));
  return Math.max(...late.map(({ answeredMs }) => answeredMs - endedMs), 0);
}
