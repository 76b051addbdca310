import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Durations } from './duration-histogram.ts';

/** How it stands with the counters. */
export interface StoreGauges {
  /** For each node of the store, how many processes have their circuit to it open. */
  readonly openCircuits: () => ReadonlyMap<string, number>;
  /** Hits that are leased and not used. */
  readonly leased: () => number;
}

/** What prom-client writes: the process, and how it stands with the counters. */
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
    help: 'Hits that are leased and not used: so much less than their limits may pass, at most.',
    registers,
    collect() {
      this.set(leased());
    },
  });
  new Gauge({
    name: 'weir_store_circuit_open',
    help: 'Processes that ask a node of the store nothing, or only now and then, since it did not answer.',
    labelNames: ['node'],
    registers,
    collect() {
      this.reset();
      for (const [node, processes] of openCircuits()) this.set({ node }, processes);
    },
  });
  return registry;
}
