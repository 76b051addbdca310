import type { RefusedClient } from '../../../src/operate/answers/views.ts';
import type { RefusingRule } from '../../../src/operate/console/rule-series.ts';
import { bytes, count, duration, exact, millis, shortTime, tenths } from '../format.ts';
import { history, ruleHistory, snapshot } from '../live.ts';
import { ClientLink, ClientsNotCounted, domainOf, linkToClient } from '../parts/client-link.tsx';
import { FirstSteps } from '../parts/first-steps.tsx';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import { Situation } from '../parts/situation.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Bounds, Empty, Fact, RuleLink, State, Time, Value } from '../parts/texts.tsx';
import { linkTo } from '../route.ts';
import { mayOperate, session } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

/** The outcomes of requests, from the bottom of the stack. */
const outcomes: readonly SeriesLine[] = [
  { field: 'passed', label: 'passed', color: '--passed' },
  { field: 'refused', label: 'refused', color: '--bad' },
  { field: 'degraded', label: 'without a counter', color: '--warn' },
  { field: 'undecided', label: 'failed', color: '--ink' },
];

export function Overview() {
  return (
    <>
      <Situation />
      <Problems />
      <FirstSteps />
      <section class="panel">
        <SeriesPlot title="Requests" lines={outcomes} unit="per s" isStacked hasMarks />
      </section>
      <Refused />
      <StateOfParts />
    </>
  );
}

/** The lateness to warn of: callers that wait for 100 ms get answers from memory. */
const LATE_MS = 100;

/** Problems whose details the sentence does not have. */
function Problems() {
  const now = snapshot.value;
  if (!now) return null;
  const open = now.circuits.filter((circuit) => circuit.open > 0);
  const { problems, moreProblems, isNewest } = now.rules;
  const more = problems.length + moreProblems - MAX_PROBLEMS;
  return (
    <>
      {now.store.isUp !== false && open.length > 0 && (
        <p class="notice warn" role="alert">
          {open.length === 1 ? 'The circuit to a store node is' : `The circuits to ${open.length} store nodes are`}{' '}
          open: {open.map(({ node }) => node).join(', ')}.
        </p>
      )}
      {!isNewest && (
        <div class="notice bad" role="alert">
          The newest rules are invalid; the previous rules stay in force.
          <ul>
            {problems.slice(0, MAX_PROBLEMS).map((problem) => (
              <li key={problem}>
                <Value text={problem} whole />
              </li>
            ))}
          </ul>
          {more > 0 && <a href={linkTo('rules')}>{more} more</a>}
        </div>
      )}
      {now.findings.map(({ problem, sinceMs, configuration }) => (
        <div class="notice warn" role="alert" key={problem}>
          Since {shortTime(sinceMs)}: <Value text={problem} whole />
          <p class="dim">Check in the configuration of the proxy: {configuration}.</p>
        </div>
      ))}
      {now.figures.latenessMs >= LATE_MS && (
        <p class="notice warn" role="alert">
          {now.workers.expected > 1 ? 'A process' : 'The process'} was late by {millis(now.figures.latenessMs)} in the
          last 15 seconds. Give it more processor time.
        </p>
      )}
    </>
  );
}

const MAX_PROBLEMS = 5;

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
    name: 'Requests',
    class: 'number',
    cell: ({ requests, atMostTooHighBy, atMostTooLowBy = 0 }) => (
      <>
        {exact(requests)}
        <Bounds tooHighBy={atMostTooHighBy} tooLowBy={atMostTooLowBy} />
      </>
    ),
  },
  { name: 'Refused', class: 'number', cell: ({ refusedShare }) => tenths(refusedShare) },
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
  { name: 'Requests', class: 'number', cell: ({ refused }) => exact(refused) },
  { name: 'Refused', class: 'number', cell: ({ refused, passed }) => tenths(refused / (refused + passed)) },
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
  const sum = (field: string): number => (history.value[field] ?? []).reduce((total, value) => total + value, 0);
  const unmatched = sum('unmatched');
  if (unmatched === 0) return null;
  const answered = sum('passed') + sum('refused') + sum('degraded');
  return (
    <p>
      {tenths(unmatched / answered)} of requests match no rule, {exact(unmatched)} in the last minute.{' '}
      <a href={linkTo('unmatched')}>Which ones, and why</a>
    </p>
  );
}

function StateOfParts() {
  const now = snapshot.value;
  if (!now) return null;
  const { store, rules: ruleState, workers, processes } = now;
  const isDown = store.isUp === false;
  const missing = workers.expected > 1 && processes.length < workers.expected;
  return (
    <section class="panel">
      <h2>Service</h2>
      <dl class="facts">
        <Fact name="Store">
          <State is={isDown ? 'bad' : 'good'}>{isDown ? 'Down' : 'Up'}</State> <Value text={store.description} whole />
          {store.latencyMs !== undefined && !isDown && <span class="dim">, {millis(store.latencyMs)}</span>}
          {store.reason !== undefined && (
            <>
              : <Value text={store.reason} whole />
            </>
          )}
        </Fact>
        <Fact name="Rules">
          <State is={ruleState.isNewest ? 'good' : 'bad'}>{ruleState.isNewest ? 'Newest' : 'Invalid'}</State>{' '}
          {exact(ruleState.count)} in force
          {ruleState.loadedAtMs !== undefined && (
            <>
              , loaded <Time atMs={ruleState.loadedAtMs} />
            </>
          )}
        </Fact>
        <Fact name="Processes">
          <State is={missing ? 'warn' : 'good'}>
            {workers.expected > 1 ? `${processes.length} of ${workers.expected} workers` : 'One process'}
          </State>
          {workers.restarts > 0 && <span> {exact(workers.restarts)} restarts</span>}
          <span class="dim">
            {' '}
            started {duration(now.atMs - now.startedAtMs)} ago, {bytes(now.figures.rssBytes)}
          </span>
        </Fact>
      </dl>
    </section>
  );
}
