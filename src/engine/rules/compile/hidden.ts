import { compileWildcard, hasWildcard, type Wildcard } from '../match/wildcard.ts';
import type { Block } from '../read/read.ts';

/** A node that no entry reaches, and the sibling that matches all its entries. */
interface Hidden {
  readonly node: Block<'node'>;
  readonly by: Block<'node'>;
}

/**
 * Finds the nodes of a level that one sibling hides: a `*` after an earlier `*` that matches all it matches, and a key
 * alone if a `*` matches the key with any value. An exact value takes precedence over both and is never
 * hidden, so an entry whose value is the literal text of a hidden pattern still reaches that node. Not found: nodes
 * that only several siblings together hide, and hidden nodes in a level that would take more than `MAX_STEPS`.
 *
 * @param level  the children of one node, in the order of the file
 */
export function findHidden(level: readonly Block<'node'>[]): readonly Hidden[] {
  const patterns = new Map<string, Pattern[]>(); // by prefix: a level may have thousands
  const lengths: number[] = []; // of the prefixes, ascending
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
    const found = hidden(node); // by patterns before it: the first match wins
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

/** Prefixes looked up and patterns compared with nodes in one level: about a second's work. */
const MAX_STEPS = 10_000_000;

/** The steps of one lookup; a comparison takes the product of both nodes' steps. */
const costOf = ({ values: { key = '', value = '' } }: Block<'node'>): number =>
  1 + Math.floor((key.length + value.length) / STEP_CHARACTERS);
const STEP_CHARACTERS = 64;

/** Inserts a number into a sorted list, unless it is there. */
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
 * The key and the value that a node matches, up to the first `*`. If a pattern matches all that another one does, its
 * prefix is a prefix of the other's.
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

/** The values that a node matches, as a pattern; `*` if it has no value. */
const valuesOf = ({ values: { value = '' } }: Block<'node'>): string => value || '*';

/**
 * Whether the pattern matches all that the node does. Only a `*` can match a `*`, so a pattern that matches another
 * pattern's text also matches every expansion of it.
 */
const covers = ({ key, value }: Pattern, node: Block<'node'>): boolean =>
  key.matches(node.values.key ?? '') && value.matches(valuesOf(node));
