import type { ListedOverride } from '../../../src/edge/http/shapes.ts';
import { get } from '../api.ts';
import { grouped, time } from '../format.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Descriptor, Empty, Failure, OfDomain, storeFailure, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';

const columns: readonly Column<ListedOverride>[] = [
  {
    name: 'Client',
    cell: ({ domain, entries, wildcard }) => (
      <>
        <a href={linkToClient(domain, entries)}>
          <Descriptor entries={entries} />
        </a>{' '}
        {wildcard && <span class="dim">(wildcard)</span>}
        <OfDomain domain={domain} />
      </>
    ),
  },
  { name: 'Effect', cell: ({ effect }) => grouped(effect) },
  { name: 'Until', cell: ({ until }) => time(Date.parse(until)) },
  { name: 'By', cell: ({ by }) => <Value text={by} /> },
  { name: 'Reason', cell: ({ reason }) => <Value text={reason} whole /> },
];

const MEANING =
  'Overrides are kept there. Those in force go on, but are not listed, and none can be set or removed until it answers.';

/** Overrides of single descriptors. */
export function Overrides() {
  const { data, error } = usePoll(() => get('overrides'), [], 3_000);
  return (
    <section class="panel">
      <h2>Overrides</h2>
      <Failure message={storeFailure(error, MEANING)} />
      {data?.overrides.length === 0 && (
        <Empty title="No override is set.">
          <p>On its page a client is blocked, let in, or given a limit of its own.</p>
        </Empty>
      )}
      {data && data.overrides.length > 0 && (
        <Table rows={data.overrides} columns={columns} keyOf={({ domain, descriptor }) => `${domain} ${descriptor}`} />
      )}
    </section>
  );
}
