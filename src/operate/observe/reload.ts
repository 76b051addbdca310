import type { SiteSplit } from '../../engine/holds/claim.ts';
import { differing, type PackedRules } from '../../engine/rules/compile/packed.ts';
import { shown } from '../../engine/rules/read/problem.ts';
import { type RuleSummaries, type RuleSummary, summarize } from './rule-summary.ts';

/** The effects of a reload, for operators. */
export interface Reload {
  /** `changed demo.a, demo.b; counters kept: demo.a; counters begin anew: demo.b`; undefined if nothing differs. */
  readonly text: string | undefined;
  /** Paths of changed rules, at most `MAX_LISTED` of each kind. */
  readonly countersKept: readonly string[];
  readonly countersAnew: readonly string[];
}

/** The effects of a reload. @param split  for limits that sites share */
export function compareRules(before: PackedRules, after: PackedRules, split: SiteSplit | undefined): Reload {
  const changed = differing(before, after);
  return findReload(summarizeAll(changed.before, split), summarizeAll(changed.after, split));
}

const summarizeAll = (packed: PackedRules, split: SiteSplit | undefined): RuleSummaries =>
  new Map(packed.flatMap((domain) => [...summarize(domain, split)]));

const MAX_LISTED = 200;

/** Compares the rules by their keys and values. */
export function findReload(before: RuleSummaries, after: RuleSummaries): Reload {
  const [added, changed, removed] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const [kept, anew] = [new Set<string>(), new Set<string>()];
  for (const [id, now] of after) {
    const was = before.get(id);
    const isChanged = was?.digest !== now.digest;
    if (isChanged) (was ? changed : added).add(now.path);
    if (was && (isChanged || was.grouping !== now.grouping) && now.counters.length > 0)
      (areKept(was, now) ? kept : anew).add(now.path);
  }
  for (const [id, { path, digest }] of before) if (digest !== undefined && !after.has(id)) removed.add(path);
  for (const path of anew) kept.delete(path); // one of its counters is not kept
  const parts = [
    describe('added', added),
    describe('changed', changed),
    describe('removed', removed),
    describe('counters kept:', kept),
    describe('counters begin anew:', anew),
  ].filter((part) => part !== undefined);
  return {
    text: parts.length === 0 ? undefined : parts.join('; '),
    countersKept: [...kept].slice(0, MAX_LISTED),
    countersAnew: [...anew].slice(0, MAX_LISTED),
  };
}

/** The number of paths named for each kind of change. */
const MAX_NAMED = 5;

/** `added demo.a, demo.b and 3 more`; undefined if there are none. */
function describe(change: string, paths: ReadonlySet<string>): string | undefined {
  if (paths.size === 0) return undefined;
  const more = paths.size > MAX_NAMED ? ` and ${paths.size - MAX_NAMED} more` : '';
  return `${change} ${[...paths].slice(0, MAX_NAMED).map(shown).join(', ')}${more}`;
}

/** Counters are named by grouping, entries, algorithm and window. */
const areKept = (was: RuleSummary, now: RuleSummary): boolean =>
  was.grouping === now.grouping &&
  was.ids === now.ids &&
  now.counters.every((counter) => was.counters.includes(counter));
