import { checkpoint } from '../read/checkpoint.ts';
import type { RuleSummaries, RuleSummary } from './rule-summary.ts';

/** Changed rules, by path: whether the counters of all their limits are kept. */
interface CounterChanges {
  readonly kept: readonly string[];
  readonly anew: readonly string[];
}

/**
 * Finds out whether the counters of changed rules are kept.
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
