import type { RequestWork } from '../../../base/request-work.ts';
import type { NodeHead } from '../read/node-source.ts';
import { Addresses } from './addresses.ts';
import { type Matcher, matcherRank } from './matcher.ts';

/** Whether a key or a value in a rule file matches only itself. */
export const isFixed = (text: string): boolean => !text.includes('*');

/** The matcher of a key, or of a value that is not empty. */
export const textMatcher = (text: string): Matcher => (isFixed(text) ? new ExactText(text) : new Pattern(text));

/** The matcher of a node's value. */
export function valueMatcher({ value = '', addresses }: Pick<NodeHead, 'value' | 'addresses'>): Matcher {
  if (addresses) return new Addresses(addresses);
  return value === '' ? ANY_VALUE : textMatcher(value);
}

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

  matches(text: string): boolean {
    return text === this.text;
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
}

/** Characters that take as long to search for a part of a pattern as a unit of work. */
const CHARS_PER_UNIT = 1_024;

/**
 * A text in which each `*` matches any number of characters, including none; a literal `*` cannot be escaped. `api/*`
 * matches `api/` and `api/v1`; `bar*b` matches `barb` and `bar1b`, but not `bara`.
 */
class Pattern implements Matcher {
  readonly kind = 'wildcard';
  readonly rank = matcherRank('wildcard');
  readonly text: string;
  readonly #beginning: string;
  readonly #end: string;
  /** Between the beginning and the end; none of them is empty. */
  readonly #parts: readonly string[];

  constructor(text: string) {
    const [beginning = '', ...others] = text.split('*');
    this.text = text;
    this.#beginning = beginning;
    this.#end = others.pop() ?? '';
    this.#parts = others.filter((part) => part !== '');
  }

  get name(): string {
    return this.text;
  }

  matches(text: string, work?: RequestWork): boolean {
    if (!text.startsWith(this.#beginning) || !text.endsWith(this.#end)) return false;
    if (this.#parts.length > 0) work?.addMatching(text.length / CHARS_PER_UNIT);
    let from = this.#beginning.length;
    for (const part of this.#parts) {
      const found = text.indexOf(part, from);
      if (found < 0) return false;
      from = found + part.length;
    }
    return from + this.#end.length <= text.length;
  }

  /** Only a `*` can match a `*`, so a pattern that matches another pattern's text also matches all expansions of it. */
  covers({ kind, text }: Matcher): boolean {
    return kind === 'exact' || kind === 'wildcard' ? this.matches(text) : this.#isAnyText;
  }

  get #isAnyText(): boolean {
    return this.#beginning === '' && this.#end === '' && this.#parts.length === 0;
  }

  /** Of two patterns, only the beginnings and ends can rule out that a text matches both. */
  overlaps(other: Matcher): boolean {
    if (other.kind === 'exact') return this.matches(other.text);
    if (!(other instanceof Pattern)) return true;
    const [starts, ends] = [
      [this.#beginning, other.#beginning],
      [this.#end, other.#end],
    ];
    const [short = '', long = ''] = starts.sort(byLength);
    const [shortEnd = '', longEnd = ''] = ends.sort(byLength);
    return long.startsWith(short) && longEnd.endsWith(shortEnd);
  }

  example(filling: string): string {
    return this.text.replaceAll('*', filling);
  }
}

const byLength = (one: string, other: string): number => one.length - other.length;

/** Matches every text. */
export const ANY_VALUE: Matcher = {
  kind: 'any_value',
  rank: matcherRank('any_value'),
  text: '',
  name: '',
  matches: () => true,
  covers: () => true,
  overlaps: () => true,
  example: (filling) => filling,
};
