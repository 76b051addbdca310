import type { SharedChild } from '../../../src/parts/lab/answers/counters.ts';
import { exact } from '../format.ts';
import { ShareBar } from '../parts/share-bar.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Value } from '../parts/texts.tsx';

/** Children listed at first. */
const LISTED = 12;

/** Table of who uses, borrows and lends of a shared limit in the current second, with the client's own child first. */
export function SharedChildren({ children }: { readonly children: readonly SharedChild[] }) {
  const busiest = children.toSorted((one, other) => rankOf(other) - rankOf(one));
  const [listed, others] = [busiest.slice(0, LISTED), busiest.slice(LISTED)];
  const scale = Math.max(...children.map(({ reserve, used, ceiling = 0 }) => Math.max(reserve, used, ceiling)), 1);
  return (
    <section class="shared-limit" aria-label="Shares">
      <p class="dim">
        Those that rules name, {now(children)}. A bar shows the reservation and the used part of it, followed by what is
        borrowed; a line marks the ceiling.
      </p>
      <ChildTable children={listed} scale={scale} />
      {others.length > 0 && (
        <details>
          <summary>{others.length === 1 ? 'One more' : `${exact(others.length)} more`}</summary>
          <ChildTable children={others} scale={scale} />
        </details>
      )}
    </section>
  );
}

const now = ([first]: readonly SharedChild[]): string =>
  first?.slots ? 'now' : `in this ${first?.window ?? 'second'}`;

/** The client's own first, then those that use or lend most. */
const rankOf = ({ own, used, lends }: SharedChild): number => (own ? Number.MAX_VALUE : Math.max(used, lends));

interface ChildTableProps {
  readonly children: readonly SharedChild[];
  /** Hits of the longest bar. */
  readonly scale: number;
}

function ChildTable({ children, scale }: ChildTableProps) {
  const number = (name: string, of: (child: SharedChild) => number): Column<SharedChild> => ({
    name,
    class: 'number',
    tone: (child) => (of(child) === 0 ? 'dim' : undefined),
    cell: (child) => exact(of(child)),
  });
  const columns: readonly Column<SharedChild>[] = [
    {
      name: 'Share',
      isHead: true,
      cell: ({ key, value, own, idle }) => (
        <>
          <span class="dim">{key}</span> <Value text={value} /> {own && <span class="dim">(this one)</span>}
          {idle && <span class="dim">idle</span>}
        </>
      ),
    },
    { name: 'Reserved, used', class: 'share-bar', cell: (child) => <ChildBar child={child} scale={scale} /> },
    number('Weight', ({ weight }) => weight),
    number('Reserved', ({ reserve }) => reserve),
    number('Used', ({ used }) => used),
    number('Borrowed', ({ borrowed }) => borrowed),
    number('Lends', ({ lends }) => lends),
  ];
  return <Table rows={children} columns={columns} keyOf={({ key, value }) => `${key} ${value}`} />;
}

/** The reservation with what is used of it, then what is borrowed; the ceiling. */
function ChildBar({ child, scale }: { readonly child: SharedChild; readonly scale: number }) {
  const { key, value, reserve, used, borrowed, lends, ceiling } = child;
  const own = Math.max(used - borrowed, 0);
  const text = `${key} ${value}: ${exact(used)} used, ${exact(borrowed)} of it borrowed; lends ${exact(lends)} of ${exact(reserve)} reserved`;
  const more = { kind: 'borrowed', from: Math.max(own, reserve), hits: borrowed } as const;
  return <ShareBar scale={scale} room={reserve} used={own} more={more} line={ceiling} text={text} />;
}
