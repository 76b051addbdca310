import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PackedRules } from './packed.ts';
import { shown } from './problem.ts';
import type { Rule, RuleTree } from './tree.ts';

/** Rules and what was packed of them. */
export interface LoadedTree {
  readonly rules: RuleTree;
  readonly packed: PackedRules;
}

/** Rules by their paths. */
export interface RuleChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

/** Rules that are compared in one turn of the event loop: less than a millisecond's work. */
const RULES_PER_TURN = 100;

/** Finds what differs, some rules in a turn, in the domains that differ at all. */
export async function findChanges(before: LoadedTree, after: LoadedTree): Promise<RuleChanges> {
  const same = sameDomains(before, after);
  const old = await textsOf(before, same);
  const added: string[] = [];
  const changed: string[] = [];
  for (const [path, text] of await textsOf(after, same)) {
    const known = old.get(path);
    if (known === undefined) added.push(path);
    else if (known !== text) changed.push(path);
    old.delete(path);
  }
  return { added, changed, removed: [...old.keys()] };
}

/** Domains whose rules are the same in both. */
export function sameDomains(before: LoadedTree, after: LoadedTree): ReadonlySet<string> {
  const hashes = new Map(before.packed.map(({ name, hash }) => [name, hash]));
  return new Set(after.packed.filter(({ name, hash }) => hashes.get(name) === hash).map(({ name }) => name));
}

/** What each rule says, but for where it stands; without those of the domains that are left out. */
async function textsOf(
  { rules: { domains, rules } }: LoadedTree,
  leftOut: ReadonlySet<string>,
): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  if ([...domains.keys()].every((name) => leftOut.has(name))) return texts;
  let left = RULES_PER_TURN;
  for (const rule of rules) {
    if (!leftOut.has(rule.domain)) texts.set(rule.path, ruleText(rule));
    if (--left > 0) continue;
    await nextTurn();
    left = RULES_PER_TURN;
  }
  return texts;
}

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
