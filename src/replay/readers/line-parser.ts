import type { LogFields } from './fields.ts';

/** The fields of a line, what is wrong with it, or undefined where it is no request. */
export type ParsedLine = LogFields | string | undefined;

/** Reads lines one batch after the other, from the first of a file on. */
export interface LineParser {
  /** One a line. */
  parse(lines: readonly string[]): readonly ParsedLine[];
}
