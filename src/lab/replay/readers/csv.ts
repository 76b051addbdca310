import { parse } from 'csv-parse/sync';
import { isTimeField, type LogFields } from './fields.ts';
import type { LineParser, ParsedLine } from './line-parser.ts';

type Row = readonly string[];

/** A table with a header. Each line is a row: a quoted value cannot contain a line break. */
export function tableParser(): LineParser {
  let table: Table | undefined;
  return {
    parse(lines) {
      if (table) return table.parse(lines);
      const from = lines.findIndex((line) => line !== '');
      const header = lines[from];
      if (header === undefined) return lines.map(() => undefined);
      const delimiter = delimiterOf(header);
      const names = rowOf(header, delimiter);
      if (typeof names === 'string') return lines.map((_, at) => (at === from ? names : undefined));
      table = new Table(
        names.map((name) => name.trim()),
        delimiter,
      );
      return [...lines.slice(0, from + 1).map(() => undefined), ...table.parse(lines.slice(from + 1))];
    },
  };
}

class Table {
  readonly #names: Row;
  readonly #delimiter: string;

  constructor(names: Row, delimiter: string) {
    this.#names = names;
    this.#delimiter = delimiter;
  }

  parse(lines: readonly string[]): readonly ParsedLine[] {
    const rows = lines.includes('') ? undefined : rowsOf(lines, this.#delimiter);
    if (rows) return rows.map((row) => this.#fieldsOf(row));
    return lines.map((line) => (line === '' ? undefined : this.#parseOne(line)));
  }

  #parseOne(line: string): ParsedLine {
    const row = rowOf(line, this.#delimiter);
    return typeof row === 'string' ? row : this.#fieldsOf(row);
  }

  #fieldsOf(row: Row): LogFields | string {
    if (row.length !== this.#names.length) return `expected ${this.#names.length} values, got ${row.length}`;
    const fields: Record<string, string> = {};
    for (let at = 0; at < row.length; at++) fields[this.#names[at] ?? ''] = row[at] ?? '';
    return fields;
  }
}

/** The rows, if all lines are valid; parsing them together is much cheaper than one by one. */
function rowsOf(lines: readonly string[], delimiter: string): readonly Row[] | undefined {
  try {
    const rows = parse(lines.join('\n'), { delimiter, relax_column_count: true });
    return rows.length === lines.length ? rows : undefined;
  } catch {
    return undefined; // one of the lines is invalid: each is then parsed on its own
  }
}

function rowOf(line: string, delimiter: string): Row | string {
  if (!line.includes('"')) return line.split(delimiter);
  try {
    return parse(line, { delimiter, relax_column_count: true })[0] ?? 'no values';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const delimiterOf = (header: string): string =>
  [',', ';', '\t'].toSorted((a, b) => header.split(b).length - header.split(a).length)[0] ?? ',';

/** Whether a line is the header of a table: several names, one of which is a usual name of the time. */
export function isTableHeader(line: string): boolean {
  const names = line.split(delimiterOf(line));
  if (names.length < 2 || !names.every((name) => COLUMN_NAME.test(name))) return false;
  return names.some((name) => isTimeField(name.replaceAll('"', '').trim()));
}

/** A column name, or a part of a quoted one. */
const COLUMN_NAME = /^\s*"?[^\d"=[\]{}][^"=[\]{}]*"?\s*$/;
