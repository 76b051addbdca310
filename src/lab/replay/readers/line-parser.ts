import type { LogFields } from './fields.ts';

/** The fields of a line; a text: its error; undefined: the line is not a request. */
export type ParsedLine = LogFields | string | undefined;

/** Parses the lines of a file in batches, from the first line on. */
export interface LineParser {
  /** One result per line. */
  parse(lines: readonly string[]): readonly ParsedLine[];
}
