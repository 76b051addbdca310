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

/** Runs of characters that are read at once. */
const runs = {
  space: /[ \t\r\n]*/y,
  line: /[^\r\n]*/y,
  /** Of a plain scalar: a `:` or `#` may end it. */
  plain: /[^\r\n:#]*/y,
  plainInFlow: /[^\r\n:#,[\]{}]*/y,
  '"': /[^"\\\r\n]*/y,
  "'": /[^'\r\n]*/y,
  /** An anchor, an alias, or a tag. */
  property: /!<[^ \t\r\n>]*>?|![^ \t\r\n]*|[&*][^ \t\r\n,[\]{}]*/y,
  propertyInFlow: /!<[^ \t\r\n>]*>?|[&*!][^ \t\r\n,[\]{}]*/y,
} as const;

const DOCUMENT_MARK = /(?:---|\.\.\.)(?![^ \t\r\n])/y;

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
  /** The text up to `#copied`, with all edits. */
  readonly #pieces: string[] = [];
  #copied = 0;
  #inserted = 0;

  constructor(text: string) {
    this.#text = text;
    if (text.startsWith('\ufeff')) this.#at = this.#lineStart = 1;
  }

  indent(): string | undefined {
    while (this.#at < this.#text.length) {
      if (this.#inserted > 3 * this.#text.length + SPARE_CHARACTERS) return undefined;
      this.#readBlock();
    }
    return this.#pieces.join('') + this.#text.slice(this.#copied);
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
    if (this.#isComment()) this.#skip('line');
    else if (this.#isDocumentMark(this.#at)) {
      this.#at += 3;
      this.#parent = -1;
    } else if ('-?:'.includes(char) && isSpace(this.#char(1))) this.#indicator(char);
    else this.#readNode(char);
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
    if ('&!*'.includes(char)) this.#skip('property');
    else if (char === '"' || char === "'") this.#readQuoted(char);
    else if (char === '[' || char === '{') this.#readFlow();
    else if (char === '|' || char === '>') this.#readLines('line');
    else this.#readLines('plain');
  }

  /** Reads a block scalar, or a plain one to its end or to the `:` that makes it a key. */
  #readLines(run: 'line' | 'plain'): void {
    for (;;) {
      this.#skipText(run);
      const end = this.#at;
      this.#skip('space');
      const space = this.#text.slice(end, this.#at);
      const start = end + Math.max(space.lastIndexOf('\n'), space.lastIndexOf('\r')) + 1;
      const isContinued = start > end && this.#at < this.#text.length && this.#spacesAt(start) > this.#parent;
      if (isContinued && !(run === 'plain' && this.#char() === '#') && !this.#isDocumentMark(this.#at)) continue;
      this.#at = end;
      return;
    }
  }

  /** Reads to the end of the line, or to what ends a plain scalar before. */
  #skipText(run: 'line' | 'plain' | 'plainInFlow'): void {
    this.#skip(run);
    while (this.#isInPlain(run === 'plainInFlow')) {
      this.#at++;
      this.#skip(run);
    }
  }

  /** Whether a `#` begins no comment, or a `:` ends no key. */
  #isInPlain(isInFlow: boolean): boolean {
    const [char, next] = [this.#char(), this.#char(1)];
    return char === ':' ? !isSpace(next) && !(isInFlow && isFlowMark(next)) : char === '#' && !this.#isComment();
  }

  #readQuoted(quote: '"' | "'"): void {
    this.#at++;
    while (this.#at < this.#text.length) {
      this.#skip(quote);
      const [char, next] = [this.#char(), this.#char(1)];
      if (isBreak(char)) this.#lineBreakInside();
      else if (char === '\\' && !isBreak(next)) this.#at += 2;
      else if (char === "'" && next === "'") this.#at += 2;
      else {
        this.#at++;
        if (char === quote) return;
      }
    }
  }

  /** Reads the content of brackets or braces, to the last closing one. */
  #readFlow(): void {
    for (const at of this.#tabs.splice(0)) this.#edit(at, ' ', 1);
    const line = this.#lineStart;
    let depth = 0;
    let beginsNode = true;
    do {
      const char = this.#char();
      if (isBreak(char)) this.#lineBreakInside();
      else if (isBlank(char)) {
        if (char === '\t' && this.#lineStart === line) this.#edit(this.#at, ' ', 1);
        this.#at++;
      } else if (isFlowMark(char)) {
        if (char !== ',') depth += char === '[' || char === '{' ? 1 : -1;
        beginsNode = char !== ']' && char !== '}';
        this.#at++;
      } else if (this.#isComment()) this.#skip('line');
      else beginsNode = this.#readInFlow(char, beginsNode);
    } while (depth > 0 && this.#at < this.#text.length);
  }

  /** @returns  whether a node may begin after it */
  #readInFlow(char: string, beginsNode: boolean): boolean {
    const next = this.#char(1);
    const isKey = char === ':' && (!beginsNode || isSpace(next) || isFlowMark(next));
    if (isKey || (char === '?' && beginsNode && isSpace(next))) {
      this.#at++;
      return true;
    }
    if (beginsNode && '&!*'.includes(char)) {
      this.#skip('propertyInFlow');
      return char !== '*';
    }
    if (beginsNode && (char === '"' || char === "'")) this.#readQuoted(char);
    else this.#skipText('plainInFlow'); // the text on further lines begins no other node
    return false;
  }

  /** A line break inside brackets, braces or quotes: the next line gets the indentation that the block requires. */
  #lineBreakInside(): void {
    this.#lineBreak();
    if (this.#isDocumentMark(this.#at)) return; // invalid, and left invalid
    const missing = this.#parent + 1 - this.#spacesAt(this.#at);
    if (missing > 0) this.#edit(this.#at, ' '.repeat(missing), 0);
  }

  #lineBreak(): void {
    this.#at += this.#char() === '\r' && this.#char(1) === '\n' ? 2 : 1;
    this.#lineStart = this.#at;
    this.#node = undefined;
    this.#tabs = [];
    this.#isIndentation = true;
  }

  /** A `#` after a space. */
  #isComment(): boolean {
    return this.#char() === '#' && (this.#at === this.#lineStart || isSpace(this.#char(-1)));
  }

  /** `---` or `...` at the beginning of a line. */
  #isDocumentMark(at: number): boolean {
    DOCUMENT_MARK.lastIndex = at;
    return (at === this.#lineStart || isBreak(this.#text[at - 1] ?? '')) && DOCUMENT_MARK.test(this.#text);
  }

  #skip(run: keyof typeof runs): void {
    const pattern = runs[run];
    pattern.lastIndex = this.#at;
    if (pattern.test(this.#text)) this.#at = pattern.lastIndex;
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

  /** Replaces characters. Edits are made in ascending order. */
  #edit(at: number, text: string, replaced: number): void {
    this.#pieces.push(this.#text.slice(this.#copied, at), text);
    this.#copied = at + replaced;
    this.#inserted += text.length - replaced;
  }
}
