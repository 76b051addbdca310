import { createHash } from 'node:crypto';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { Level, Node, RuleTree, WildcardNode } from '../../engine/rules/match/tree.ts';

const DIGEST_CHARACTERS = 16;

/** Whether a level chose its node by the value, which must then not be hashed. */
export function needsValue(level: Level | undefined, { key, value }: Entry, found: Node | undefined): boolean {
  if (!level || !found) return false;
  const branch = level.byKey.get(key);
  if (branch && branch.anyValue === found) return false;
  if (branch?.byValue.get(value) === found) return true;
  const chosen = (branch?.wildcards ?? level.keyWildcards).all.find(({ node }) => node === found);
  return chosen?.value !== undefined;
}

/** Rules with the same digest match alike; their limits may differ. */
export function matchDigest({ domains }: RuleTree): string {
  const hash = createHash('sha256');
  const add = (part: string): void => void hash.update(`${part.length}:${part}`);
  for (const [name, { root }] of sorted(domains)) {
    add(name);
    addLevel(root, add);
  }
  return hash.digest('base64url').slice(0, DIGEST_CHARACTERS);
}

type Add = (part: string) => void;

function addLevel({ byKey, keyWildcards }: Level, add: Add): void {
  for (const [key, { byValue, anyValue, wildcards }] of sorted(byKey)) {
    add(`key ${key}`);
    for (const [value, node] of sorted(byValue)) addNode(`value ${value}`, node, add);
    for (const wildcard of wildcards.all) addPattern(wildcard, add);
    if (anyValue) addNode('any value', anyValue, add);
  }
  add('keys');
  for (const wildcard of keyWildcards.all) addPattern(wildcard, add);
  add('end');
}

function addPattern({ key, value, node }: WildcardNode, add: Add): void {
  add(`pattern ${key.text}`);
  addNode(value ? `value ${value.text}` : 'any value', node, add);
}

function addNode(name: string, { hasRule, children }: Node, add: Add): void {
  add(name);
  add(hasRule ? 'rule' : 'none');
  if (children) addLevel(children, add);
}

/** Sorted: the order in the file does not matter. */
const sorted = <T>(byName: ReadonlyMap<string, T>): readonly (readonly [string, T])[] =>
  [...byName].sort(([one], [other]) => (one < other ? -1 : 1));
