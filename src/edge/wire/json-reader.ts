import { isUtf8 } from 'node:buffer';
import { createInterner } from '../../protobuf/interner.ts';

/** The body is no JSON of a RateLimitRequest. The message names the place, the expected value and the actual one. */
export class InvalidJson extends Error {
  override readonly name = 'InvalidJson';
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LETTER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Returned by `#next` at the end of the input. */
const END = -1;

/** Limits for field names (characters) and numbers (octets), far above those of any valid request. */
const MAX_NAME_LENGTH = 64;
const MAX_NUMBER_LENGTH = 64;

/** A number of RFC 8259. */
export const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Error messages quote this many octets of the input. */
const MAX_QUOTE_LENGTH = 100;

/** Characters by their escape; `\u` is handled separately. */
const letters = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const escapes: ReadonlyMap<number | undefined, string> = new Map(
  Object.entries(letters).map(([letter, character]) => [letter.charCodeAt(0), character]),
);

const text = createInterner();
const { imul } = Math;

/**
 * A pull parser: the caller requests each value as the type it expects. It builds no tree, skips no value and does not
 * recurse by itself, so the work is at most one pass over the input, and stops at the first unexpected octet.
 * `JSON.parse` would build the tree before limits apply, and round integers beyond 2^53. Every method throws
 * InvalidJson.
 *
 * @see https://www.rfc-editor.org/rfc/rfc8259
 */
export class JsonReader {
  readonly #bytes: Buffer;
  /** Path of the current value. */
  readonly #path: (string | number)[] = [];
  #at = 0;

  constructor(bytes: Buffer) {
    if (!isUtf8(bytes)) throw new InvalidJson('not JSON: not UTF-8');
    this.#bytes = bytes;
  }

