import { createHash } from 'node:crypto';
import { comparedWith } from '../../../engine/rules/match/level.ts';
import type { Entry } from '../../../engine/rules/match/match.ts';
import type { Level, Node, PlacedNode, RuleTree } from '../../../engine/rules/match/tree.ts';

const DIGEST_CHARACTERS = 16;

/** Whether a level chose its node by the value, and not only by the key: it must then not be hashed. */
export function needsValue(level: Level | undefined, { key, value }: Entry, found: Node | undefined): boolean {
  if (!level || !found) return false;
  const branch = level.byKey.get(key);
  if (branch?.anyValue === found) return false;
  if (branch?.byValue.get(value) === found) return true;
  const keyed = branch ? branch.keyPatterns : level.keyPatterns;
  return keyed?.all.find(({ node }) => node === found)?.value.kind !== 'any_value';
}

/** Digest of how rules match; rules with the same digest may have other limits. */
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

function addLevel(level: Level, add: Add): void {
  for (const [key, { byValue, addresses, anyValue }] of sorted(level.byKey)) {
    add(`key ${key}`);
    for (const [value, node] of sorted(byValue)) addNode(`value ${value}`, node, add);
    for (const { value, node } of addresses?.all ?? []) addNode(`addresses ${value.text}`, node, add);
    for (const pattern of comparedWith(level, key)) addPattern(pattern, add);
    if (anyValue) addNode('any value', anyValue, add);
  }
  add('keys');
  for (const pattern of level.keyPatterns?.all ?? []) addPattern(pattern, add);
  add('end');
}

function addPattern({ key, value, node }: PlacedNode, add: Add): void {
  add(`pattern ${key.text}`);
  addNode(value.kind === 'any_value' ? 'any value' : `value ${value.text}`, node, add);
}

function addNode(name: string, { hasRule, children }: Node, add: Add): void {
  add(name);
  add(hasRule ? 'rule' : 'none');
  if (children) addLevel(children, add);
}

/** Entries sorted by name, so that the order in the file does not matter. */
const sorted = <T>(byName: ReadonlyMap<string, T>): readonly (readonly [string, T])[] =>
  [...byName].sort(([one], [other]) => (one < other ? -1 : 1));
