import { useState } from 'preact/hooks';
import type { UsageAnswer } from '../../../src/parts/usage/answers.ts';
import { get } from '../api.ts';
import { amount, exact, tenths } from '../format.ts';
import { nowMs } from '../live.ts';
import { Plot } from '../parts/plot.tsx';
import { save } from '../parts/save.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, param, replaceParams } from '../route.ts';
import { seesValues, session } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Rows that are read, to be searched and paged here. */
const READ = 10_000;
const PAGE = 100;
const MONTHS = 12;
const POLL_MS = 10_000;

/** A time whose usage is shown. */
interface Span {
  readonly text: string;
  readonly per: 'hour' | 'day';
  readonly stepMs: number;
  readonly steps: number;
  /** When its last step begins. */
  readonly lastMs: number;
}

/** The last hours and days until now, and the last calendar months, in UTC. */
function spansAt(atMs: number): Readonly<Record<string, Span>> {
  const until = (text: string, per: 'hour' | 'day', steps: number): Span => {
    const stepMs = per === 'hour' ? HOUR_MS : DAY_MS;
    return { text, per, stepMs, steps, lastMs: Math.floor(atMs / stepMs) * stepMs };
  };
  const now = new Date(atMs);
  const months = Array.from({ length: MONTHS }, (_, back): readonly [string, Span] => {
    const beginsMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back);
    const endsMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back + 1);
    const name = new Date(beginsMs).toISOString().slice(0, 7);
    const steps = (endsMs - beginsMs) / DAY_MS;
    return [name, { text: monthName.format(beginsMs), per: 'day', stepMs: DAY_MS, steps, lastMs: endsMs - DAY_MS }];
  });
  const recent = {
    '24h': until('Last 24 hours', 'hour', 24),
    '7d': until('Last 7 days', 'hour', 168),
    '30d': until('Last 30 days', 'day', 30),
    '365d': until('Last 365 days', 'day', 365),
  };
  return { ...recent, ...Object.fromEntries(months) };
}

const monthName = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** The totals of rules, the highest first; a token for several domains reads those of one after the other. */
async function readTotals(from: string | undefined, to: string | undefined) {
  const domains = session.value?.domains ?? [undefined];
  const read = await Promise.all(domains.map((domain) => get('usage', { from, to, by: 'rule', domain })));
  return read.flatMap(({ rows }) => rows).sort((one, other) => other.hits - one.hits);
}

