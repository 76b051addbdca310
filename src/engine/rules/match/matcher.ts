import type { RequestWork } from '../../../base/request-work.ts';

/** What nodes may require of a value, in the order of precedence. */
const kinds = ['exact', 'addresses', 'wildcard', 'any_value'] as const;
type MatcherKind = (typeof kinds)[number];

/** The precedence of a kind: of the nodes that match an entry, one of the lowest rank is chosen. */
export const matcherRank = (kind: MatcherKind): number => kinds.indexOf(kind);

/** What a node requires of the key or the value of an entry. */
export interface Matcher {
  readonly kind: MatcherKind;
  readonly rank: number;
  /** As in rule files; empty for any text. Matchers of one kind with the same text match the same texts. */
  readonly text: string;
  /** Its part of the names of its node, and of a counter that all matching texts share. */
  readonly name: string;
  /**
   * @param work  charged before a text is searched
   * @throws TooCostly
   */
  matches(text: string, work?: RequestWork): boolean;
  /** Whether it matches all that another one does; may be false if only one of them is a pattern. */
  covers(other: Matcher): boolean;
  overlaps(other: Matcher): boolean;
  /** Whether it precedes another matcher of its kind for some texts. Default: the first in the file precedes. */
  precedes?(other: Matcher): boolean;
  /** A matching text. @param filling  for whatever may be any text */
  example(filling: string): string;
}
