import type { ShownKey } from '../../../src/parts/lab/sketches/shapes.ts';
import { get } from '../api.ts';
import { count, exact, limitText, tenths } from '../format.ts';
import { rules, snapshot } from '../live.ts';
import { Choice } from '../parts/choice.tsx';
import { ClientLink, ClientsNotCounted } from '../parts/client-link.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Bounds, Empty, Failure, RuleLink } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { param, replaceParams } from '../route.ts';
import { session } from '../session.ts';

/** Clients of each rule that are read, and those that are listed. */
const READ = '200';
const SHOWN = 20;
const POLL_MS = 2_000;

const orders = { refused: { text: 'Most refused' }, busy: { text: 'Busiest' } } as const;
const orderNames = ['refused', 'busy'] as const;

interface Row extends Pick<ShownKey, 'descriptor' | 'entries' | 'cut' | 'atMostTooHighBy'> {
  readonly rule: string;
  readonly hits: number;
  readonly refused: number;
}

/** The busiest and the most refused clients of the last minute. */
export function Clients() {
  const query = (param('q') ?? '').toLowerCase();
  const order = orderNames.find((name) => name === param('by')) ?? 'refused';
  const hits = usePoll(() => get('top', { by: 'hits', count: READ }), [], POLL_MS);
  const refusals = usePoll(() => get('top', { by: 'refusals', count: READ }), [], POLL_MS);
  const found = rowsOf(hits.data?.rules ?? [], refusals.data?.rules ?? []).filter(({ descriptor, rule }) =>
    `${descriptor} ${rule}`.toLowerCase().includes(query),
  );
  const sorted = found.toSorted(
    (one, other) => (order === 'refused' ? other.refused - one.refused : 0) || other.hits - one.hits,
  );
  return (
    <section class="panel">
      <div class="row">
        <h2>Clients, last minute</h2>
        <Choice
          of="Order"
          names={orderNames}
          texts={orders}
          chosen={order}
          onChoose={(name) => replaceParams({ by: name === 'refused' ? undefined : name })}
        />
      </div>
      {!session.value?.countsClients && <ClientsNotCounted />}
      <Failure message={hits.error?.message ?? refusals.error?.message} />
      <label class="field">
        Search
        <input
          type="search"
          value={query}
          placeholder="user=alice, or a rule"
          onInput={({ currentTarget }) => replaceParams({ q: currentTarget.value })}
        />
      </label>
      {hits.data && sorted.length === 0 && (
        <Empty
          title={
            query === '' ? 'No client was counted in the last minute.' : 'No client of the last minute has this text.'
          }
        >
          <p>Others are found by their descriptor, below.</p>
        </Empty>
      )}
      {sorted.length > 0 && (
        <Table
          rows={sorted.slice(0, SHOWN)}
          columns={columns}
          keyOf={({ rule, descriptor }) => `${rule} ${descriptor}`}
        />
      )}
      {sorted.length > SHOWN && <p class="dim">{exact(sorted.length - SHOWN)} more: search for them.</p>}
    </section>
  );
}

type Tops = readonly { readonly rule: string; readonly keys: readonly ShownKey[] }[];

/** Clients by their hits, with those of them that were refused; a client may be in one of the lists only. */
function rowsOf(hits: Tops, refusals: Tops): readonly Row[] {
  const rows = new Map<string, Row>();
  for (const [kind, tops] of [
    ['hits', hits],
    ['refused', refusals],
  ] as const)
    for (const { rule, keys } of tops)
      for (const key of keys) {
        const id = `${key.rule ?? rule} ${key.descriptor}`;
        const known = rows.get(id) ?? { ...key, rule: key.rule ?? rule, hits: 0, refused: 0 };
        rows.set(id, { ...known, [kind]: key.hits });
      }
  return [...rows.values()];
}

const columns: readonly Column<Row>[] = [
  { name: 'Client', cell: (row) => <ClientLink {...row} /> },
  { name: 'Rule', cell: ({ rule }) => <RuleLink path={rule} /> },
  {
    name: 'Limit',
    class: 'limit',
    cell({ rule }) {
      const { limits = [], schedule } = rules.value?.rules.find(({ path }) => path === rule) ?? {};
      const now = schedule ? limits.filter((_, at) => schedule.now.includes(at)) : limits;
      return now.length === 0 ? '–' : now.map((limit, at) => <div key={at}>{limitText(limit)}</div>);
    },
  },
  {
    name: 'Hits',
    class: 'number',
    cell: ({ hits, atMostTooHighBy }) => (
      <>
        {hits === 0 ? '–' : exact(hits)}
        <Bounds tooHighBy={atMostTooHighBy} />
      </>
    ),
  },
  {
    name: 'Refused',
    class: 'number',
    tone: ({ refused }) => (refused > 0 ? 'bad' : undefined),
    cell: ({ refused }) => exact(refused),
  },
  {
    name: 'Share',
    class: 'number',
    cell: ({ hits, refused }) => (hits === 0 ? '–' : tenths(Math.min(refused / hits, 1))),
  },
  {
    name: 'Refused, ten minutes',
    label: 'Ten minutes',
    cell({ rule, descriptor }) {
      const followed = snapshot.value?.refusedClients?.find(
        (one) => one.rule === rule && one.descriptor === descriptor,
      );
      if (!followed) return '–';
      const { recent } = followed;
      return (
        <Sparkline
          series={{ passed: recent.map(() => 0), refused: recent }}
          label={`${count(recent.at(-1) ?? 0)} refused per second, at most ${count(Math.max(0, ...recent))}`}
        />
      );
    },
  },
];
