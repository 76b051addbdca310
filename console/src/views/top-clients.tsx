import type { ShownKey, ShownTop } from '../../../src/parts/lab/sketches/shapes.ts';
import { get } from '../api.ts';
import { exact, tenths } from '../format.ts';
import { Choice } from '../parts/choice.tsx';
import { ClientLink, ClientsNotCounted } from '../parts/client-link.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Bounds, Empty, Estimates, Failure } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { param, replaceParams } from '../route.ts';
import { seesValues, session } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

const lists = {
  refusals: { text: 'Most refused', empty: 'No refusal in the last minute.' },
  hits: { text: 'Most hits', empty: 'No hit in the last minute.' },
  shadowed: {
    text: 'Most in shadow or quota mode',
    empty: 'Shadow and quota mode let no hit pass in the last minute.',
  },
} as const;
const kinds = ['refusals', 'hits', 'shadowed'] as const;

const SHOWN = 20;
/** Clients that are read, to find those of one list in another. */
const READ = 200;

/** The clients of a rule, with the hits of each and those that were refused. */
export function TopClients({ path }: { readonly path: string }) {
  const by = kinds.find((kind) => kind === param('by')) ?? 'refusals';
  const inputs = seesValues.value ? [path] : undefined;
  const read = (kind: string) => () => get('top', { by: kind, rule: path, count: String(READ) });
  const polled = {
    refusals: usePoll(read('refusals'), inputs, 2_000),
    hits: usePoll(read('hits'), inputs, 2_000),
    shadowed: usePoll(read('shadowed'), by === 'shadowed' ? inputs : undefined, 2_000),
  };
  const { data, error } = polled[by];
  const top = data?.rules[0];
  const other = polled[by === 'hits' ? 'refusals' : 'hits'].data?.rules[0];
  return (
    <section class="panel">
      <div class="row">
        <h2>Top clients, last minute</h2>
        <Choice
          of="Clients by"
          names={kinds}
          texts={lists}
          chosen={by}
          onChoose={(kind) => replaceParams({ by: kind })}
        />
      </div>
      {!seesValues.value && <SignInNeeded what="This list" />}
      {!session.value?.countsClients && <ClientsNotCounted />}
      <Failure message={error?.message} />
      {session.value?.countsClients && data && !top && <Empty title={lists[by].empty} />}
      {top && <Clients top={top} other={other} path={path} by={by} />}
    </section>
  );
}

const totals = { refusals: 'hits refused', hits: 'hits', shadowed: 'hits let pass' } as const;

const exactOrNone = (hits: number | undefined): string => (hits === undefined ? '–' : exact(hits));

interface ClientsProps {
  readonly top: ShownTop;
  /** The list by hits, for that of refusals; else that by refusals. */
  readonly other: ShownTop | undefined;
  readonly path: string;
  readonly by: keyof typeof lists;
}

function Clients({ top, other, path, by }: ClientsProps) {
  const found = new Map(other?.keys.map((key) => [key.descriptor, key.hits]));
  const isByHits = by === 'hits';
  const hitsOf = (key: ShownKey) => (isByHits ? key.hits : found.get(key.descriptor));
  const affectedOf = (key: ShownKey) => (isByHits ? (found.get(key.descriptor) ?? 0) : key.hits);
  const bounds = (key: ShownKey) => <Bounds tooHighBy={key.atMostTooHighBy} tooLowBy={key.atMostTooLowBy ?? 0} />;
  const columns: readonly Column<ShownKey>[] = [
    { name: 'Client', cell: (key) => <ClientLink rule={path} {...key} /> },
    {
      name: 'Hits',
      class: 'number',
      cell: (key) => (
        <>
          {exactOrNone(hitsOf(key))}
          {isByHits && bounds(key)}
        </>
      ),
    },
    {
      name: by === 'shadowed' ? 'Let pass' : 'Refused',
      class: 'number',
      cell: (key) => (
        <>
          {exact(affectedOf(key))}
          {!isByHits && bounds(key)}
        </>
      ),
    },
    {
      name: 'Share',
      class: 'number',
      cell(key) {
        const hits = hitsOf(key);
        return hits ? tenths(Math.min(affectedOf(key) / hits, 1)) : '–';
      },
    },
  ];
  return (
    <>
      <Estimates oneIn={top.countedOneIn} confidence={top.confidence} />
      <Table rows={top.keys.slice(0, SHOWN)} columns={columns} keyOf={({ descriptor }) => descriptor} />
      <p class="dim">
        {exact(top.total)} {totals[by]} in the last minute. An unlisted client had at most {exact(top.unlistedAtMost)}
        {top.keys.length > SHOWN && ', or fewer than those listed'}.
      </p>
    </>
  );
}
