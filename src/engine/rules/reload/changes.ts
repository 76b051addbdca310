import { checkpoint } from '../read/checkpoint.ts';
import { shown } from '../read/problem.ts';
import type { RuleSummaries } from './rule-summary.ts';

/** Rules by their paths. */
interface RuleChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export function findChanges(before: RuleSummaries, after: RuleSummaries): RuleChanges {
  const old = digestsOf(before);
  const added: string[] = [];
  const changed: string[] = [];
  for (const [path, digest] of digestsOf(after)) {
    checkpoint();
    const known = old.get(path);
    if (known === undefined) added.push(path);
    else if (known !== digest) changed.push(path);
    old.delete(path);
  }
  return { added, changed, removed: [...old.keys()] };
}

function digestsOf(summaries: RuleSummaries): Map<string, string> {
  const digests = new Map<string, string>();
  for (const { path, digest } of summaries.values()) {
    checkpoint();
    if (digest !== undefined) digests.set(path, digest);
  }
  return digests;
}

/** The number of paths named for each kind of change. */
const MAX_NAMED = 5;

/** `added demo.a, demo.b and 3 more; changed demo.user`; undefined: no rule differs. */
export function describeChanges(changes: RuleChanges): string | undefined {
  const parts = (['added', 'changed', 'removed'] as const).flatMap((kind) => {
    const paths = changes[kind];
    return paths.length === 0 ? [] : [`${kind} ${namedPaths(paths)}`];
  });
  return parts.length === 0 ? undefined : parts.join('; ');
}

/** `demo.a, demo.b and 3 more` */
export function namedPaths(paths: readonly string[]): string {
  const more = paths.length > MAX_NAMED ? ` and ${paths.length - MAX_NAMED} more` : '';
  return `${paths.slice(0, MAX_NAMED).map(shown).join(', ')}${more}`;
}
