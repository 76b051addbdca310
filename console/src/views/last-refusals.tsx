import type { RefusedDescriptor } from '../../../src/parts/refusals/answers.ts';
import { get } from '../api.ts';
import { grouped } from '../format.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, Time } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import type { Pair } from '../route.ts';

const MAX_SHOWN = 20;

const columns: readonly Column<{ readonly atMs: number; readonly one: RefusedDescriptor }>[] = [
  { name: 'Time', cell: ({ atMs }) => <Time atMs={atMs} /> },
  { name: 'Limit', cell: ({ one: { limit = '' } }) => grouped(limit) },
  { name: 'Why', cell: ({ one }) => <code class="arithmetic">{grouped(one.arithmetic ?? '')}</code> },
];

interface LastRefusalsProps {
  readonly domain: string;
  /** Those of a request, or of its counter: without ids of requests. */
  readonly entries: readonly Pair[];
  readonly rule: string | undefined;
}

/** The kept refusals of one client. */
export function LastRefusals({ domain, entries, rule }: LastRefusalsProps) {
  const { data, error } = usePoll(() => get('refusals', { domain, count: '1000' }), [domain], 2_000);
  const isOwn = ({ key, value }: Pair): boolean => entries.some((one) => one.key === key && one.value === value);
  const own = (data?.refusals ?? [])
    .flatMap(({ atMs, descriptors }) => descriptors.map((one) => ({ atMs, one })))
    .filter(({ one }) => one.rule === rule && one.code === 'OVER_LIMIT' && one.entries.every(isOwn))
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
