import { shown } from './problem.ts';
import type { Rule, RuleTree } from './tree.ts';

/** Rules by their paths. */
export interface RuleChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

/** Finds what differs, all of it in one turn of the event loop. */
export function findChanges(before: RuleTree, after: RuleTree): RuleChanges {
  const old = textsOf(before);
  const added: string[] = [];
  const changed: string[] = [];
  for (const [path, text] of textsOf(after)) {
    const known = old.get(path);
    if (known === undefined) added.push(path);
    else if (known !== text) changed.push(path);
    old.delete(path);
  }
  return { added, changed, removed: [...old.keys()] };
}

/** What each rule says, but for where it stands. */
const textsOf = ({ rules }: RuleTree): Map<string, string> => new Map(rules.map((rule) => [rule.path, ruleText(rule)]));

/** All that a rule says, but for where it stands. */
export const ruleText = ({ place: _, overlaid: __, ...rule }: Rule): string => JSON.stringify(rule);

/** Paths that are named of each kind. */
const MAX_NAMED = 5;

/** `added demo.a, demo.b and 3 more; changed demo.user`; undefined where no rule differs. */
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
