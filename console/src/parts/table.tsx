import type { ComponentChildren } from 'preact';

/** A column of a table, and its cell in each row. */
export interface Column<T> {
  /** Empty: links or buttons, whose heading is only for screen readers. */
  readonly name: string;
  /** The name beside the value on narrow screens; default: that of the column. */
  readonly label?: string;
  /** Follows the name in the heading. */
  readonly note?: ComponentChildren;
  readonly class?: 'number' | 'share-bar' | 'limit';
  /** Cells name their rows. */
  readonly isHead?: boolean;
  /** A further class of a cell. */
  tone?(row: T): string | undefined;
  cell(row: T): ComponentChildren;
}

interface TableProps<T> {
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  readonly keyOf: (row: T, at: number) => string | number;
  readonly class?: string;
}

export function Table<T>({ rows, columns, keyOf, class: more }: TableProps<T>) {
  return (
    <table class={joined('wide', more)}>
      <thead>
        <tr>
          {columns.map(({ name, note, class: kind }) => (
            <th key={name} scope="col" class={kind}>
              {name === '' ? <span class="hidden">Actions</span> : name}
              {note}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={keyOf(row, at)}>
            {columns.map((column, place) => (
              <Cell key={column.name} row={row} column={column} isFirst={place === 0} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface CellProps<T> {
  readonly row: T;
  readonly column: Column<T>;
  readonly isFirst: boolean;
}

function Cell<T>({ row, column, isFirst }: CellProps<T>) {
  const { name, label = name, isHead, class: kind, tone } = column;
  if (isHead) return <th scope="row">{column.cell(row)}</th>;
  const isLabelled = !isFirst && name !== '' && kind !== 'share-bar';
  return (
    <td class={joined(name === '' ? 'actions' : kind, tone?.(row))} data-label={isLabelled ? label : undefined}>
      {column.cell(row)}
    </td>
  );
}

const joined = (...classes: readonly (string | undefined)[]): string | undefined =>
  classes.filter(Boolean).join(' ') || undefined;
