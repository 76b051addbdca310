import type { RefusedDescriptor } from '../../../src/parts/refusals/answers.ts';
import { get } from '../api.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, Time } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { type Pair, pairsParam } from '../route.ts';

const MAX_SHOWN = 20;

const columns: readonly Column<{ readonly atMs: number; readonly one: RefusedDescriptor }>[] = [
  { name: 'Time', cell: ({ atMs }) => <Time atMs={atMs} /> },
  { name: 'Limit', cell: ({ one }) => one.limit },
  { name: 'Why', cell: ({ one }) => <code class="arithmetic">{one.arithmetic}</code> },
];

/** The kept refusals of one client. */
export function LastRefusals({ domain, entries }: { readonly domain: string; readonly entries: readonly Pair[] }) {
  const { data, error } = usePoll(() => get('refusals', { domain, count: '1000' }), [domain], 2_000);
  const name = pairsParam(entries);
  const own = (data?.refusals ?? [])
    .flatMap(({ atMs, descriptors }) => descriptors.map((one) => ({ atMs, one })))
    .filter(({ one }) => pairsParam(one.entries) === name && one.code === 'OVER_LIMIT')
    .slice(0, MAX_SHOWN);
  return (
    <section class="panel">
      <h2>Last refusals</h2>
      <Failure message={error?.message} />
      {data && own.length === 0 && <Empty title="No kept refusal is for this client." />}
      {own.length > 0 && <Table rows={own} columns={columns} keyOf={({ atMs }, at) => `${atMs} ${at}`} />}
    </section>
  );
}
