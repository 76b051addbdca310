import type { NodeHead } from '../read/node-source.ts';
import { Addresses } from './addresses.ts';
import { type Matcher, matcherRank } from './matcher.ts';
import { commonPrefix, escaped, isPattern, Pattern } from './pattern.ts';

/** Whether a key or a value in a rule file matches only itself. */
export const isFixed = (text: string): boolean => !isPattern(text);

/** The matcher of a key, or of a value that is not empty. */
export const textMatcher = (text: string): Matcher => (isPattern(text) ? new Pattern(text) : new ExactText(text));

/** The matcher of a node's value. */
export function valueMatcher({ value = '', addresses }: Pick<NodeHead, 'value' | 'addresses'>): Matcher {
  if (addresses) return new Addresses(addresses);
  return value === '' ? ANY_VALUE : textMatcher(value);
}

/** Matches one text. */
class ExactText implements Matcher {
  readonly kind = 'exact';
  readonly rank = matcherRank('exact');
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  get name(): string {
    return this.text;
  }

  get beginning(): string {
    return this.text;
  }

  matches(text: string): boolean {
    return text === this.text;
  }

  mismatchAt(text: string): number | undefined {
    return text === this.text ? undefined : commonPrefix(this.text, text);
  }

  covers({ kind, text }: Matcher): boolean {
    return kind === 'exact' && text === this.text;
  }

  overlaps(other: Matcher): boolean {
    return other.matches(this.text);
  }

  example(): string {
    return this.text;
  }

  get regex(): string {
    return escaped(this.text);
  }
}

/** Matches every text. */
export const ANY_VALUE: Matcher = {
  kind: 'any_value',
  rank: matcherRank('any_value'),
  text: '',
  name: '',
  beginning: '',
  matches: () => true,
  mismatchAt: () => undefined,
  covers: () => true,
  overlaps: () => true,
  example: (filling) => filling,
  regex: '.*',
};
