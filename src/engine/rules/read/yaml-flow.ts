/**
 * Makes YAML that Go's yaml.v2 accepts valid: inside brackets, braces and quotes, yaml.v2 allows lines with less
 * indentation than the block around them, and tabs as separators. Such lines are indented, and such tabs become blanks;
 * all other text and all line breaks are unchanged.
 *
 * Reads each character once or twice. Invalid YAML remains invalid.
 *
 * @returns undefined  the text would grow beyond four times its length
 */
export function indentFlow(text: string): string | undefined {
  return new FlowIndenter(text).indent();
}

/** The characters that may be inserted in addition to three times the text's length. */
const SPARE_CHARACTERS = 65_536;

const isBreak = (char: string): boolean => char === '\n' || char === '\r';
const isBlank = (char: string): boolean => char === ' ' || char === '\t';
/** A character beyond the end is empty. */
const isSpace = (char: string): boolean => char === '' || isBlank(char) || isBreak(char);
const isFlowMark = (char: string): boolean => char !== '' && ',[]{}'.includes(char);

/** Parses a text just far enough to find the lines that begin inside brackets, braces or quotes. */
class FlowIndenter {
  readonly #text: string;
  #at = 0;
  #lineStart = 0;
  /** Column of the key, `-` or `?` whose value is being read; one less than that of the root if there is none yet. */
  #parent = -1;
  /** Column at which the current node on this line begins, with its anchor or tag; undefined before it. */
  #node: number | undefined;
  /** Tabs since the line's last indicator. They matter if brackets or braces follow. */
  #tabs: number[] = [];
  #isIndentation = true;
  readonly #edited: EditedText;

  constructor(text: string) {
    this.#text = text;
    this.#edited = new EditedText(text);
    if (text.startsWith('\ufeff')) this.#at = this.#lineStart = 1;
  }

