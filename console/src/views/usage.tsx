import type { UsageAnswer } from '../../../src/operate/answers/usage.ts';
import { get } from '../api.ts';
import { amount, exact, tenths } from '../format.ts';
import { nowMs } from '../live.ts';
import { Choice } from '../parts/choice.tsx';
import { Plot } from '../parts/plot.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, param, replaceParams } from '../route.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SHOWN = '100';
const POLL_MS = 10_000;

const ranges = {
  '24h': { text: '24 hours', per: 'hour', stepMs: HOUR_MS, steps: 24 },
  '7d': { text: '7 days', per: 'hour', stepMs: HOUR_MS, steps: 168 },
  '30d': { text: '30 days', per: 'day', stepMs: DAY_MS, steps: 30 },
  '365d': { text: '365 days', per: 'day', stepMs: DAY_MS, steps: 365 },
} as const;
const names = Object.keys(ranges) as readonly (keyof typeof ranges)[]; // it has no other keys

/** What each key has used, and over time that of one key or of all. */
export function Usage() {
  const [domain, rule, key] = [param('domain'), param('rule'), param('key')];
  const range = names.find((name) => name === param('range')) ?? '24h';
  const { per, stepMs, steps } = ranges[range];
  const lastMs = Math.floor(nowMs.value / stepMs) * stepMs;
  const from = new Date(lastMs - (steps - 1) * stepMs).toISOString();
  const seen = seesValues.value ? [from] : undefined;
  const keys = usePoll(() => get('usage', { from, count: SHOWN }), seen, POLL_MS);
  const one = { domain, rule, key };
  const series = usePoll(
    () => get('usage', { ...one, from, by: 'domain', per, count: '100000' }),
    seen && [from, domain, rule, key],
    POLL_MS,
  );
  const title = key === undefined ? 'Admitted hits' : `Admitted hits of ${key}`;
  return (
    <>
      <h1>Usage</h1>
      {!seesValues.value && <SignInNeeded what="Usage" />}
      <section class="panel">
        <div class="row">
          <h2>
            <Value text={title} />
          </h2>
          <Choice
            of="Range of usage"
            names={names}
            texts={ranges}
            chosen={range}
            onChoose={(name) => replaceParams({ range: name })}
          />
        </div>
        <Plot
          title={title}
          lines={[
            {
              label: 'admitted',
              color: '--passed',
              isFilled: true,
              values: seriesOf(series.data, lastMs, ranges[range]),
            },
          ]}
          endMs={lastMs}
          stepMs={stepMs}
          steps={steps}
          unit={`${(series.data && drawnCurrency(series.data)) ?? 'hits'} per ${per}`}
        />
        <p class="dim">
          {per === 'day' ? 'Days are those of UTC. ' : ''}The last {per} is not over yet.
        </p>
        {key !== undefined && <a href={linkTo('usage', { range })}>Show all keys together</a>}
        <Failure message={series.error?.message} />
      </section>
      <Failure message={keys.error?.message} />
      {keys.data?.rows.length === 0 && <Empty title="No hit was admitted in this time." />}
      {keys.data && keys.data.rows.length > 0 && <Keys data={keys.data} range={range} />}
    </>
  );
}

function Keys({ data, range }: { readonly data: UsageAnswer; readonly range: string }) {
  const columns: readonly Column<UsageAnswer['rows'][number]>[] = [
    {
      name: 'Key',
      cell: ({ domain, rule = '', key = '' }) => (
        <a href={linkTo('usage', { range, domain, rule, key })}>
          <Value text={key} />
        </a>
      ),
    },
    { name: 'Rule', cell: ({ domain, rule }) => <Value text={rule || domain} /> },
    { name: 'Hits', class: 'number', cell: ({ hits, currency }) => amount(hits, currency) },
    {
      name: 'Share',
      class: 'number',
      cell: ({ hits, currency }) => shareOf(hits, currency === undefined ? data.hits : data.spent?.[currency]),
    },
  ];
  return (
    <>
      <Table
        rows={data.rows}
        columns={columns}
        keyOf={(row) => [row.domain, row.rule, row.key, row.currency].join(' ')}
      />
      <p class="dim">
        {exact(data.hits)} hits{Object.entries(data.spent ?? {}).map(([of, sum]) => `, ${amount(sum, of)}`)} in total
        {data.more > 0 && `; ${exact(data.more)} more keys are not listed: weir usage --csv`}.
      </p>
    </>
  );
}

const BILLION = 1e9;

/** Hits are drawn, or if only budgets were used, amounts of the first one's currency. */
const drawnCurrency = ({ rows }: UsageAnswer): string | undefined =>
  rows.some(({ currency }) => currency === undefined) ? undefined : rows[0]?.currency;

const shareOf = (hits: number, total = 0): string => (total > 0 ? tenths(hits / total) : '–');

/** The hits of each step, the oldest first, or of a key with a budget its amounts. */
function seriesOf(
  data: UsageAnswer | undefined,
  lastMs: number,
  { stepMs, steps }: (typeof ranges)[keyof typeof ranges],
): readonly number[] {
  if (!data) return [];
  const values = new Array<number>(steps).fill(0);
  const drawn = drawnCurrency(data);
  for (const { at, hits, currency } of data.rows) {
    if (currency !== drawn) continue;
    const step = at === undefined ? -1 : steps - 1 - Math.round((lastMs - Date.parse(at)) / stepMs);
    if (step >= 0 && step < steps) values[step] = (values[step] ?? 0) + (drawn === undefined ? hits : hits / BILLION);
  }
  return values;
}
