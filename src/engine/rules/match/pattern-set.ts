import type { RequestWork } from '../../../base/request-work.ts';
import { NONE, ROOT, Trie } from './trie.ts';

/** Characters that take as long to scan as a unit of work. */
const CHARS_PER_UNIT = 512;
/** Nodes that take as long to try as a unit of work. */
const TRIED_PER_UNIT = 64;

/** The work of building a set, for each pattern, relative to that of adding a node to a level. */
const WORK_TO_SPLIT = 0.1;
const WORK_TO_ADD = 0.25;

const NO_RANK = 0x7fff_ffff;

/** The patterns with the same beginning, end, and first parts. */
interface PatternNode {
  /** The nodes with one part more, by its number. */
  next: Map<number, PatternNode> | undefined;
  /** The first pattern without further parts. */
  rank: number;
  /** The first pattern with further parts. */
  rankBeyond: number;
}

/** A node whose next parts are searched. */
interface Waiting {
  readonly node: PatternNode;
  readonly from: number;
  /** Where the end of the text, which is not available to parts, begins. */
  readonly until: number;
}

/**
 * Patterns that are searched together: one pass over a text finds the first of them that matches. The memory is
 * proportional to the length of the patterns, the time to that of the text and to the pieces of patterns that it has.
 *
 * A pattern is a beginning, an end, and the parts between its stars. The beginnings and the ends of a text are found in
 * two tries; the parts of patterns that have both are found by an Aho-Corasick automaton in between. Each part is
 * taken where it occurs first, which leaves most of the text to the next one.
 */
export class PatternSet {
  readonly #beginnings: Trie;
  /** Reversed. */
  readonly #ends: Trie;
  readonly #parts: Trie;
  /** By beginning and end: see `#pairKey`. */
  readonly #roots = new Map<number, PatternNode>();
  readonly #mostEnds: number;
  /** For each part, the number of waiting nodes that have tried it, plus `#searched`. */
  readonly #tried: Float64Array;
  /** The number of nodes that waited in earlier searches, so that `#tried` need not be cleared. */
  #searched = 0;

  private constructor(all: readonly Pieces[]) {
    const totalLength = (texts: readonly string[]): number => texts.reduce((sum, { length }) => sum + length, 0);
    this.#beginnings = new Trie(totalLength(all.map(({ beginning }) => beginning)));
    this.#ends = new Trie(totalLength(all.map(({ end }) => end)));
    this.#parts = new Trie(totalLength(all.flatMap(({ parts }) => parts)));
    this.#tried = new Float64Array(1 + all.reduce((sum, { parts }) => sum + parts.length, 0));
    this.#mostEnds = 1 + all.length;
  }

  /**
   * Builds a set in steps; yields the approximate number of nodes in each.
   *
   * @param patterns  each with a `*`, in the order of precedence
   */
  static *of(patterns: readonly string[]): Generator<number, PatternSet> {
    const all: Pieces[] = [];
    for (const pattern of patterns) {
      all.push(splitPattern(pattern));
      yield WORK_TO_SPLIT;
    }
    const set = new PatternSet(all);
    for (const [rank, pieces] of all.entries()) {
      set.#add(pieces, rank);
      yield WORK_TO_ADD;
    }
    yield* set.#parts.link();
    return set;
  }

