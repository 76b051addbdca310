import { inOnePiece } from '../../../engine/backends/key.ts';

/** The most texts in each of the two maps. */
const MAX_TEXTS = 2_048;
/** Longer texts are not cached. */
const MAX_TEXT_LENGTH = 512;

/**
 * Caches the parsed values of recent texts in two maps of bounded size; when the newer is full, the older is dropped.
 */
export class RepeatedTexts<T extends object> {
  readonly #parse: (text: string) => T | undefined;
  #recent = new Map<string, T>();
  #older = new Map<string, T>();

  /** @param parse  must return the same for the same text; undefined is not cached */
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
    this.#recent.set(inOnePiece(text), value); // a slice of a line would keep the whole chunk alive
    return value;
  }
}
