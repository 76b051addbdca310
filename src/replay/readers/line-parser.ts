import type { LogFields } from './fields.ts';

/** The fields of a line; a text: its error; undefined: the line is not a request. */
export type ParsedLine = LogFields | string | undefined;

/** Reads lines one batch after the other, from the first of a file on. */
export interface LineParser {
  /** One a line. */
  parse(lines: readonly string[]): readonly ParsedLine[];
}
