/** The state before the first character. */
export const ROOT = 0;
/** No state, and no text that ends in a state. */
export const NONE = -1;

const ASCII_CODES = 128;

/** Transitions that are stored in tables; those of deeper states are found by their edges and fallbacks. */
const MAX_TABLE = 262_144;

/** The work of linking a state, relative to that of adding a node to a level. */
const WORK_TO_LINK = 1 / 64;

/**
 * Texts in a tree of characters, which can be linked to an automaton that finds all of them in one pass. Its edges are
 * a hash table, so that it takes about 50 bytes for each character of the texts, and a megabyte at most for its table.
 *
 * @see https://doi.org/10.1145/360825.360855  "Efficient string matching: an aid to bibliographic search"
 */
export class Trie {
  /** Numbers of the characters that the texts contain, from 1. Others are 0. */
  readonly #asciiSymbols = new Uint16Array(ASCII_CODES);
  readonly #otherSymbols = new Map<number, number>();
  #symbols = 1;
  /** Edges, by open addressing: the state and the symbol that they leave by, and the state that they reach. */
  readonly #from: Int32Array;
  readonly #by: Uint16Array;
  readonly #to: Int32Array;
  readonly #mask: number;
  /** For each state: its parent, and the symbol from there. */
  readonly #parent: Int32Array;
  readonly #symbol: Uint16Array;
  readonly #text: Int32Array;
  /** The state of the longest other beginning of a text that a state ends with. */
  readonly #fallback: Int32Array;
  /** The longest text that ends in a state, or in its fallbacks, as the state of that text. */
  readonly #ended: Int32Array;
  #states = 1;
  /** By number. */
  readonly #lengths: number[] = [];
  /** The next states of the first states that were linked, by symbol; their positions in it, by state. */
  #table = new Int32Array(0);
  readonly #row: Int32Array;

  /** @param characters  the sum of the lengths of all texts that will be added */
  constructor(characters: number) {
    const states = characters + 1;
    const capacity = 2 ** Math.ceil(Math.log2(2 * states));
    this.#mask = capacity - 1;
    this.#from = new Int32Array(capacity);
    this.#by = new Uint16Array(capacity);
    this.#to = new Int32Array(capacity).fill(NONE);
    this.#parent = new Int32Array(states);
    this.#symbol = new Uint16Array(states);
    this.#text = new Int32Array(states).fill(NONE);
    this.#fallback = new Int32Array(states);
    this.#ended = new Int32Array(states).fill(NONE);
    this.#row = new Int32Array(states).fill(NONE);
  }

  /** Adds a text. @returns its number, which equal texts share */
  add(text: string): number {
    let state = ROOT;
    for (let at = 0; at < text.length; at++) {
      const symbol = this.#findSymbol(text.charCodeAt(at)) || this.#addSymbol(text.charCodeAt(at));
      const to = this.#edge(state, symbol);
      state = to === NONE ? this.#grow(state, symbol) : to;
    }
    if (this.#text[state] === NONE) this.#text[state] = this.#lengths.push(text.length) - 1;
    return this.textAt(state);
  }

  textLength(text: number): number {
    return this.#lengths[text] ?? 0;
  }

  /** The state that a character leads to from a state, or `NONE` if no text continues with it. */
  next(state: number, character: number): number {
    const symbol = this.#findSymbol(character);
    return symbol === 0 ? NONE : this.#edge(state, symbol);
  }

  /** The number of the text that ends in a state, or `NONE`. */
  textAt(state: number): number {
    return this.#text[state] ?? NONE;
  }

  #findSymbol(character: number): number {
    return (character < ASCII_CODES ? this.#asciiSymbols[character] : this.#otherSymbols.get(character)) ?? 0;
  }

  #addSymbol(character: number): number {
    const symbol = this.#symbols++;
    if (character < ASCII_CODES) this.#asciiSymbols[character] = symbol;
    else this.#otherSymbols.set(character, symbol);
    return symbol;
  }

