import { checkpoint } from './checkpoint.ts';
import type { RuleSummaries, RuleSummary } from './rule-summary.ts';

/** Rules that went on with other limits, by path: whether all of their limits found their counters. */
export interface CounterChanges {
  readonly kept: readonly string[];
  readonly anew: readonly string[];
}

/**
 * What became of the counters of rules that have changed.
 *
 * @param changed  paths, as `findChanges` lists them
 */
export function findCounterChanges(
  before: RuleSummaries,
  after: RuleSummaries,
  changed: ReadonlySet<string>,
): CounterChanges {
  const kept = new Set<string>();
  const anew = new Set<string>();
  for (const [id, now] of after) {
    checkpoint();
    const was = before.get(id);
    if (!was || !(changed.has(now.path) || was.grouping !== now.grouping)) continue;
    if (now.counters.length > 0) (areKept(was, now) ? kept : anew).add(now.path);
  }
  return { kept: [...kept].filter((path) => !anew.has(path)), anew: [...anew] };
}

/** Counters are named by grouping, entries, algorithm and window. */
const areKept = (was: RuleSummary, now: RuleSummary): boolean =>
  was.grouping === now.grouping &&
  was.ids === now.ids &&
  now.counters.every((counter) => was.counters.includes(counter));
