import { type LoadedTree, sameDomains } from './changes.ts';
import { fatesOf, isRegrouped, Places } from './places.ts';
import { inSlices, type Steps } from './steps.ts';

/** Rules that went on with other limits, by path: whether all of their limits found their counters. */
export interface CounterChanges {
  readonly kept: readonly string[];
  readonly anew: readonly string[];
}

/**
 * What became of the counters of rules that have changed, a few rules in a turn.
 *
 * @param changed  paths, as `findChanges` lists them
 */
export async function findCounterChanges(
  before: LoadedTree,
  after: LoadedTree,
  changed: readonly string[],
): Promise<CounterChanges> {
  const same = sameDomains(before, after);
  const old = await inSlices(Places.in(before.rules, same));
  const now = await inSlices(Places.in(after.rules, same));
  return inSlices(counterChangesOf(old, now, new Set(changed)));
}

function* counterChangesOf(old: Places, now: Places, changed: ReadonlySet<string>): Steps<CounterChanges> {
  const kept = new Set<string>();
  const anew = new Set<string>();
  for (const [id, place] of now.byId) {
    yield 1;
    const was = old.byId.get(id);
    const { path } = place.rule;
    if (!was || !(changed.has(path) || isRegrouped(was, place))) continue;
    const fates = fatesOf(was, place);
    if (fates.length > 0) (fates.every(({ isKept }) => isKept) ? kept : anew).add(path);
  }
  return { kept: [...kept].filter((path) => !anew.has(path)), anew: [...anew] };
}
