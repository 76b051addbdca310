import type { Instance } from '../../../src/parts/status/answers.ts';
import { get } from '../api.ts';
import { bytes, exact, percent } from '../format.ts';
import { snapshot } from '../live.ts';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import { States } from '../parts/states.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Fact, Failure, State, storeFailure, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { session } from '../session.ts';

const lines: readonly SeriesLine[] = [
  { field: 'p99Ms', label: 'p99', color: '--ink', isFilled: true, isMeasured: true },
  { field: 'p50Ms', label: 'p50', color: '--passed', isMeasured: true },
  { field: 'storeP99Ms', label: 'store p99', color: '--bad', isMeasured: true },
  { field: 'storeP50Ms', label: 'store p50', color: '--dim', isMeasured: true },
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
          <States />
          <section class="panel">
            <SeriesPlot title="Latency of gRPC calls, and of the store" lines={lines} unit="ms" />
          </section>
          <div class="columns">
            <Store />
            <Processes />
            <Memory />
          </div>
          <Instances />
        </>
      )}
    </>
  );
}

function Store() {
  const now = snapshot.value;
  if (!now) return null;
  const { store, circuits, figures } = now;
  const { cacheSize, cacheHits, cacheLookups, leased } = figures;
  return (
    <section class="panel">
      <h2>Store</h2>
      <dl class="facts">
        <Fact name="Counters">
          <Value text={store.description} whole />
        </Fact>
        {store.lastSuccessAt !== undefined && (
          <Fact name="Last answer">
            <Time atMs={Date.parse(store.lastSuccessAt)} />
          </Fact>
        )}
        {circuits.map(({ node, open }) => (
          <Fact key={node} name={`Circuit to ${node}`}>
            <State is={open > 0 ? 'bad' : 'good'}>{open > 0 ? 'Open' : 'Closed'}</State>{' '}
            {open > 0 && now.workers.expected > 1 && `in ${open} of ${now.workers.expected} processes`}
          </Fact>
        ))}
        {leased > 0 && <Fact name="Leased, unused hits">{exact(leased)}</Fact>}
        {cacheSize !== undefined && (
          <Fact name="Remembered refusals">
            {exact(cacheSize)}
            {cacheHits !== undefined && cacheLookups ? (
              <span class="dim">, {percent(cacheHits / cacheLookups)} of lookups answered</span>
            ) : undefined}
          </Fact>
        )}
      </dl>
    </section>
  );
}

function Processes() {
  const now = snapshot.value;
  if (!now) return null;
  const { workers, processes, startedAtMs, figures } = now;
  return (
    <section class="panel">
      <h2>Processes</h2>
      <dl class="facts">
        <Fact name="Answering">
          {processes.length} of {workers.expected}
          {workers.expected > 1 && <span class="dim"> {processes.join(', ')}</span>}
        </Fact>
        <Fact name="Started">
          <Time atMs={startedAtMs} />
        </Fact>
        <Fact name="Version">{session.value?.version ?? '–'}</Fact>
        <Fact name="Connections of callers">{exact(figures.connections)}</Fact>
        <Fact name="Calls in flight">
          {exact(figures.inFlight)}
          {figures.held > 0 && <span class="dim">, {exact(figures.held)} held by max_delay</span>}
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
            {memoryEvicted > 0 && (
              <Fact name="Evicted">
                <State is="bad">{exact(memoryEvicted)}</State> <span class="dim">to make room</span>
              </Fact>
            )}
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

const MEANING = 'The instances are listed there. Each goes on by itself: on_store_failure of the rules decides.';

function Instances() {
  const { data, error } = usePoll(() => get('instances'), [], 5_000);
  return (
    <section class="panel">
      <h2>Instances</h2>
      <Failure message={storeFailure(error, MEANING)} />
      {data?.instances.length === 1 && <p class="dim">No other instance counts in the same store.</p>}
      {data && (
        <Table rows={data.instances} columns={instanceColumns} keyOf={(one) => `${one.name} ${one.startedAtMs}`} />
      )}
    </section>
  );
}
