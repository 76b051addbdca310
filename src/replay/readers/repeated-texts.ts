import { inOnePiece } from '../../backends/key.ts';

/** Texts in each of two maps. */
const MAX_TEXTS = 2_048;
/** Longer texts are not remembered. */
const MAX_TEXT_LENGTH = 512;

/** What texts are parsed to, of those that came last: a bounded number, in two maps of which the older is dropped. */
export class RepeatedTexts<T extends object> {
  readonly #parse: (text: string) => T | undefined;
  #recent = new Map<string, T>();
  #older = new Map<string, T>();

  /** @param parse  returns the same for the same text; undefined is not remembered */
  constructor(parse: (text: string) => T | undefined) {
    this.#parse = parse;
  }

  of(text: string): T | undefined {
    return this.#recent.get(text) ?? this.#remember(text, this.#older.get(text) ?? this.#parse(text));
  }

  #remember(text: string, value: T | undefined): T | undefined {
    if (value === undefined || text.length > MAX_TEXT_LENGTH) return value;
    if (this.#recent.size >= MAX_TEXTS) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(inOnePiece(text), value); // a part of a line keeps the whole chunk alive
    return value;
  }
}
