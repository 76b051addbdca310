import { describeChanges, findChanges, namedPaths } from './changes.ts';
import { findCounterChanges } from './counter-changes.ts';
import type { PackedRules } from './packed.ts';
import type { RuleSummaries } from './rule-summary.ts';

/** What a reload did, for operators. It is sent between threads, and therefore small. */
export interface Reload {
  /** `changed demo.a, demo.b; counters kept: demo.a; counters begin anew: demo.b`; undefined where nothing differs. */
  readonly text: string | undefined;
  /** Paths of rules that went on with other limits, `MAX_LISTED` of each kind at most. */
  readonly countersKept: readonly string[];
  readonly countersAnew: readonly string[];
}

/** Finds what a reload did, without blocking the event loop. */
export type CompareRules = (before: PackedRules, after: PackedRules) => Promise<Reload>;

/** Paths that are listed of each kind. */
const MAX_LISTED = 200;

export function findReload(before: RuleSummaries, after: RuleSummaries): Reload {
  const changes = findChanges(before, after);
  const { kept, anew } = findCounterChanges(before, after, new Set(changes.changed));
  const parts = [
    describeChanges(changes),
    kept.length > 0 ? `counters kept: ${namedPaths(kept)}` : undefined,
    anew.length > 0 ? `counters begin anew: ${namedPaths(anew)}` : undefined,
  ].filter((part) => part !== undefined);
  return {
    text: parts.length === 0 ? undefined : parts.join('; '),
    countersKept: kept.slice(0, MAX_LISTED),
    countersAnew: anew.slice(0, MAX_LISTED),
  };
}

/** The same for programs. */
export const reloadAsJson = ({ text, countersKept, countersAnew }: Reload, atMs: number): object => ({
  at_ms: atMs,
  text: text ?? 'no rule has changed',
  counters_kept: countersKept,
  counters_anew: countersAnew,
});
