/** Characters that a terminal interprets instead of showing, that change the direction of text, or that end a line. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** Escapes untrusted text for one line of a terminal or log, as in `\x1b` and `\u202e`. */
export const printable = (text: string): string => text.replace(UNPRINTABLE, escaped);

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`;
}

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');

/** Escapes a text of several lines. */
export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n');

/** Formats a value as JSON, with such characters escaped. @param indent  spaces; 0 for a single line */
export const printableJson = (value: object | string, indent = 2): string =>
  JSON.stringify(value, undefined, indent)
    .split('\n')
    .map((line) => line.replace(UNPRINTABLE, (character) => `\\u${hex(character.charCodeAt(0), 4)}`))
    .join('\n');
