import type { SampledRefusal } from '../../../src/parts/refusals/answers.ts';
import { get } from '../api.ts';
import { exact, grouped } from '../format.ts';
import { rules } from '../live.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Descriptor, Empty, Failure, OfDomain, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo } from '../route.ts';

/** The kept refusals of the request with this id. */
export function RefusedRequest({ id }: { readonly id: string }) {
  const { data, error } = usePoll(() => get('refusals', { request: id }), [id], 3_000);
  return (
    <section class="panel">
      <h2>Refused request</h2>
      <Failure message={error?.message} />
      {data?.refusals.length === 0 && (
        <Empty title="No kept refusal has this id.">
          <p>
            The id is the value of the entry with <code>not_counted: trace</code>.{' '}
            {data.dropped > 0 && <>{exact(data.dropped)} refusals were not kept.</>}
          </p>
        </Empty>
      )}
      {data && data.refusals.length > 0 && (
        <Table
          rows={data.refusals.flatMap((refusal) => refusal.descriptors.map((one) => ({ refusal, one })))}
          columns={columns}
          keyOf={({ refusal }, at) => `${refusal.atMs} ${at}`}
        />
      )}
    </section>
  );
}

interface Refused {
  readonly refusal: SampledRefusal;
  readonly one: SampledRefusal['descriptors'][number];
}

const columns: readonly Column<Refused>[] = [
  {
    name: 'Client',
    cell: ({ refusal: { domain }, one: { entries } }) => (
      <>
        {entries.length > 0 ? (
          <a href={linkToClient(domain, entries)}>
            <Descriptor entries={entries} />
          </a>
        ) : (
          <span class="dim">the request id</span>
        )}
        <OfDomain domain={domain} />
      </>
    ),
  },
  {
    name: 'Rule',
    cell: ({ one: { rule, limit } }) => (
      <>
        {rule !== undefined && <RuleLink path={rule} />}
        {limit !== undefined && <div class="dim">{grouped(limit)}</div>}
      </>
    ),
  },
  { name: 'Answer', cell: ({ one: { code, outcome } }) => code ?? outcome.replaceAll('_', ' ') },
  {
    name: 'Why',
    cell: ({ one: { arithmetic } }) =>
      arithmetic !== undefined && <code class="arithmetic">{grouped(arithmetic)}</code>,
  },
  { name: 'Time', cell: ({ refusal }) => <Time atMs={refusal.atMs} /> },
];

/** The rule's path, as a link if the rule still exists. */
function RuleLink({ path }: { readonly path: string }) {
  const isKnown = rules.value?.rules.some((one) => one.path === path) ?? false;
  return isKnown ? <a href={linkTo('rule', { path })}>{path}</a> : <Value text={path} />;
}
