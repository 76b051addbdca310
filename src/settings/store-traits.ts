import { type CounterOptions, type StoreOptions, storeTraits } from '../engine/open/options.ts';
import type { Settings } from './settings.ts';
import type { StoreSettings } from './stores.ts';

/** The engine's options for counters. */
export function counterOptions({ store, startup, isSpendSet: _, ...others }: Settings['counters']): CounterOptions {
  const { initialMs, maxMs } = startup;
  return { ...others, startup: { initialMs, maxMs }, store: storeOptions(store) };
}

function storeOptions(store: StoreSettings): StoreOptions {
  switch (store.kind) {
    case 'memory':
      return 'memory';
    case 'redis':
      return { redis: store.main, perSecond: store.perSecond };
    case 'memcache':
      return { memcached: store.servers, tls: store.tls };
  }
}

/** Reason why the configured spend cannot be applied, if so; with `isFatal`, the service does not start. */
export function spendProblem(settings: Settings['counters']) {
  const { isSpendSet, spend, store } = settings;
  if (spend === 'each' || storeTraits(counterOptions(settings)).atomic === 'request') return undefined;
  const how =
    store.kind === 'redis' ? 'one Redis, or a Cluster with CLUSTER_HASH_TAG=domain and COUNTER_KEYS=own' : 'Redis';
  const reason = `it requires counters with one atomic step per request: ${how}`;
  if (isSpendSet) return { isFatal: true, message: `SPEND: ${spend} is not possible here, since ${reason}` };
  if (store.kind !== 'redis') return undefined;
  const message = `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT applies only partly, since ${reason}`;
  return { isFatal: false, message };
}
