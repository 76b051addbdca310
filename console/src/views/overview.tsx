import type { RefusedClient } from '../../../src/parts/console/answers.ts';
import type { RefusingRule } from '../../../src/parts/console/rule-series.ts';
import { count, exact, shortTime, tenths } from '../format.ts';
import { ruleHistory, snapshot } from '../live.ts';
import { ClientLink, ClientsNotCounted, domainOf, linkToClient } from '../parts/client-link.tsx';
import { FirstSteps } from '../parts/first-steps.tsx';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import { Findings, Incidents, Situation } from '../parts/situation.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { States } from '../parts/states.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Bounds, Empty, RuleLink } from '../parts/texts.tsx';
import { linkTo } from '../route.ts';
import { mayOperate, session } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

/** The outcomes of requests, from the bottom of the stack. */
const outcomes: readonly SeriesLine[] = [
  { field: 'passed', label: 'passed', color: '--passed' },
  { field: 'refused', label: 'refused', color: '--bad' },
  { field: 'degraded', label: 'without a counter', color: '--warn' },
  { field: 'undecided', label: 'undecided', color: '--ink' },
];

export function Overview() {
  return (
    <>
      <Situation />
      <Findings />
      <FirstSteps />
      <section class="panel">
        <SeriesPlot title="Requests" lines={outcomes} unit="per s" isStacked hasMarks />
      </section>
      <Refused />
      <Incidents />
      <States />
    </>
  );
}

/** Rows of the table. */
const ROWS = 10;

/** The clients that are refused most, or the rules that refuse most for a browser that may not see clients. */
function Refused() {
  const now = snapshot.value;
  if (!now) return null;
  const { refusedClients, refusingRules: refusing } = now;
  const clients = session.value?.countsClients ? refusedClients : undefined;
  const shown = Math.min((clients ?? refusing).length, ROWS);
  const isEmpty = shown === 0;
  const more = (clients ? now.refused.clients : refusing.length) - shown;
  return (
    <section class="panel">
      <h2>Refused most, last minute</h2>
      {refusedClients && !clients && <ClientsNotCounted />}
      {isEmpty && <Empty title="Nothing was refused in the last minute." />}
      {!isEmpty && clients && (
        <Table class="refused" rows={clients.slice(0, ROWS)} columns={clientColumns} keyOf={keyOfClient} />
      )}
      {!isEmpty && !clients && (
        <Table class="refused" rows={refusing.slice(0, ROWS)} columns={ruleColumns} keyOf={({ rule }) => rule} />
      )}
      {more > 0 && <p class="dim">{exact(more)} more.</p>}
      <UnmatchedLine />
      {!refusedClients && <SignInNeeded what="The list of clients" />}
    </section>
  );
}

const keyOfClient = ({ rule, descriptor }: RefusedClient): string => `${rule} ${descriptor}`;

const clientColumns: readonly Column<RefusedClient>[] = [
  { name: 'Client', cell: (client) => <ClientLink {...client} /> },
  {
    name: 'Rule',
    cell: ({ rule }) => <RuleLink path={rule} />,
  },
  {
    name: 'Refused',
    class: 'number',
    cell: ({ requests, atMostTooHighBy, atMostTooLowBy = 0 }) => (
      <>
        {exact(requests)}
        <Bounds tooHighBy={atMostTooHighBy} tooLowBy={atMostTooLowBy} />
      </>
    ),
  },
  { name: 'Share', class: 'number', cell: ({ refusedShare }) => tenths(refusedShare) },
  { name: 'Since', cell: ({ sinceMs }) => shortTime(sinceMs) },
  {
    name: 'Ten minutes',
    cell: ({ recent }) => (
      <Sparkline
        series={{ passed: recent.map(() => 0), refused: recent }}
        label={`${count(recent.at(-1) ?? 0)} refused per second, at most ${count(Math.max(0, ...recent))}`}
      />
    ),
  },
  {
    name: '',
    cell({ rule, descriptor, entries, cut }) {
      if (!entries || cut) return <span class="dim">{cut ? 'too long' : 'hashed'}</span>;
      const [text, change] = mayOperate.value ? (['Let in', 'exempt'] as const) : (['Explain'] as const);
      return (
        <a
          class="button"
          href={linkToClient(domainOf(rule), entries, change)}
          aria-label={`${text} ${descriptor.slice(0, 80)}`}
        >
          {text}
          {change && '…'}
        </a>
      );
    },
  },
];

const ruleColumns: readonly Column<RefusingRule>[] = [
  {
    name: 'Rule',
    cell: ({ rule }) => <RuleLink path={rule} />,
  },
  {
    name: 'Last minute',
    cell: ({ rule, refused, passed }) => (
      <Sparkline series={ruleHistory.value.get(rule)} label={`${exact(refused)} refused, ${exact(passed)} passed`} />
    ),
  },
  { name: 'Refused', class: 'number', cell: ({ refused }) => exact(refused) },
  { name: 'Share', class: 'number', cell: ({ refused, passed }) => tenths(refused / (refused + passed)) },
  { name: 'Since', cell: ({ sinceMs }) => shortTime(sinceMs) },
  {
    name: '',
    cell: ({ rule }) => (
      <a class="button" href={linkTo('rule', { path: rule })} aria-label={`Open ${rule}`}>
        Open
      </a>
    ),
  },
];

/** The part of the requests that nothing limits. */
function UnmatchedLine() {
  const { unmatched = 0, offered = 0 } = snapshot.value?.lastMinute ?? {};
  if (unmatched === 0) return null;
  return (
    <p>
      {tenths(unmatched / offered)} of requests match no rule, {exact(unmatched)} in the last minute.{' '}
      <a href={linkTo('unmatched')}>Which ones, and why</a>
    </p>
  );
}