  #add({ beginning, end, parts }: Pieces, rank: number): void {
    const pair = this.#pairKey(this.#beginnings.add(beginning), this.#ends.add(end));
    let node = this.#roots.get(pair) ?? emptyNode();
    this.#roots.set(pair, node);
    for (const piece of parts) {
      const part = this.#parts.add(piece);
      node.rankBeyond = Math.min(node.rankBeyond, rank);
      node.next ??= new Map();
      const next = node.next.get(part) ?? emptyNode();
      node.next.set(part, next);
      node = next;
    }
    node.rank = Math.min(node.rank, rank);
  }

  #pairKey(beginning: number, end: number): number {
    return beginning * this.#mostEnds + end;
  }

  /**
   * The index of the first pattern that matches; undefined if none does.
   *
   * @param work  charged before it is done
   * @throws TooCostly
   */
  first(text: string, work?: RequestWork): number | undefined {
    const entered: Waiting[] = [];
    const best = this.#enter(text, entered, work);
    const found = entered.length === 0 ? best : this.#scan(text, entered, best, work);
    return found === NO_RANK ? undefined : found;
  }

  /**
   * Finds the patterns whose beginning and end the text has.
   *
   * @param entered  receives those with parts, in the order of `from`
   * @returns the first of those without parts
   */
  #enter(text: string, entered: Waiting[], work: RequestWork | undefined): number {
    const last = text.length - 1;
    const ends = textsAt(this.#ends, text.length, (at) => text.charCodeAt(last - at));
    if (ends.length === 0) return NO_RANK;
    const beginnings = textsAt(this.#beginnings, text.length, (at) => text.charCodeAt(at));
    const pairs = ends.length * beginnings.length;
    if (pairs > TRIED_PER_UNIT) work?.addMatching(pairs / TRIED_PER_UNIT);
    let best = NO_RANK;
    for (const beginning of beginnings) {
      const from = this.#beginnings.textLength(beginning);
      for (const end of ends) {
        const until = text.length - this.#ends.textLength(end);
        const node = from <= until ? this.#roots.get(this.#pairKey(beginning, end)) : undefined;
        if (!node) continue;
        best = Math.min(best, node.rank);
        if (node.next) entered.push({ node, from, until });
      }
    }
    return best;
  }

  /** @returns the first of the patterns without parts and of those whose parts the text has */
  #scan(text: string, entered: readonly Waiting[], withoutParts: number, work: RequestWork | undefined): number {
    const from = entered[0]?.from ?? 0;
    const until = entered.reduce((most, one) => Math.max(most, one.until), 0);
    const beyond = entered.reduce((least, { node }) => Math.min(least, node.rankBeyond), NO_RANK);
    if (withoutParts < beyond) return withoutParts;
    work?.addMatching((until - from) / CHARS_PER_UNIT);
    const search: Search = { waiting: [], best: withoutParts, work };
    const reader = { at: from, state: ROOT };
    let next = 0;
    try {
      while (reader.at < until && search.best > beyond) {
        let ended = this.#parts.read(reader, text, until);
        for (let one = entered[next]; one && one.from < reader.at; one = entered[++next]) search.waiting.push(one);
        for (; ended !== NONE; ended = this.#parts.shorter(ended))
          this.#follow(search, this.#parts.textAt(ended), reader.at);
      }
    } finally {
      this.#searched += search.waiting.length;
    }
    return search.best;
  }

  /** Tries a part that ends at a position on the nodes that have not tried it yet, and wait long enough. */
  #follow(search: Search, part: number, at: number): void {
    const { waiting, work } = search;
    const start = at - this.#parts.textLength(part);
    const first = Math.max((this.#tried[part] ?? 0) - this.#searched, 0);
    let next = first;
    for (let one = waiting[next]; one !== undefined && one.from <= start; one = waiting[++next]) {
      if (next % TRIED_PER_UNIT === TRIED_PER_UNIT - 1) work?.addMatching(1);
      const reached = at <= one.until && one.node.rankBeyond < search.best ? one.node.next?.get(part) : undefined;
      if (!reached) continue;
      search.best = Math.min(search.best, reached.rank);
      if (reached.next) waiting.push({ node: reached, from: at, until: one.until });
    }
    if (next > first) this.#tried[part] = this.#searched + next;
  }
}

interface Search {
  /** In the order of `from`. */
  readonly waiting: Waiting[];
  best: number;
  readonly work: RequestWork | undefined;
}

interface Pieces {
  readonly beginning: string;
  /** Reversed. */
  readonly end: string;
  /** None of them is empty. */
  readonly parts: readonly string[];
}

function splitPattern(pattern: string): Pieces {
  const [beginning = '', ...others] = pattern.split('*');
  const end = others.pop() ?? '';
  return { beginning, end: end.split('').reverse().join(''), parts: others.filter((part) => part !== '') };
}

const emptyNode = (): PatternNode => ({ next: undefined, rank: NO_RANK, rankBeyond: NO_RANK });

/** The numbers of a trie's texts that a text begins with, the shortest first. */
function textsAt(trie: Trie, length: number, characterAt: (at: number) => number): readonly number[] {
  const found: number[] = [];
  let state = ROOT;
  for (let at = 0; ; at++) {
    const text = trie.textAt(state);
    if (text !== NONE) found.push(text);
    if (at === length) return found;
    state = trie.next(state, characterAt(at));
    if (state === NONE) return found;
  }
}
