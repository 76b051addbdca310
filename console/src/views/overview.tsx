import type { ServiceRates } from '../../../src/operate/console/service-series.ts';
import { bytes, count, duration, exact, millis, tenths } from '../format.ts';
import { rules, snapshot } from '../live.ts';
import { FirstSteps } from '../parts/first-steps.tsx';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import {
  ActionsHeading,
  Bounds,
  DescriptorOrHash,
  Empty,
  State,
  type StateName,
  Time,
  Value,
} from '../parts/texts.tsx';
import { linkTo, pairsParam } from '../route.ts';
import { SignInNeeded } from './sign-in.tsx';

const lines: readonly SeriesLine[] = [
  { field: 'passed', label: 'passed', color: '--passed', isFilled: true },
  { field: 'refused', label: 'refused', color: '--bad', isFilled: true },
  { field: 'undecided', label: 'without a decision', color: '--warn' },
  { field: 'degraded', label: 'degraded', color: '--warn', isDashed: true },
];

export function Overview() {
  const now = snapshot.value;
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Problems />
      <FirstSteps />
      <section class="panel" aria-label="Now">
        <dl class="figures">
          <Figure label="Decisions" value={now && count(now.rates.passed + now.rates.refused)} unit="per s" />
          <Figure
            label="Refused"
            value={now && count(now.rates.refused)}
            unit="per s"
            is={now && now.rates.refused > 0 ? 'bad' : 'plain'}
          />
          <Figure
            label="Without a decision"
            value={now && count(now.rates.undecided)}
            unit="per s"
            is={now && now.rates.undecided > 0 ? 'warn' : 'plain'}
          />
          <Figure
            label="Degraded"
            value={now && count(now.rates.degraded)}
            unit="hits per s"
            is={now && now.rates.degraded > 0 ? 'warn' : 'plain'}
          />
          <Figure label="gRPC p50" value={now && millis(now.rates.p50Ms)} />
          <Figure label="gRPC p99" value={now && millis(now.rates.p99Ms)} />
        </dl>
      </section>
      <div class="columns">
        <RefusedKeys />
        <div class="stack">
          <section class="panel">
            <SeriesPlot title="Decisions" lines={lines} unit="per s" />
          </section>
          <RefusingRules />
        </div>
      </div>
      <StateOfParts />
    </>
  );
}

function Figure({
  label,
  value = '–',
  unit,
  is = 'plain',
}: {
  readonly label: string;
  readonly value: string | undefined;
  readonly unit?: string;
  readonly is?: StateName | undefined;
}) {
  return (
    <div>
      <dt>{label}</dt>
      <dd class={is}>
        <span class="large number">{value}</span> {unit && <span class="dim">{unit}</span>}
      </dd>
    </div>
  );
}

/** The lateness to warn of: callers that wait for 100 ms get answers from memory. */
const LATE_MS = 100;

const undecidedShare = ({ passed, refused, undecided }: ServiceRates): number =>
  undecided / (passed + refused + undecided);

/** Current problems, a sentence each. */
function Problems() {
  const now = snapshot.value;
  if (!now) return null;
  const open = now.circuits.filter((circuit) => circuit.open > 0);
  return (
    <>
      {now.store.isUp === false && (
        <p class="notice bad" role="alert">
          The store cannot be reached: {now.store.reason}. Each limit follows its <code>on_store_failure</code>.
        </p>
      )}
      {now.store.isUp !== false && open.length > 0 && (
        <p class="notice warn" role="alert">
          {open.length === 1 ? 'The circuit to a store node is' : `The circuits to ${open.length} store nodes are`}{' '}
          open: {open.map(({ node }) => node).join(', ')}.
        </p>
      )}
      {!now.rules.isNewest && (
        <div class="notice bad" role="alert">
          The newest rules are invalid; the previous rules stay in force.
          <ul>
            {now.rules.problems.slice(0, 5).map((problem) => (
              <li key={problem}>
                <Value text={problem} whole />
              </li>
            ))}
          </ul>
          {now.rules.problems.length + now.rules.moreProblems > 5 && (
            <a href={linkTo('rules')}>{now.rules.problems.length + now.rules.moreProblems - 5} more</a>
          )}
        </div>
      )}
      {now.rates.undecided > 0 && (
        <p class="notice warn" role="alert">
          {tenths(undecidedShare(now.rates))} of requests got no decision: their proxies may have let them pass
          unlimited.
        </p>
      )}
      {now.figures.latenessMs >= LATE_MS && (
        <p class="notice warn" role="alert">
          {now.workers.expected > 1 ? 'A process' : 'The process'} was late by {millis(now.figures.latenessMs)} in the
          last 15 seconds. Give it more processor time.
        </p>
      )}
    </>
  );
}

