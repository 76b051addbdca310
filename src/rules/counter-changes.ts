import { fatesOf, isRegrouped, Places } from './places.ts';
import { finish } from './steps.ts';
import type { RuleTree } from './tree.ts';

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
export function findCounterChanges(before: RuleTree, after: RuleTree, changed: ReadonlySet<string>): CounterChanges {
  const old = finish(Places.in(before));
  const now = finish(Places.in(after));
  const kept = new Set<string>();
  const anew = new Set<string>();
  for (const [id, place] of now.byId) {
    const was = old.byId.get(id);
    const { path } = place.rule;
    if (!was || !(changed.has(path) || isRegrouped(was, place))) continue;
    const fates = fatesOf(was, place);
    if (fates.length > 0) (fates.every(({ isKept }) => isKept) ? kept : anew).add(path);
  }
  return { kept: [...kept].filter((path) => !anew.has(path)), anew: [...anew] };
}