  #grow(parent: number, symbol: number): number {
    const state = this.#states++;
    let at = this.#slot(parent, symbol);
    while (this.#to[at] !== NONE) at = (at + 1) & this.#mask;
    this.#from[at] = parent;
    this.#by[at] = symbol;
    this.#to[at] = state;
    this.#parent[state] = parent;
    this.#symbol[state] = symbol;
    return state;
  }

  #slot(state: number, symbol: number): number {
    const mixed = Math.imul(state, 0x9e37_79b1) ^ Math.imul(symbol, 0x85eb_ca6b);
    return (mixed ^ (mixed >>> 15)) & this.#mask;
  }

  #edge(state: number, symbol: number): number {
    let at = this.#slot(state, symbol);
    for (;;) {
      const to = this.#to[at] ?? NONE;
      if (to === NONE || (this.#from[at] === state && this.#by[at] === symbol)) return to;
      at = (at + 1) & this.#mask;
    }
  }

  /** Completes the automaton after all texts. Yields the work of each step, relative to adding a node to a level. */
  *link(): Generator<number, void> {
    const width = this.#symbols;
    this.#table = new Int32Array(Math.min(this.#states, Math.ceil(MAX_TABLE / width)) * width);
    let rows = 0;
    for (const state of this.#byDepth()) {
      const [parent = ROOT, symbol = 0] = [this.#parent[state], this.#symbol[state]];
      const fallback = parent === ROOT ? ROOT : this.#step(this.#fallback[parent] ?? ROOT, symbol);
      this.#fallback[state] = fallback;
      this.#ended[state] = this.textAt(state) === NONE ? (this.#ended[fallback] ?? NONE) : state;
      if (rows < this.#table.length) {
        for (let by = 0; by < width; by++) {
          const to = by === 0 ? NONE : this.#edge(state, by);
          const otherwise = state === ROOT ? ROOT : this.#step(fallback, by);
          this.#table[rows + by] = to === NONE ? otherwise : to;
        }
        this.#row[state] = rows;
        rows += width;
        yield width * WORK_TO_LINK;
      }
      yield WORK_TO_LINK;
    }
  }

  /** The states, shallower ones first. */
  #byDepth(): readonly number[] {
    const depths = new Int32Array(this.#states);
    const levels: number[][] = [[ROOT]];
    for (let state = 1; state < this.#states; state++) {
      const depth = (depths[this.#parent[state] ?? ROOT] ?? 0) + 1; // a parent is created before its children
      depths[state] = depth;
      const level = levels[depth];
      if (level) level.push(state);
      else levels[depth] = [state];
    }
    return levels.flat();
  }

  #step(before: number, symbol: number): number {
    let state = before;
    for (;;) {
      const row = this.#row[state] ?? NONE;
      if (row !== NONE) return this.#table[row + symbol] ?? ROOT;
      const to = this.#edge(state, symbol);
      if (to !== NONE) return to;
      state = this.#fallback[state] ?? ROOT;
    }
  }

  /**
   * Reads on until a text ends, or to the end. Only for linked tries.
   *
   * @param reader  receives its new position and state
   * @returns the longest text that ends at the position, as a state, or `NONE`
   */
  read(reader: Reader, text: string, until: number): number {
    const [table, row, endedAt, ascii, others] = [
      this.#table,
      this.#row,
      this.#ended,
      this.#asciiSymbols,
      this.#otherSymbols,
    ];
    let state = reader.state;
    let ended = NONE;
    let at = reader.at;
    while (at < until && ended === NONE) {
      const character = text.charCodeAt(at++);
      const symbol = (character < ASCII_CODES ? ascii[character] : others.get(character)) ?? 0;
      const position = row[state] ?? NONE;
      state = position === NONE ? this.#step(state, symbol) : (table[position + symbol] ?? ROOT);
      ended = endedAt[state] ?? NONE;
    }
    reader.at = at;
    reader.state = state;
    return ended;
  }

  /** The next shorter text that ends where another one does, or `NONE`. */
  shorter(ended: number): number {
    return this.#ended[this.#fallback[ended] ?? ROOT] ?? NONE;
  }
}

/** A position in a text, and the state of the automaton there. */
interface Reader {
  at: number;
  state: number;
}
