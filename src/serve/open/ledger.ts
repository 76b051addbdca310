import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { every, monotonicMs } from '../../base/clock.ts';
import { Breakers } from '../../engine/backends/breaker.ts';
import { countInstances } from '../../engine/backends/instances.ts';
import { createCounterKeys } from '../../engine/backends/key.ts';
import { type Lateness, watchLateness } from '../../engine/backends/lateness.ts';
import { memoryRecords, type Records } from '../../engine/backends/records.ts';
import { type StoreWatch, watchStore } from '../../engine/backends/store-watch.ts';
import { holderOf } from '../../engine/ledger/holder.ts';
import { LEASE_IDLE_MS } from '../../engine/ledger/lease.ts';
import { Ledger } from '../../engine/ledger/ledger.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { CannotStart, openParts, type Part } from '../parts/start-up.ts';
import { openBackends } from './backends.ts';
import type { OpenBackends } from './open-backends.ts';

/** The ledger, with the store in which it counts. */
export interface OpenStore extends Part, Pick<OpenBackends, 'memory' | 'description' | 'openShares'> {
  readonly ledger: Ledger;
  /** The circuits to the nodes of the store. */
  readonly breakers: Breakers;
  readonly lateness: Lateness;
  /** Undefined: counters are in memory, and always reachable. */
  readonly watch: StoreWatch | undefined;
  /** Stores operators' changes. */
  readonly records: Records;
}

/** Maximum number of counters with leases. */
const MAX_LEASES = 100_000;

/** @throws CannotStart if a certificate file cannot be read */
export function openStore(options: Settings['counters'], { clock, log }: ProcessContext): Promise<OpenStore> {
  return openParts(async (add) => {
    const breakers = new Breakers(monotonicMs);
    const lateness = watchLateness(monotonicMs);
    const {
      backends,
      records = memoryRecords(),
      ...opened
    } = await openBackends(options, {
      ...{ clock, log, monotonicMs, breakers, lateness },
    });
    const { store, denyCacheBytes } = options;
    const isRemote = store.kind !== 'memory';
    const keys = createCounterKeys(options.keys.prefix, options.keys);
    const instance = randomUUID();
    const holder = holderOf(instance);
    const instances = isRemote ? add(countInstances({ backend: backends.main, keys, holder, every })) : undefined;
    const ledger = add(
      new Ledger(backends, {
        ...{ clock, monotonicMs, every, instance, denyCacheBytes },
        leases: store.kind === 'redis' ? { maxLeases: MAX_LEASES, idleMs: LEASE_IDLE_MS } : undefined,
        local: instances && { ...options.memory, instances: instances.count },
      }),
    );
    const watched = [backends.main, ...(backends.perSecond ? [backends.perSecond] : [])];
    const watch = isRemote ? add(watchStore({ backends: watched, keys, clock, monotonicMs })) : undefined;
    add(lateness);
    return { ...opened, ledger, breakers, lateness, watch, records };
  });
}

/** How long start-up waits for the store, so that the first answers are not failures. */
const START_WAIT_MS = 1_000;
const START_POLL_MS = 5;

/** Waits briefly until the store can be reached; the service also starts without it. */
export async function awaitStore({ ledger }: OpenStore): Promise<void> {
  for (let waitedMs = 0; !ledger.health().ready && waitedMs < START_WAIT_MS; waitedMs += START_POLL_MS)
    await sleep(START_POLL_MS);
}

/** How often the first contact with the store is polled. */
const POLL_INTERVAL_MS = 100;

/** Resolves if the store was never reached within this time after the start; 0: never resolves. */
export function whenNeverReached(maxElapsedMs: number, { ledger, description }: OpenStore): Promise<CannotStart> {
  return new Promise((resolve) => {
    if (maxElapsedMs === 0) return;
    const end = setTimeout(() => {
      stopPolling();
      const message = `counters ${description} could not be reached within ${maxElapsedMs} ms of the start`;
      resolve(new CannotStart(`REDIS_STARTUP_MAX_ELAPSED_TIME: ${message}`));
    }, maxElapsedMs).unref();
    const stopPolling = every(POLL_INTERVAL_MS, () => {
      if (!ledger.health().ready) return;
      clearTimeout(end);
      stopPolling();
    });
  });
}
