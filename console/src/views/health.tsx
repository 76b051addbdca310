import type { ComponentChildren } from 'preact';
import type { Instance } from '../../../src/operate/answers/service.ts';
import { get } from '../api.ts';
import { bytes, exact, millis, percent } from '../format.ts';
import { snapshot } from '../live.ts';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Fact, Failure, State, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { session } from '../session.ts';

const lines: readonly SeriesLine[] = [
  { field: 'p99Ms', label: 'p99', color: '--ink', isFilled: true },
  { field: 'p50Ms', label: 'p50', color: '--passed' },
  { field: 'lagMs', label: 'process late by', color: '--warn', isDashed: true },
];

export function Health() {
  const now = snapshot.value;
  return (
    <>
      <h1>Health</h1>
      {!now && <Empty title="Nothing has been received yet." />}
      {now && (
        <>
          <section class="panel">
            <SeriesPlot title="Latency of gRPC calls" lines={lines} unit="ms" />
          </section>
          <div class="columns">
            <Store />
            <Processes />
            <Calls />
            <Memory />
          </div>
          <Instances />
        </>
      )}
    </>
  );
}

/** A number that should be 0. */
function Alarming({ is, children }: { readonly is: boolean; readonly children: ComponentChildren }) {
  return is ? <State is="bad">{children}</State> : <span class="number">{children}</span>;
}

function Store() {
  const now = snapshot.value;
  if (!now) return null;
  const { store, circuits, figures } = now;
  const isDown = store.isUp === false;
  return (
    <section class="panel">
      <h2>Store</h2>
      <dl class="facts">
        <Fact name="Counters">
          <Value text={store.description} whole />
        </Fact>
        <Fact name="State">
          <State is={isDown ? 'bad' : 'good'}>{isDown ? 'Down' : 'Up'}</State>{' '}
          {store.reason !== undefined && <Value text={store.reason} whole />}
        </Fact>
        {store.latencyMs !== undefined && <Fact name="Latency">{millis(store.latencyMs)}</Fact>}
        {store.lastSuccessAtMs !== undefined && (
          <Fact name="Last answer">
            <Time atMs={store.lastSuccessAtMs} />
          </Fact>
        )}
        {circuits.map(({ node, open }) => (
          <Fact key={node} name={`Circuit to ${node}`}>
            <State is={open > 0 ? 'bad' : isDown ? 'plain' : 'good'}>{open > 0 ? 'Open' : 'Closed'}</State>{' '}
            {open > 0 && now.workers.expected > 1 && `in ${open} of ${now.workers.expected} processes`}
          </Fact>
        ))}
        <Fact name="Leased, unused hits">
          <span class="number">{exact(figures.leased)}</span>
        </Fact>
        <Fact name="Remembered refusals">
          {figures.cacheSize !== undefined ? (
            <>
              <span class="number">{exact(figures.cacheSize)}</span>
              {figures.cacheHits !== undefined && figures.cacheLookups ? (
                <span class="dim">, {percent(figures.cacheHits / figures.cacheLookups)} of lookups answered</span>
              ) : undefined}
            </>
          ) : (
            <span class="dim">off</span>
          )}
        </Fact>
      </dl>
    </section>
  );
}

function Processes() {
  const now = snapshot.value;
  if (!now) return null;
  const { workers, processes, background, startedAtMs, figures } = now;
  const failing = background.filter((work) => work.failing);
  const isMissing = workers.expected > 1 && processes.length < workers.expected;
  return (
    <section class="panel">
      <h2>Processes</h2>
      <dl class="facts">
        <Fact name="Answering">
          <State is={isMissing ? 'warn' : 'good'}>
            {processes.length} of {workers.expected}
          </State>
        </Fact>
        {workers.expected > 1 &&
          processes.map((name) => (
            <Fact key={name} name="Worker">
              {name}
            </Fact>
          ))}
        <Fact name="Worker restarts">
          <span class="number">{exact(workers.restarts)}</span>
        </Fact>
        <Fact name="Background">
          {failing.length === 0 && <State is="good">Working</State>}
          {failing.map(({ does, failing: { reason, sinceMs } = { reason: '', sinceMs: 0 } }) => (
            <div key={does}>
              <State is="bad">Failing</State> {does}, since <Time atMs={sinceMs} />: <Value text={reason} whole />
            </div>
          ))}
        </Fact>
        <Fact name="Started">
          <Time atMs={startedAtMs} />
        </Fact>
        <Fact name="Late by">
          {millis(figures.latenessMs)} <span class="dim">at most, in the last 15 seconds</span>
        </Fact>
        <Fact name="Version">{session.value?.version ?? '–'}</Fact>
      </dl>
    </section>
  );
}

