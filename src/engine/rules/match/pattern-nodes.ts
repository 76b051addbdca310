import type { RequestWork } from '../../../base/request-work.ts';
import { PatternSet } from './pattern-set.ts';
import type { PatternNodes, RankedNode } from './tree.ts';

/** Up to this number, patterns are tried one by one: that takes no longer than a pass for all of them. */
const MAX_TRIED_SINGLY = 4;

/** Patterns whose beginning and end take as long to compare as a unit of work. */
const PATTERNS_PER_UNIT = 128;

/** Separates keys from values where they are searched together; no valid text contains it. */
const SEPARATOR = '\uffff';

/**
 * Builds the nodes of one key, which have a pattern for the value. Yields the approximate work of each step.
 *
 * @param all  in the order of the file
 */
export function* nodesByValue(all: readonly RankedNode[] = []): Generator<number, PatternNodes | undefined> {
  if (all.length === 0) return undefined;
  if (all.length <= MAX_TRIED_SINGLY)
    return { all, find: (_, value, work) => all.find((one) => one.value.matches(value, work)) };
  const set = yield* PatternSet.of(all.map(({ value }) => value.text));
  return { all, find: (_, value, work) => all[set.first(value, work) ?? all.length] };
}

/** The same for the nodes of a level that have a pattern for the key. */
export function* nodesByKey(all: readonly RankedNode[]): Generator<number, PatternNodes | undefined> {
  if (all.length === 0) return undefined;
  const findSingly = (asked: string, value: string, work?: RequestWork) =>
    all.find((one) => one.key.matches(asked, work) && one.value.matches(value, work));
  const texts = all.map(({ key, value }) => `${key.text}${SEPARATOR}${value.kind === 'any_value' ? '*' : value.text}`);
  const isSeparated = texts.every((text) => text.indexOf(SEPARATOR) === text.lastIndexOf(SEPARATOR));
  if (all.length <= MAX_TRIED_SINGLY || !isSeparated) return { all, find: findSingly };
  const set = yield* PatternSet.of(texts);
  return {
    all,
    find(key, value, work) {
      if (!key.includes(SEPARATOR) && !value.includes(SEPARATOR))
        return all[set.first(`${key}${SEPARATOR}${value}`, work) ?? all.length];
      work?.addMatching(all.length / PATTERNS_PER_UNIT);
      return findSingly(key, value, work);
    },
  };
}
