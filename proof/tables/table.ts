/** A row of a Markdown table. */
export const tableRow = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`;

/** The head of a Markdown table. @param texts  how many columns at the left are text; the others are numbers */
export const tableHead = (columns: readonly string[], texts = 1): string =>
  [columns, columns.map((_, at) => (at < texts ? '---' : '---:'))].map(tableRow).join('\n');

/** A Markdown table. */
export const table = (
  columns: readonly string[],
  texts: number,
  rows: readonly (readonly (string | number)[])[],
): string => [tableHead(columns, texts), ...rows.map(tableRow)].join('\n');
