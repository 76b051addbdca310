import type { Clock } from '../../base/clock.ts';
import { groupBy } from '../../base/group.ts';
import { shareRuns } from '../../base/later.ts';
import { findingKinds } from '../lab/answers/findings.ts';
import type { EvidenceReport } from './evidence.ts';
import { type Judged, judge } from './judge.ts';

/** A finding, until it has not been confirmed for a minute. */
export interface StandingFinding extends Judged {
  readonly confirmedAtMs: number;
}

const KEPT_MS = 60_000;
/** Findings that are kept; a mistake of many proxies makes many. */
const MAX_FINDINGS = 100;

/**
 * Likely mistakes in the configurations of proxies.
 *
 * @param collect  collects what the processes have seen
 */
export function createFindings(collect: () => Promise<readonly EvidenceReport[]>, clock: Clock) {
  let standing: ReadonlyMap<string, StandingFinding> = new Map();
  /** The oldest first. */
  const list = (): readonly StandingFinding[] => [...standing.values()];
  return {
    list,
    /** Numbers of findings, for all kinds. */
    counts(): ReadonlyMap<string, number> {
      const byKind = groupBy(list(), ({ kind }) => kind);
      return new Map(findingKinds.map((kind) => [kind, byKind.get(kind)?.length ?? 0]));
    },
    /** Judges anew. */
    refresh: shareRuns(async () => {
      const reports = await collect();
      const nowMs = clock();
      const next = new Map([...standing].filter(([, { confirmedAtMs }]) => nowMs - confirmedAtMs < KEPT_MS));
      for (const judged of judge(reports, nowMs)) {
        const id = `${judged.kind} ${judged.id}`;
        const known = next.get(id);
        if (!known && next.size >= MAX_FINDINGS) continue;
        const example = known && judged.example.length === 0 ? known.example : judged.example;
        next.set(id, { ...judged, example, sinceMs: known?.sinceMs ?? judged.sinceMs, confirmedAtMs: nowMs });
      }
      standing = next;
    }),
  };
}
