/** A text and changes to it, each behind the one before. */
export class EditedText {
  readonly #text: string;
  readonly #pieces: string[] = [];
  /** Up to here the text is in the pieces. */
  #copied = 0;
  #inserted = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Characters by which it is longer than the text was. */
  get inserted(): number {
    return this.#inserted;
  }

  insert(at: number, text: string): void {
    this.#pieces.push(this.#text.slice(this.#copied, at), text);
    this.#copied = at;
    this.#inserted += text.length;
  }

  /** Puts another character in the place of one. */
  replace(at: number, char: string): void {
    this.#pieces.push(this.#text.slice(this.#copied, at), char);
    this.#copied = at + 1;
  }

  toString(): string {
    return this.#pieces.join('') + this.#text.slice(this.#copied);
  }
}