function Calls() {
  const now = snapshot.value;
  if (!now) return null;
  const { figures, rates } = now;
  return (
    <section class="panel">
      <h2>Calls</h2>
      <dl class="facts">
        <Fact name="Connections of callers">
          <span class="number">{exact(figures.connections)}</span>
        </Fact>
        <Fact name="Calls in flight">
          <span class="number">{exact(figures.inFlight)}</span>
        </Fact>
        <Fact name="Calls held">
          <span class="number">{exact(figures.held)}</span> <span class="dim">by max_delay</span>
        </Fact>
        <Fact name="Without a decision">
          <Alarming is={rates.undecided > 0}>{exact(rates.undecided)} per s</Alarming>
        </Fact>
        <Fact name="Degraded">
          <Alarming is={rates.degraded > 0}>{exact(rates.degraded)} per s</Alarming>
        </Fact>
      </dl>
    </section>
  );
}

function Memory() {
  const now = snapshot.value;
  if (!now) return null;
  const {
    rssBytes,
    heapBytes,
    callerBytes,
    callerMaxBytes,
    memoryCounters,
    memoryBytes = 0,
    memoryEvicted = 0,
  } = now.figures;
  return (
    <section class="panel">
      <h2>Memory</h2>
      <dl class="facts">
        <Fact name={'Memory of all processes'}>{bytes(rssBytes)}</Fact>
        <Fact name="JavaScript heap">{bytes(heapBytes)}</Fact>
        <Fact name="Held for callers">
          {bytes(callerBytes)} <span class="dim">of {bytes(callerMaxBytes)}</span>
        </Fact>
        {memoryCounters !== undefined && (
          <>
            <Fact name="Counters">
              <span class="number">{exact(memoryCounters)}</span> <span class="dim">in {bytes(memoryBytes)}</span>
            </Fact>
            <Fact name="Evicted">
              <Alarming is={memoryEvicted > 0}>{exact(memoryEvicted)}</Alarming> <span class="dim">to make room</span>
            </Fact>
          </>
        )}
      </dl>
    </section>
  );
}

const instanceColumns: readonly Column<Instance>[] = [
  {
    name: 'Instance',
    cell: ({ name, isThis, version }) => (
      <>
        <Value text={name} /> {isThis && <span class="dim">(this one)</span>}
        <div class="dim">{version}</div>
      </>
    ),
  },
  { name: 'Started', cell: ({ startedAtMs }) => <Time atMs={startedAtMs} /> },
  { name: 'Rules', cell: ({ rules }) => <code>{rules?.slice(0, 12) ?? 'none'}</code> },
  { name: 'Workers', class: 'number', cell: ({ workers }) => exact(workers) },
  { name: 'Decisions per s', label: 'Decisions', class: 'number', cell: (one) => exact(one.decisionsPerSecond) },
  { name: 'Refused per s', label: 'Refused', class: 'number', cell: (one) => exact(one.refusedPerSecond) },
];

function Instances() {
  const { data, error } = usePoll(() => get('instances'), [], 5_000);
  return (
    <section class="panel">
      <h2>Instances</h2>
      <Failure message={error?.message} />
      {data?.instances.length === 1 && <p class="dim">No other instance counts in the same store.</p>}
      {data && (
        <Table rows={data.instances} columns={instanceColumns} keyOf={(one) => `${one.name} ${one.startedAtMs}`} />
      )}
    </section>
  );
}
