import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Durations } from './duration-histogram.ts';

/** The state of the store. */
export interface StoreGauges {
  /** For each node of the store, the number of processes whose circuit to it is open. */
  readonly openCircuits: () => ReadonlyMap<string, number>;
  /** Hits that are leased and not used. */
  readonly leased: () => number;
}

/** The metrics that prom-client writes: those of the process and of the store. */
export function createRegistry(
  isReady: () => boolean,
  { openCircuits, leased }: StoreGauges,
  durations: Durations,
): Registry {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
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
