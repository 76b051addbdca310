import type { Block } from './read.ts';
import { compileWildcard, hasWildcard, type Wildcard } from './wildcard.ts';

/** A node that no entry gets to, and the sibling that takes them all. */
export interface Hidden {
  readonly node: Block<'node'>;
  readonly by: Block<'node'>;
}

/**
 * Finds the nodes of a level that one of their siblings hides: a `*` behind an earlier `*` that matches all it matches, and a key
 * alone beside a `*` that matches the key with any value. An exact value goes before both and is never hidden, so that an entry whose value is the
 * very text of a hidden pattern still gets to it. What only several siblings hide together is not found.
 *
 * @param level  the children of one node, in the order of the file
 */
export function findHidden(level: readonly Block<'node'>[]): readonly Hidden[] {
  const patterns = new Map<string, Pattern[]>(); // by their beginnings: a level may have thousands
  const hidden = (node: Block<'node'>): readonly Hidden[] => {
    for (const beginning of beginningsOf(node)) {
      const pattern = patterns.get(beginning)?.find((one) => covers(one, node));
      if (pattern) return [{ node, by: pattern.node }];
    }
    return [];
  };
  const behind = level.filter(isWildcard).flatMap((node) => {
    const found = hidden(node); // by those before it: the first that matches counts
    const beginning = beginningOf(node);
    const alike = patterns.get(beginning);
    if (alike) alike.push(patternOf(node));
    else patterns.set(beginning, [patternOf(node)]);
    return found;
  });
  return [...behind, ...level.filter((node) => isKeyAlone(node) && !isWildcard(node)).flatMap(hidden)];
}

interface Pattern {
  readonly node: Block<'node'>;
  readonly key: Wildcard;
  readonly value: Wildcard;
}

/** The key and the value that a node matches, up to the first `*`. A pattern that matches all another one does begins as that does, or ends before. */
function beginningOf(node: Block<'node'>): string {
  const [beginning = ''] = `${node.values.key}=${valuesOf(node)}`.split('*', 1);
  return beginning;
}

/** Every beginning that a pattern can have which matches all that the node does, the shortest first. */
function beginningsOf(node: Block<'node'>): readonly string[] {
  const longest = beginningOf(node);
  return Array.from({ length: longest.length + 1 }, (_, length) => longest.slice(0, length));
}

const isKeyAlone = ({ values: { value = '' } }: Block<'node'>): boolean => value === '';

const isWildcard = ({ values: { key = '', value = '' } }: Block<'node'>): boolean =>
  hasWildcard(key) || hasWildcard(value);

function patternOf(node: Block<'node'>): Pattern {
  return { node, key: compileWildcard(node.values.key ?? ''), value: compileWildcard(valuesOf(node)) };
}

/** The values that a node matches, as a pattern: without one of its own, any. */
const valuesOf = ({ values: { value = '' } }: Block<'node'>): string => value || '*';

/**
 * Whether the pattern matches all that the node does. Only a `*` can match a `*`, so a pattern that matches another one's text
 * matches it whatever is put in for its `*`.
 */
const covers = ({ key, value }: Pattern, node: Block<'node'>): boolean =>
  key.matches(node.values.key ?? '') && value.matches(valuesOf(node));
