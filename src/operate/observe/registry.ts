import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Durations } from './duration-histogram.ts';
import type { ProcessUse } from './process-use.ts';

/** The state of the store. */
export interface StoreGauges {
  /** For each node of the store, the number of processes whose circuit to it is open. */
  readonly openCircuits: () => ReadonlyMap<string, number>;
  /** Hits that are leased and not used. */
  readonly leased: () => number;
  /** What all processes of this instance use. */
  readonly processes: () => ProcessUse;
}

/** The metrics that prom-client writes: those of the process and of the store. */
export function createRegistry(
  isReady: () => boolean,
  { openCircuits, leased, processes }: StoreGauges,
  durations: Durations,
): Registry {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  addProcesses(registry, processes);
  new Gauge({
    name: 'weir_ready',
    help: '1 while requests can be decided, else 0.',
    registers,
    collect() {
      this.set(isReady() ? 1 : 0);
    },
  });
  registry.registerMetric(durations.metric);
  new Gauge({
    name: 'weir_leased_hits',
    help: 'Leased hits that are not used yet; limits may pass up to this many hits fewer.',
    registers,
    collect() {
      this.set(leased());
    },
  });
  new Gauge({
    name: 'weir_store_circuit_open',
    help: 'Processes whose circuit to a store node is open because it did not answer: they call it rarely or not at all.',
    labelNames: ['node'],
    registers,
    collect() {
      this.reset();
      for (const [node, processes] of openCircuits()) this.set({ node }, processes);
    },
  });
  return registry;
}

/** Replaces what prom-client measures of this process alone by the sums over all processes of the instance. */
function addProcesses(registry: Registry, processes: () => ProcessUse): void {
  const registers = [registry];
  const addCounter = (name: string, help: string, seconds: (use: ProcessUse) => number): void => {
    registry.removeSingleMetric(name);
    new Counter({
      ...{ name, help, registers },
      collect() {
        this.reset();
        this.inc(seconds(processes()));
      },
    });
  };
  addCounter('process_cpu_user_seconds_total', 'User CPU time in seconds, of all processes.', (use) => use.userSeconds);
  addCounter(
    'process_cpu_system_seconds_total',
    'System CPU time in seconds, of all processes.',
    (use) => use.systemSeconds,
  );
  addCounter(
    'process_cpu_seconds_total',
    'User and system CPU time in seconds, of all processes.',
    ({ userSeconds, systemSeconds }) => userSeconds + systemSeconds,
  );
  registry.removeSingleMetric('process_resident_memory_bytes');
  new Gauge({
    ...{ name: 'process_resident_memory_bytes', help: 'Resident memory in bytes, of all processes.', registers },
    collect() {
      this.set(processes().rssBytes);
    },
  });
}
