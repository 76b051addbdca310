import { randomUUID } from 'node:crypto';
import { type Clock, every, monotonicMs as processMonotonicMs } from '../../base/clock.ts';
import { besideRedis } from '../../parts/stores.ts';
import { countInstances } from '../backends/instances.ts';
import { createCounterKeys } from '../backends/key.ts';
import { createStopwatch, type Lateness, watchLateness } from '../backends/lateness.ts';
import { memoryRecords, type Records } from '../backends/records.ts';
import { type StoreWatch, watchStore } from '../backends/store-watch.ts';
import { hashHolder } from '../holds/claim.ts';
import { Ledger } from '../ledger/ledger.ts';
import { openBackends } from './backends.ts';
import type { OpenBackends } from './open-backends.ts';
import { type CounterOptions, keyOptions, memoryBounds } from './options.ts';

/** The ledger, with the store in which it counts. */
export interface OpenStore extends Pick<OpenBackends, 'memory' | 'circuits' | 'runScript' | 'description' | 'usage'> {
  readonly ledger: Ledger;
  readonly lateness: Lateness;
  /** Whether the store is reachable; undefined for counters in memory, which always are. */
  readonly watch: StoreWatch | undefined;
  /** Stores operators' changes. */
  readonly records: Records;
  close(): Promise<void>;
}

/** @throws InvalidOptions */
export async function openStore(options: CounterOptions & { readonly clock: Clock }): Promise<OpenStore> {
  const { store = 'memory', clock, monotonicMs = processMonotonicMs, onStoreEvent = () => {} } = options;
  const lateness = watchLateness(monotonicMs);
  const context = { clock, monotonicMs, lateness, onStoreEvent };
  const { backends, records = memoryRecords(), ...opened } = await openBackends(options, context);
  const isRemote = store !== 'memory';
  const openLeases = isRemote && 'redis' in store ? await besideRedis.leases?.() : undefined;
  const { prefix, hashTag } = keyOptions(options);
  const keys = createCounterKeys(prefix, { hashTag });
  const instance = randomUUID();
  const holder = hashHolder(instance);
  const instances = isRemote ? countInstances({ backend: backends.main, keys, holder, every }) : undefined;
  const ledger = new Ledger(backends, {
    clock,
    monotonicMs,
    every,
    instance,
    denyCacheBytes: options.refusalCacheBytes ?? 0,
    keepsRefusals: options.keepRefusals,
    leases: openLeases?.(options),
    local: instances && { ...memoryBounds(options), instances: instances.count },
  });
  const watched = [backends.main, ...(backends.perSecond ? [backends.perSecond] : [])];
  const watchOptions = { backends: watched, keys, clock, stopwatch: createStopwatch(monotonicMs, lateness) };
  const watch = isRemote ? watchStore(watchOptions) : undefined;
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    lateness.close();
    watch?.close();
    await ledger.close();
    instances?.close();
  };
  return {
    ...opened,
    ledger,
    lateness,
    watch,
    records,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
