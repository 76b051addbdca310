import type { RequestWork } from '../../../base/request-work.ts';
import type { WildcardIndex, WildcardNode } from './tree.ts';

/** Up to this number, a linear search is faster than the index. */
const MAX_LINEAR_SEARCH = 8;

/** Patterns whose beginning and end take as long to compare as a unit of work. */
const PATTERNS_PER_UNIT = 128;

interface Ranked {
  readonly rank: number;
  readonly wildcard: WildcardNode;
}

/**
 * Indexes nodes by the prefix of their pattern, so that thousands are searched as fast as a few: only nodes whose
 * prefix the text begins with are tried.
 *
 * @param by  the pattern to index: `value` if all nodes match the requested key, else `key`
 */
export function createWildcardIndex(wildcards: readonly WildcardNode[], by: 'key' | 'value'): WildcardIndex {
  if (wildcards.length <= MAX_LINEAR_SEARCH) {
    return {
      all: wildcards,
      find: (key, value, work) => wildcards.find((wildcard) => matches(wildcard, key, value, work))?.node,
    };
  }
  const byLength = new Map<number, Map<string, Ranked[]>>();
  for (const [rank, wildcard] of wildcards.entries()) {
    const { prefix } = wildcard[by] ?? { prefix: '' };
    const ofLength = byLength.get(prefix.length) ?? new Map<string, Ranked[]>();
    byLength.set(prefix.length, ofLength);
    const alike = ofLength.get(prefix);
    if (alike) alike.push({ rank, wildcard });
    else ofLength.set(prefix, [{ rank, wildcard }]);
  }
  return {
    all: wildcards,
    find(key, value, work) {
      const text = by === 'key' ? key : value;
      let found: Ranked | undefined;
      for (const [length, ofLength] of byLength) {
        if (length > text.length) continue;
        const alike = ofLength.get(text.slice(0, length)) ?? [];
        work?.addMatching(alike.length / PATTERNS_PER_UNIT);
        for (const ranked of alike) {
          if (found && ranked.rank > found.rank) break;
          if (matches(ranked.wildcard, key, value, work)) found = ranked;
        }
      }
      return found?.wildcard.node;
    },
  };
}

const matches = (
  { key, value }: WildcardNode,
  askedKey: string,
  askedValue: string,
  work: RequestWork | undefined,
): boolean => key.matches(askedKey, work) && (!value || value.matches(askedValue, work));
