/** A text and edits to it, in ascending order of position. */
export class EditedText {
  readonly #text: string;
  readonly #pieces: string[] = [];
  /** The pieces hold the text up to here. */
  #copied = 0;
  #inserted = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** The number of characters inserted so far. */
  get inserted(): number {
    return this.#inserted;
  }

  insert(at: number, text: string): void {
    this.#pieces.push(this.#text.slice(this.#copied, at), text);
    this.#copied = at;
    this.#inserted += text.length;
  }

  /** Replaces one character. */
  replace(at: number, char: string): void {
    this.#pieces.push(this.#text.slice(this.#copied, at), char);
    this.#copied = at + 1;
  }

  toString(): string {
    return this.#pieces.join('') + this.#text.slice(this.#copied);
  }
}
