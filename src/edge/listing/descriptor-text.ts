import { printable } from '../../base/printable.ts';
import type { Entry } from '../../engine/rules/match/match.ts';

/** A descriptor on the command line is not `key=value[,key=value…]`. */
export class InvalidDescriptor extends Error {
  override readonly name = 'InvalidDescriptor';
}

/** The format of a descriptor, for help. */
export const DESCRIPTOR = String.raw`key=value[,key=value…]; \, is a comma in a value, \\ a backslash`;

/**
 * Parses a descriptor as written by hand. `user=alice,path=/login`: two entries. A value ends at the next comma and may
 * contain further `=`. `\,`, `\=` and `\\` stand for the character itself, `\x1b` and `\u202e` for one by its number.
 *
 * @throws InvalidDescriptor
 */
export function parseDescriptor(written: string): readonly Entry[] {
  return splitPieces(written).map(({ key, value }) => {
    if (value !== undefined && key !== '') return { key, value };
    const hint = bareEntry(written) === undefined ? '' : String.raw`; a comma in a value is written \,`;
    throw new InvalidDescriptor(`a descriptor must be key=value[,key=value…], got '${printable(written)}'${hint}`);
  });
}

/** The first entry after a comma that has no `=`: the comma may be meant as part of a value. */
export const bareEntry = (written: string): string | undefined =>
  splitPieces(written).find(({ value }, at) => at > 0 && value === undefined)?.key;

/**
 * The same for explanations, where an entry without `=` is accepted, with an empty value.
 *
 * @throws InvalidDescriptor  a backslash is followed by anything else
 */
export const parseAnyDescriptor = (written: string): readonly Entry[] =>
  splitPieces(written).map(({ key, value = '' }) => ({ key, value }));

/** A descriptor in the format of `parseDescriptor`, on one line that a terminal can show. */
export const descriptorText = (entries: readonly Entry[]): string =>
  entries.map(({ key, value }) => `${keyText(key)}=${valueText(value)}`).join(',');

/** An entry's key in that format. */
export const keyText = (key: string): string => printable(key.replace(/[\\,=]/g, '\\$&'));

/** An entry's value in that format. */
export const valueText = (value: string): string => printable(value.replace(/[\\,]/g, '\\$&'));

const ESCAPE = /\\(?:([\\,=])|x([\da-f]{2})|u([\da-f]{4}))/iy;

function splitPieces(written: string): readonly { readonly key: string; readonly value: string | undefined }[] {
  const pieces: { key: string; value: string | undefined }[] = [];
  let key: string | undefined;
  let text = '';
  const end = (): void => {
    pieces.push(key === undefined ? { key: text, value: undefined } : { key, value: text });
    key = undefined;
    text = '';
  };
  for (let at = 0; at < written.length; ) {
    const character = written.charAt(at);
    const read = character === '\\' ? escapeAt(written, at) : { text: character, length: 1 };
    at += read.length;
    if (character === ',') end();
    else if (character === '=' && key === undefined) [key, text] = [text, ''];
    else text += read.text;
  }
  end();
  return pieces;
}

function escapeAt(written: string, at: number): { readonly text: string; readonly length: number } {
  ESCAPE.lastIndex = at;
  const [whole, itself, octet = '', unit = octet] = ESCAPE.exec(written) ?? [];
  if (whole !== undefined)
    return { text: itself ?? String.fromCharCode(Number.parseInt(unit, 16)), length: whole.length };
  const found = printable(written.slice(at, at + 2));
  throw new InvalidDescriptor(
    String.raw`a backslash in a descriptor must be written \\, or begin \, \= \x1b or \u202e, got '${found}'`,
  );
}
