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
  const wildcards = level.filter(isWildcard).map(patternOf);
  return level.flatMap((node): readonly Hidden[] => {
    if (!isWildcard(node) && !isKeyAlone(node)) return [];
    for (const wildcard of wildcards) {
      if (wildcard.node === node) return []; // the first that matches counts: those behind it do not matter
      if (covers(wildcard, node)) return [{ node, by: wildcard.node }];
    }
    return [];
  });
}

interface Pattern {
  readonly node: Block<'node'>;
  readonly key: Wildcard;
  readonly value: Wildcard;
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
