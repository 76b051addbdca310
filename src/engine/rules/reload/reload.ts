import type { PackedRules } from '../compile/packed.ts';
import { describeChanges, findChanges, namedPaths } from './changes.ts';
import { findCounterChanges } from './counter-changes.ts';
import type { RuleSummaries } from './rule-summary.ts';

/** The effects of a reload, for operators. It is sent between processes, so it is small. */
export interface Reload {
  /** `changed demo.a, demo.b; counters kept: demo.a; counters begin anew: demo.b`; undefined: no difference. */
  readonly text: string | undefined;
  /** Paths of changed rules, at most `MAX_LISTED` of each kind. */
  readonly countersKept: readonly string[];
  readonly countersAnew: readonly string[];
}

/** Determines the effects of a reload without blocking the event loop. */
export type CompareRules = (before: PackedRules, after: PackedRules) => Promise<Reload>;

/** The most paths of each kind. */
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

/** The reload as JSON. */
export const reloadAsJson = ({ text, countersKept, countersAnew }: Reload, atMs: number): object => ({
  at_ms: atMs,
  text: text ?? 'no rule has changed',
  counters_kept: countersKept,
  counters_anew: countersAnew,
});