/** What the keys of a rule have used, and over time that of one key or of all. Rules count the same requests, so they are not added. */
export function Usage() {
  const spans = spansAt(Math.floor(nowMs.value / HOUR_MS) * HOUR_MS);
  const range = param('range') ?? '24h';
  const span = spans[range] ?? spans['24h'];
  const hour = span && seesValues.value ? [range, span.lastMs] : undefined;
  const { from, to } = timesOf(span);
  const totals = usePoll(() => readTotals(from, to), hour, POLL_MS);
  const rules = totals.data ?? [];
  const chosen = rules.find(({ domain, rule }) => domain === param('domain') && rule === param('rule')) ?? rules[0];
  const one = chosen && { domain: chosen.domain, rule: chosen.rule, key: param('key') };
  const inputs = hour && one && [...hour, one.domain, one.rule];
  const keys = usePoll(
    () => get('usage', { from, to, domain: one?.domain, rule: one?.rule, count: String(READ) }),
    inputs,
    POLL_MS,
  );
  const series = usePoll(
    () => get('usage', { ...one, from, to, by: 'rule', per: span?.per, count: '100000' }),
    inputs && [...inputs, one?.key],
    POLL_MS,
  );
  if (!span) return null;
  const choose = (name: string): void => replaceParams({ range: name });
  const title = `Admitted hits of ${one?.key ?? chosen?.rule ?? 'no rule'}`;
  const isOver = span.lastMs + span.stepMs <= nowMs.value;
  return (
    <>
      <div class="row">
        <h1>Usage</h1>
        <label class="field">
          Time
          <select value={range} onChange={({ currentTarget }) => choose(currentTarget.value)}>
            {Object.entries(spans).map(([name, { text }]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      {!seesValues.value && <SignInNeeded what="Usage" />}
      <Failure message={totals.error?.message} />
      {totals.data && rules.length === 0 && <Empty title="No hit was admitted in this time." />}
      {rules.length > 0 && <RuleTotals rows={rules} range={range} chosen={chosen} />}
      {chosen && (
        <section class="panel">
          <h2>
            <Value text={title} />
          </h2>
          <Plot
            title={title}
            lines={[{ label: 'admitted', color: '--passed', isFilled: true, values: seriesOf(series.data, span) }]}
            endMs={span.lastMs}
            stepMs={span.stepMs}
            steps={span.steps}
            unit={`${(series.data && drawnCurrency(series.data)) ?? 'hits'} per ${span.per}`}
          />
          <p class="dim">
            {span.per === 'day' ? 'Days are those of UTC. ' : ''}
            {!isOver && `The last ${span.per} is not over yet.`}
          </p>
          {one?.key !== undefined && (
            <a href={linkTo('usage', { range, domain: one.domain, rule: one.rule })}>Show all keys together</a>
          )}
          <Failure message={series.error?.message ?? keys.error?.message} />
        </section>
      )}
      {chosen && keys.data && <Keys data={keys.data} range={range} total={chosen.hits} />}
    </>
  );
}

const timesOf = (span: Span | undefined) => ({
  from: span && new Date(span.lastMs - (span.steps - 1) * span.stepMs).toISOString(),
  to: span && new Date(span.lastMs + span.stepMs).toISOString(),
});

type Row = UsageAnswer['rows'][number];

interface RuleTotalsProps {
  readonly rows: readonly Row[];
  readonly range: string;
  readonly chosen: Row | undefined;
}

/** The total of each rule. */
function RuleTotals({ rows, range, chosen }: RuleTotalsProps) {
  const columns: readonly Column<Row>[] = [
    {
      name: 'Rule',
      cell: ({ domain, rule = '' }) => (
        <a
          href={linkTo('usage', { range, domain, rule })}
          aria-current={domain === chosen?.domain && rule === chosen.rule ? 'true' : undefined}
        >
          <Value text={rule || `${domain}, no rule`} />
        </a>
      ),
    },
    { name: 'Used', class: 'number', cell: ({ hits, currency }) => amount(hits, currency) },
  ];
  return (
    <section class="panel">
      <h2>By rule</h2>
      <Table rows={rows} columns={columns} keyOf={(row) => [row.domain, row.rule, row.currency].join(' ')} />
      {rows.length > 1 && (
        <p class="dim">Several rules may count the same request, so that these totals are not added.</p>
      )}
    </section>
  );
}

interface KeysProps {
  readonly data: UsageAnswer;
  readonly range: string;
  readonly total: number;
}

function Keys({ data, range, total }: KeysProps) {
  const [page, setPage] = useState(0);
  const query = (param('q') ?? '').toLowerCase();
  const found = data.rows.filter(({ key = '' }) => key.toLowerCase().includes(query));
  const at = Math.min(page, Math.floor(Math.max(found.length - 1, 0) / PAGE));
  const columns: readonly Column<Row>[] = [
    {
      name: 'Key',
      cell: ({ domain, rule = '', key = '' }) => (
        <a href={linkTo('usage', { range, domain, rule, key })}>
          <Value text={key || '(others)'} />
        </a>
      ),
    },
    { name: 'Used', class: 'number', cell: ({ hits, currency }) => amount(hits, currency) },
    { name: 'Share of the rule', label: 'Share', class: 'number', cell: ({ hits }) => shareOf(hits, total) },
  ];
  return (
    <>
      <div class="row">
        <label class="field grow">
          Search keys
          <input
            type="search"
            value={query}
            placeholder="user=alice"
            onInput={({ currentTarget }) => replaceParams({ q: currentTarget.value })}
          />
        </label>
        <button type="button" onClick={() => download(found, range)}>
          Download CSV
        </button>
      </div>
      <Table
        rows={found.slice(at * PAGE, (at + 1) * PAGE)}
        columns={columns}
        keyOf={(row) => [row.domain, row.rule, row.key, row.currency].join(' ')}
      />
      <div class="row">
        <p class="dim" role="status">
          {exact(found.length)} {found.length === 1 ? 'key' : 'keys'}
          {query !== '' && ` of ${exact(data.rows.length)}`}
          {data.more > 0 && `; ${exact(data.more)} with fewer hits are not read: weir usage --csv has all`}
        </p>
        {found.length > PAGE && (
          <div class="row">
            <button type="button" disabled={at === 0} onClick={() => setPage(at - 1)}>
              Previous
            </button>
            <button type="button" disabled={(at + 1) * PAGE >= found.length} onClick={() => setPage(at + 1)}>
              Next {PAGE}
            </button>
          </div>
        )}
      </div>
    </>
  );
}

/** A cell of CSV as in RFC 4180; a text that a spreadsheet would calculate begins with an apostrophe. */
const csvCell = (text: string): string => `"${text.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;

function download(rows: readonly Row[], range: string): void {
  const lines = rows.map(({ domain, rule = '', key = '', hits, currency = '' }) =>
    [domain, rule, key, currency]
      .map(csvCell)
      .join(',')
      .concat(`,${currency === '' ? hits : hits / BILLION}`),
  );
  save(`usage-${range}.csv`, 'text/csv', ['domain,rule,key,currency,used', ...lines].join('\r\n'));
}

const BILLION = 1e9;

/** Hits are drawn, or if only budgets were used, amounts of the first one's currency. */
const drawnCurrency = ({ rows }: UsageAnswer): string | undefined =>
  rows.some(({ currency }) => currency === undefined) ? undefined : rows[0]?.currency;

const shareOf = (hits: number, total = 0): string => (total > 0 ? tenths(hits / total) : '–');

/** The hits of each step, the oldest first, or of a budget its amounts. */
function seriesOf(data: UsageAnswer | undefined, { lastMs, stepMs, steps }: Span): readonly number[] {
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
