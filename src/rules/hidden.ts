import type { Block } from './read.ts';
import { compileWildcard, hasWildcard, type Wildcard } from './wildcard.ts';

/** A node that no entry gets to, and the sibling that takes them all. */
export interface Hidden {
  readonly node: Block<'node'>;
  readonly by: Block<'node'>;
}

/**
 * Finds the nodes of a level that one of their siblings hides: a `*` behind an earlier `*` that matches all it matches,
 * and a key alone beside a `*` that matches the key with any value. An exact value goes before both and is never
 * hidden, so that an entry whose value is the very text of a hidden pattern still gets to it. What only several
 * siblings hide together is not found, nor what is hidden in a level where that would take more than `MAX_STEPS`.
 *
 * @param level  the children of one node, in the order of the file
 */
export function findHidden(level: readonly Block<'node'>[]): readonly Hidden[] {
  const patterns = new Map<string, Pattern[]>(); // by their beginnings: a level may have thousands
  const lengths: number[] = []; // of the beginnings, the shortest first
  let steps = 0;
  const hidden = (node: Block<'node'>): readonly Hidden[] => {
    const longest = beginningOf(node);
    const cost = costOf(node);
    for (const length of lengths) {
      if (length > longest.length || steps > MAX_STEPS) break;
      steps += cost;
      for (const pattern of patterns.get(longest.slice(0, length)) ?? []) {
        if (covers(pattern, node)) return [{ node, by: pattern.node }];
        steps += cost * costOf(pattern.node);
        if (steps > MAX_STEPS) return [];
      }
    }
    return [];
  };
  const behind = level.filter(isWildcard).flatMap((node) => {
    const found = hidden(node); // by those before it: the first that matches counts
    const beginning = beginningOf(node);
    const alike = patterns.get(beginning);
    if (alike) alike.push(patternOf(node));
    else {
      patterns.set(beginning, [patternOf(node)]);
      addInOrder(lengths, beginning.length);
    }
    return found;
  });
  return [...behind, ...level.filter((node) => isKeyAlone(node) && !isWildcard(node)).flatMap(hidden)];
}

/** Beginnings that are looked up in one level, and patterns that are held against nodes: about a second's work. */
const MAX_STEPS = 10_000_000;

/** Steps that one lookup takes; a comparison takes those of either node for each of the other's. */
const costOf = ({ values: { key = '', value = '' } }: Block<'node'>): number =>
  1 + Math.floor((key.length + value.length) / STEP_CHARACTERS);
const STEP_CHARACTERS = 64;

/** Adds a number to others that are in order, unless it is there. */
function addInOrder(numbers: number[], added: number): void {
  const at = numbers.findIndex((number) => number >= added);
  if (at < 0) numbers.push(added);
  else if (numbers[at] !== added) numbers.splice(at, 0, added);
}

interface Pattern {
  readonly node: Block<'node'>;
  readonly key: Wildcard;
  readonly value: Wildcard;
}

/**
 * The key and the value that a node matches, up to the first `*`. A pattern that matches all another one does begins as
 * that does, or ends before.
 */
function beginningOf(node: Block<'node'>): string {
  const [beginning = ''] = `${node.values.key}=${valuesOf(node)}`.split('*', 1);
  return beginning;
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
 * Whether the pattern matches all that the node does. Only a `*` can match a `*`, so a pattern that matches another
 * one's text matches it whatever is put in for its `*`.
 */
const covers = ({ key, value }: Pattern, node: Block<'node'>): boolean =>
  key.matches(node.values.key ?? '') && value.matches(valuesOf(node));