  indent(): string | undefined {
    while (this.#at < this.#text.length) {
      if (this.#edited.inserted > 3 * this.#text.length + SPARE_CHARACTERS) return undefined;
      this.#readBlock();
    }
    return this.#edited.toString();
  }

  /** Reads one token outside of brackets, braces and quotes. */
  #readBlock(): void {
    const char = this.#char();
    if (isBreak(char)) return this.#lineBreak();
    if (isBlank(char)) {
      if (char === '\t' && !this.#isIndentation) this.#tabs.push(this.#at);
      this.#at++;
      return;
    }
    this.#isIndentation = false;
    if (char === '#' && this.#isAfterSpace()) this.#skipLine();
    else if (this.#isDocumentMark()) this.#beginDocument();
    else if ('-?:'.includes(char) && isSpace(this.#char(1))) this.#indicator(char);
    else this.#readNode(char);
  }

  #beginDocument(): void {
    this.#at += 3;
    this.#parent = -1;
  }

  /** A `:` after a node makes it the key of what follows. */
  #indicator(char: string): void {
    this.#parent = (char === ':' ? this.#node : undefined) ?? this.#column();
    this.#node = undefined;
    this.#tabs = [];
    this.#at++;
  }

  #readNode(char: string): void {
    this.#node ??= this.#column();
    if (this.#parent < 0) this.#parent = this.#spacesAt(this.#lineStart) - 1;
    if (char === '&' || char === '!') return this.#skipProperty(false);
    if (char === '"' || char === "'") this.#readQuoted(char);
    else if (char === '[' || char === '{') this.#readFlow();
    else if (char === '|' || char === '>') this.#skipBlockScalar();
    else if (char === '*') this.#skipProperty(false);
    else this.#readPlain();
  }

  /** Reads a plain scalar, to the `:` that makes it a key or to its end, which may be on a later line. */
  #readPlain(): void {
    for (;;) {
      while (!isBreak(this.#char()) && this.#char() !== '') {
        if (this.#char() === ':' && isSpace(this.#char(1))) return;
        if (this.#char() === '#' && this.#isAfterSpace()) return;
        this.#at++;
      }
      const [next, column] = this.#nextLine();
      if (column <= this.#parent || this.#text[next] === '#' || this.#isDocumentMark(next - column)) return;
      this.#at = next;
    }
  }

  /**
   * The offset of the first non-blank character on a later line, and the number of blanks before it in its line; -1 if
   * there is none.
   */
  #nextLine(): readonly [at: number, column: number] {
    let at = this.#at;
    let start = -1;
    for (; isSpace(this.#text[at] ?? '') && at < this.#text.length; at++)
      if (isBreak(this.#text[at] ?? '')) start = at + 1;
    if (start < 0 || at === this.#text.length) return [at, -1];
    return [at, this.#spacesAt(start)];
  }

  #skipBlockScalar(): void {
    this.#skipLine();
    while (this.#at < this.#text.length) {
      const [next, column] = this.#nextLine();
      if (column <= this.#parent || this.#isDocumentMark(next - column)) return;
      this.#at = next;
      this.#skipLine();
    }
  }

  #readQuoted(quote: string): void {
    this.#at++;
    while (this.#at < this.#text.length) {
      const char = this.#char();
      if (isBreak(char)) this.#lineBreakInside();
      else if (char === '\\' && quote === '"' && !isBreak(this.#char(1))) this.#at += 2;
      else if (char === quote && quote === "'" && this.#char(1) === quote) this.#at += 2;
      else {
        this.#at++;
        if (char === quote) return;
      }
    }
  }

  /** Reads the content of brackets or braces, to the last closing one. */
  #readFlow(): void {
    for (const at of this.#tabs.splice(0)) this.#edited.replace(at, ' ');
    const line = this.#lineStart;
    let depth = 0;
    let beginsNode = true;
    do {
      const char = this.#char();
      if (isBreak(char)) this.#lineBreakInside();
      else if (isBlank(char)) {
        if (char === '\t' && this.#lineStart === line) this.#edited.replace(this.#at, ' ');
        this.#at++;
      } else if (isFlowMark(char)) {
        if (char !== ',') depth += char === '[' || char === '{' ? 1 : -1;
        beginsNode = char !== ']' && char !== '}';
        this.#at++;
      } else if (char === '#' && this.#isAfterSpace()) this.#skipLine();
      else beginsNode = this.#readInFlow(char, beginsNode);
    } while (depth > 0 && this.#at < this.#text.length);
  }

  /** @returns  whether a node may begin after it */
  #readInFlow(char: string, beginsNode: boolean): boolean {
    const isLast = isSpace(this.#char(1)) || isFlowMark(this.#char(1));
    if ((char === ':' && (!beginsNode || isLast)) || (char === '?' && beginsNode && isSpace(this.#char(1)))) {
      this.#at++;
      return true;
    }
    if (beginsNode && (char === '"' || char === "'")) this.#readQuoted(char);
    else if (beginsNode && (char === '&' || char === '!' || char === '*')) {
      this.#skipProperty(true);
      return char !== '*';
    } else this.#skipPlainInFlow();
    return false;
  }

  /** To the end of the line at most: the text after that begins no other node. */
  #skipPlainInFlow(): void {
    do this.#at++;
    while (!this.#endsPlainInFlow());
  }

  #endsPlainInFlow(): boolean {
    const char = this.#char();
    if (char === '' || isBreak(char) || isFlowMark(char)) return true;
    if (char === ':') return isSpace(this.#char(1)) || isFlowMark(this.#char(1));
    return char === '#' && this.#isAfterSpace();
  }

  #skipProperty(isInFlow: boolean): void {
    const isTag = this.#char() === '!';
    const isVerbatim = isTag && this.#char(1) === '<';
    do {
      if (isVerbatim && this.#char() === '>') break;
      this.#at++;
    } while (!isSpace(this.#char()) && (isVerbatim || (isTag && !isInFlow) || !isFlowMark(this.#char())));
    if (this.#char() === '>') this.#at++;
  }

  /** A line break inside brackets, braces or quotes: the next line gets the indentation that the block requires. */
  #lineBreakInside(): void {
    this.#lineBreak();
    if (this.#isDocumentMark()) return; // invalid, and left invalid
    const missing = this.#parent + 1 - this.#spacesAt(this.#at);
    if (missing > 0) this.#edited.insert(this.#at, ' '.repeat(missing));
  }

  #lineBreak(): void {
    this.#at += this.#char() === '\r' && this.#char(1) === '\n' ? 2 : 1;
    this.#lineStart = this.#at;
    this.#node = undefined;
    this.#tabs = [];
    this.#isIndentation = true;
  }

  #skipLine(): void {
    while (!isBreak(this.#char()) && this.#char() !== '') this.#at++;
  }

  /** `---` or `...` at the beginning of a line. */
  #isDocumentMark(at = this.#at): boolean {
    const mark = this.#text.slice(at, at + 3);
    if ((mark !== '---' && mark !== '...') || !isSpace(this.#text[at + 3] ?? '')) return false;
    return at === this.#lineStart || isBreak(this.#text[at - 1] ?? '');
  }

  #isAfterSpace(): boolean {
    return this.#at === this.#lineStart || isSpace(this.#text[this.#at - 1] ?? '');
  }

  #char(ahead = 0): string {
    return this.#text[this.#at + ahead] ?? '';
  }

  #spacesAt(at: number): number {
    let end = at;
    while (this.#text[end] === ' ') end++;
    return end - at;
  }

  #column(): number {
    return this.#at - this.#lineStart;
  }
}

/** A text and edits to it, in ascending order of position. */
class EditedText {
  readonly #text: string;
  readonly #pieces: string[] = [];
  /** The pieces hold the text up to here. */
  #copied = 0;
  #inserted = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get inserted(): number {
    return this.#inserted;
  }

  insert(at: number, text: string): void {
    this.#pieces.push(this.#text.slice(this.#copied, at), text);
    this.#copied = at;
    this.#inserted += text.length;
  }

  replace(at: number, char: string): void {
    this.#pieces.push(this.#text.slice(this.#copied, at), char);
    this.#copied = at + 1;
  }

  toString(): string {
    return this.#pieces.join('') + this.#text.slice(this.#copied);
  }
}
