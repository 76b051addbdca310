import { describeChanges, findChanges, type LoadedTree, namedPaths, type RuleChanges } from './changes.ts';
import { type CounterChanges, findCounterChanges } from './counter-changes.ts';

/** What a reload did: to rules, and to the counters of those that went on. */
export interface Reload {
  readonly changes: RuleChanges;
  readonly counters: CounterChanges;
}

export async function findReload(before: LoadedTree, after: LoadedTree): Promise<Reload> {
  const changes = await findChanges(before, after);
  return { changes, counters: await findCounterChanges(before, after, changes.changed) };
}

/** `changed demo.a, demo.b; counters kept: demo.a; counters begin anew: demo.b`; undefined where nothing differs. */
export function describeReload({ changes, counters: { kept, anew } }: Reload): string | undefined {
  const parts = [
    describeChanges(changes),
    kept.length > 0 ? `counters kept: ${namedPaths(kept)}` : undefined,
    anew.length > 0 ? `counters begin anew: ${namedPaths(anew)}` : undefined,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.join('; ');
}

/** Paths that are listed of each kind. */
const MAX_LISTED = 200;

/** The same for programs. */
export function reloadAsJson({ changes, counters }: Reload, atMs: number): object {
  const listed = (paths: readonly string[]): readonly string[] => paths.slice(0, MAX_LISTED);
  return {
    at_ms: atMs,
    text: describeReload({ changes, counters }) ?? 'no rule has changed',
    counters_kept: listed(counters.kept),
    counters_anew: listed(counters.anew),
  };
}
