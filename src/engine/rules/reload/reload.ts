import type { SiteSplit } from '../../holds/site-share.ts';
import { differing, type PackedRules } from '../compile/packed.ts';
import { shown } from '../read/problem.ts';
import { type RuleSummaries, type RuleSummary, summarize } from './rule-summary.ts';

/** The effects of a reload, for operators. */
export interface Reload {
  /**
   * `changed demo.a, demo.b; counters kept: demo.a; counters begin anew: demo.b`; undefined if there is no difference.
   */
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
export const reloadAsJson = ({ text, countersKept, countersAnew }: Reload, atMs: number) => ({
  at_ms: atMs,
  text: text ?? 'no rule has changed',
  counters_kept: countersKept,
  counters_anew: countersAnew,
});

interface RuleChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

function findChanges(before: RuleSummaries, after: RuleSummaries): RuleChanges {
  const old = listDigests(before);
  const added: string[] = [];
  const changed: string[] = [];
  for (const [path, digest] of listDigests(after)) {
    const known = old.get(path);
    if (known === undefined) added.push(path);
    else if (known !== digest) changed.push(path);
    old.delete(path);
  }
  return { added, changed, removed: [...old.keys()] };
}

function listDigests(summaries: RuleSummaries): Map<string, string> {
  const digests = new Map<string, string>();
  for (const { path, digest } of summaries.values()) {
    if (digest !== undefined) digests.set(path, digest);
  }
  return digests;
}

/** The number of paths named for each kind of change. */
const MAX_NAMED = 5;

/** `added demo.a, demo.b and 3 more; changed demo.user`; undefined if no rule differs. */
function describeChanges(changes: RuleChanges): string | undefined {
  const parts = (['added', 'changed', 'removed'] as const).flatMap((kind) => {
    const paths = changes[kind];
    return paths.length === 0 ? [] : [`${kind} ${namedPaths(paths)}`];
  });
  return parts.length === 0 ? undefined : parts.join('; ');
}

/** `demo.a, demo.b and 3 more` */
function namedPaths(paths: readonly string[]): string {
  const more = paths.length > MAX_NAMED ? ` and ${paths.length - MAX_NAMED} more` : '';
  return `${paths.slice(0, MAX_NAMED).map(shown).join(', ')}${more}`;
}

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
function findCounterChanges(before: RuleSummaries, after: RuleSummaries, changed: ReadonlySet<string>): CounterChanges {
  const kept = new Set<string>();
  const anew = new Set<string>();
  for (const [id, now] of after) {
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