  /** Reads an object: `field` is called with each name, cut if it is too long to match, and must read the value. */
  object(field: (name: string) => void): void {
    if (this.#next() !== OPEN_BRACE) this.mismatch('an object');
    this.#at++;
    if (this.#takes(CLOSE_BRACE)) return;
    do {
      if (this.#next() !== QUOTE) this.#notJson('a field name in double quotes');
      const name = this.#string(MAX_NAME_LENGTH);
      if (name !== undefined && !this.#takes(COLON)) this.#notJson("':'");
      field(name ?? this.#quote());
    } while (this.#takes(COMMA));
    if (!this.#takes(CLOSE_BRACE)) this.#notJson("',' or '}'");
  }

  /** @param what  names the items in the error for more than `maximum` of them */
  list<T>(maximum: number, what: string, item: () => T): T[] {
    if (this.#next() !== OPEN_BRACKET) this.mismatch('a list');
    this.#at++;
    const items: T[] = [];
    if (this.#takes(CLOSE_BRACKET)) return items;
    do {
      if (items.length === maximum) this.fail(`must have at most ${maximum} ${what}`);
      items.push(this.within(items.length, item));
    } while (this.#takes(COMMA));
    if (!this.#takes(CLOSE_BRACKET)) this.#notJson("',' or ']'");
    return items;
  }

  /** A string of at most `maximum` UTF-16 code units. */
  string(maximum: number): string {
    if (this.#next() !== QUOTE) this.mismatch('a string');
    return this.#string(maximum) ?? this.fail(`must have at most ${maximum} characters`);
  }

  /** The next value if it is a short string; otherwise undefined, and nothing is read. */
  shortString(): string | undefined {
    return this.#next() === QUOTE ? this.#string(MAX_NAME_LENGTH) : undefined;
  }

  /** The next value as written if it is a short number; otherwise undefined, and nothing is read. */
  number(): string | undefined {
    const first = this.#next();
    if (first !== MINUS && !(first >= 0x30 && first <= 0x39)) return undefined;
    const from = this.#at;
    let to = from;
    while (to - from <= MAX_NUMBER_LENGTH && isOfNumber(this.#bytes[to])) to++;
    if (to - from > MAX_NUMBER_LENGTH) return undefined;
    const written = this.#bytes.toString('latin1', from, to);
    if (!JSON_NUMBER.test(written)) this.#notJson('a number');
    this.#at = to;
    return written;
  }

  /** Consumes this word if it is next. */
  takes(word: 'true' | 'false' | 'null'): boolean {
    if (this.#next() !== word.charCodeAt(0)) return false;
    const to = this.#at + word.length;
    if (this.#bytes.toString('latin1', this.#at, to) !== word) return false;
    this.#at = to;
    return true;
  }

  /** Checks that only white space follows. */
  end(): void {
    if (this.#next() !== END) this.#notJson('the end');
  }

  /** Reads a part of a value; errors in it name the part. */
  within<T>(part: string | number, read: () => T): T {
    this.#path.push(part);
    const value = read();
    this.#path.pop();
    return value;
  }

  /** Position of the next value. */
  get position(): number {
    this.#next();
    return this.#at;
  }

  /** Throws that the value at `position` is not what was expected. */
  mismatch(expected: string, position = this.position): never {
    this.#at = position;
    const first = this.#next();
    const got = first === OPEN_BRACE ? 'an object' : first === OPEN_BRACKET ? 'a list' : this.#quote();
    return this.fail(`must be ${expected}, got ${got}`);
  }

  /** Throws an error that names the current value. */
  fail(problem: string, separator = ' '): never {
    const path = this.#path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
    throw new InvalidJson(`${path === '' ? 'the body' : path.slice(1)}${separator}${problem}`);
  }

  /** The first octet of the next token. */
  #next(): number {
    const bytes = this.#bytes;
    let at = this.#at;
    let byte = bytes[at];
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++at];
    this.#at = at;
    return byte ?? END;
  }

  #takes(token: number): boolean {
    if (this.#next() !== token) return false;
    this.#at++;
    return true;
  }

  /** Reads the string at this position; with more than `maximum` characters, undefined, and nothing is read. */
  #string(maximum: number): string | undefined {
    const bytes = this.#bytes;
    let parts: string[] | undefined; // parts that end with an escape
    let from = this.#at + 1; // start of the part that is not in `parts`
    let length = 0;
    let hash = 0;
    let seen = 0;
    for (let at = from; at < bytes.length; at++) {
      const byte = bytes[at] as number; // within the text
      if (byte === QUOTE) {
        const last = seen < 0x80 && !parts ? text(bytes, from, at, hash) : bytes.toString('utf8', from, at);
        const value = parts ? this.#join(parts, last) : last;
        this.#at = at + 1;
        return value;
      }
      if (byte < 0x20) this.#notJson('no control character in a string', at);
      if (byte === BACKSLASH) {
        parts ??= [];
        if (at > from) parts.push(bytes.toString('utf8', from, at));
        parts.push(this.#escape(at));
        at += bytes[at + 1] === LETTER_U ? 5 : 1;
        from = at + 1;
        length++;
      } else {
        length += utf16Units(byte);
        seen |= byte;
        hash = (imul(hash, 31) + byte) | 0;
      }
      if (length > maximum) return undefined;
    }
    return this.#notJson("'\"' at the end of a string", bytes.length);
  }

  /** Only escapes can produce lone surrogates. */
  #join(parts: readonly string[], last: string): string {
    const value = parts.join('') + last;
    return /\p{Surrogate}/u.test(value) ? this.mismatch('text without lone surrogates') : value;
  }

  /** The character of the escape at this position. */
  #escape(at: number): string {
    const bytes = this.#bytes;
    const plain = escapes.get(bytes[at + 1]);
    if (plain !== undefined) return plain;
    if (bytes[at + 1] !== LETTER_U) return this.#notJson('a JSON escape', at);
    let unit = 0;
    for (let digit = at + 2; digit < at + 6; digit++) unit = unit * 16 + hexDigit(bytes[digit]);
    return Number.isNaN(unit) ? this.#notJson('a JSON escape', at) : String.fromCharCode(unit);
  }

  /** The beginning of the next value as written; it is neither object nor list. */
  #quote(): string {
    const written = this.#bytes.toString('utf8', this.#at, this.#at + MAX_QUOTE_LENGTH);
    const [quote] = /^("(?:[^"\\]|\\.)*"?|[-\d][-+.eE\d]*|true|false|null)/s.exec(written) ?? [];
    return quote ?? this.#notJson('a value');
  }

  #notJson(expected: string, at = this.position): never {
    const [character] = this.#bytes.toString('utf8', at, at + 4);
    const got = character === undefined ? 'the end' : `'${character}'`;
    throw new InvalidJson(`not JSON: expected ${expected} at octet ${at}, got ${got}`);
  }
}

const isOfNumber = (byte: number | undefined): boolean =>
  byte !== undefined &&
  ((byte >= 0x30 && byte <= 0x39) || byte === MINUS || '+.eE'.includes(String.fromCharCode(byte)));

/** UTF-16 code units of a character, counted at its first UTF-8 octet; 0 at continuation octets. */
const utf16Units = (byte: number): number => ((byte & 0xc0) === 0x80 ? 0 : byte >= 0xf0 ? 2 : 1);

/** The value of a hexadecimal digit, or NaN. */
function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20; // in lower case
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.NaN;
}