/** Rows in each table of the overview; a link leads to the rest. */
const ROWS = 8;

function RefusedKeys() {
  const now = snapshot.value;
  const keys = now?.refusedKeys;
  return (
    <section class="panel">
      <h2>Keys refused most, last minute</h2>
      {now && !keys && <SignInNeeded what="This list" />}
      {keys?.length === 0 && <Empty title="No key was refused in the last minute." />}
      {keys && keys.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col" class="number">
                Refused
              </th>
              <ActionsHeading />
            </tr>
          </thead>
          <tbody>
            {keys.slice(0, ROWS).map((key) => (
              <tr key={`${key.rule} ${key.descriptor}`}>
                <td>
                  <DescriptorOrHash {...key} />
                  <div class="dim">
                    <a href={linkTo('rule', { path: key.rule })}>{key.rule}</a>
                  </div>
                </td>
                <td class="number">
                  {exact(key.hits)}
                  <Bounds tooHighBy={key.atMostTooHighBy} tooLowBy={key.atMostTooLowBy ?? 0} />
                </td>
                <td class="actions">
                  {key.entries && !key.cut ? (
                    <a
                      href={linkTo('explain', { domain: domainOf(key.rule), pairs: pairsParam(key.entries) })}
                      aria-label={`Explain ${key.descriptor.slice(0, 80)}`}
                    >
                      Explain
                    </a>
                  ) : (
                    <span class="dim">{key.cut ? 'too long' : 'hashed'}</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** The domain of a rule: names may have dots, so the rules are searched first. */
export const domainOf = (path: string): string =>
  rules.value?.rules.find((rule) => rule.path === path)?.domain ?? path.split('.')[0] ?? '';

function RefusingRules() {
  const now = snapshot.value;
  const refusing = now?.refusingRules ?? [];
  return (
    <section class="panel">
      <h2>Rules that refuse most, last minute</h2>
      {now && refusing.length === 0 && <Empty title="No rule refused in the last minute." />}
      {refusing.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Rule</th>
              <th scope="col" class="number">
                Refused
              </th>
            </tr>
          </thead>
          <tbody>
            {refusing.slice(0, ROWS).map(({ rule, refused }) => (
              <tr key={rule}>
                <td>
                  <a href={linkTo('rule', { path: rule })}>
                    <Value text={rule} />
                  </a>
                </td>
                <td class="number">{exact(refused)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
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
        <div>
          <dt>Store</dt>
          <dd>
            <State is={isDown ? 'bad' : 'good'}>{isDown ? 'Down' : 'Up'}</State>{' '}
            <Value text={store.description} whole />
            {store.latencyMs !== undefined && <span class="dim">, {millis(store.latencyMs)}</span>}
          </dd>
        </div>
        <div>
          <dt>Rules</dt>
          <dd>
            <State is={ruleState.isNewest ? 'good' : 'bad'}>{ruleState.isNewest ? 'Newest' : 'Invalid'}</State>{' '}
            {exact(ruleState.count)} in force
            {ruleState.loadedAtMs !== undefined && (
              <>
                , loaded <Time atMs={ruleState.loadedAtMs} />
              </>
            )}
          </dd>
        </div>
        <div>
          <dt>Processes</dt>
          <dd>
            <State is={missing ? 'warn' : 'good'}>
              {workers.expected > 1 ? `${processes.length} of ${workers.expected} workers` : 'One process'}
            </State>
            {workers.restarts > 0 && <span> {exact(workers.restarts)} restarts</span>}
            <span class="dim">
              {' '}
              started {duration(now.atMs - now.startedAtMs)} ago, {bytes(now.figures.rssBytes)}
            </span>
          </dd>
        </div>
      </dl>
    </section>
  );
}
