import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fullCapacity } from '../../../src/engine/holds/limits.ts';
import { openStore } from '../../../src/engine/open/store.ts';
import { createLogger } from '../../../src/operate/observe/log.ts';
import { loggedCounters } from '../../../src/serve/decider/store.ts';
import { readSettings } from '../../../src/settings/settings.ts';
import { eventually } from '../until.ts';
import type { Fault } from './fault.ts';
import { type Counted, type Load, STORE_TIMEOUT_MS, startLoad } from './load.ts';

/** The least time under load before the fault. */
const WARM_MS = 300;
/** A fault is over once no call has failed for this long; during a fault, calls fail all the time. */
const QUIET_MS = 500;
/** The longest time that a recovery may take; on a busy machine, calls also miss their short timeouts without a fault. */
const LONGEST_RECOVERY_MS = 100_000;

/** A fault as seen by callers. */
export interface Report extends Pick<Load, 'calls' | 'failed' | 'longestMs' | 'reasons' | 'thrown'> {
  /** From the start of the fault until Redis could count again. */
  readonly struckMs: number;
  /** From then until the last failed call; 0 if none failed. */
  readonly recoveryMs: number;
  /** The longest time for which this process itself stood still. */
  readonly lateMs: number;
  readonly counters: readonly Counted[];
  /** The largest number of hits that a counter admitted, as a fraction of its limit. */
  readonly most: number;
}

/**
 * Opens counters as the service does, puts them under constant load, causes the fault, and waits for recovery. At the
 * end it uses up all counters, which shows how many hits each has admitted.
 *
 * @throws Error  calls still fail long after the fault
 */
export async function suffer({ begin, areShared = false }: Fault): Promise<Report> {
  const victim = await begin();
  const lateness = monitorEventLoopDelay();
  lateness.enable();
  const settings = await readSettings({
    ...victim.env,
    STORE_TIMEOUT: `${STORE_TIMEOUT_MS}ms`,
    ...(areShared && { COUNTER_KEYS: 'reference' }),
  });
  const { ledger: store } = await openStore(
    loggedCounters(settings.counters, {
      clock: Date.now,
      log: createLogger({ level: 'silent', format: 'json' }),
    }),
  );
  try {
    await eventually(() => store.health().ready);
    const load = startLoad(store, { areShared });
    try {
      await sleep(WARM_MS);
      await eventually(() => load.counters.every(({ admitted }) => admitted > 0)); // so that every counter exists before the fault
      const startMs = performance.now();
      const { failed } = load;
      await victim.strike(() => eventually(() => load.failed > failed));
      const endMs = performance.now();
      await untilQuiet(load, endMs);
      await eventually(() => store.health().ready);
      await load.stop();
      const recoveryMs = Math.max(load.lastFailureMs - endMs, 0);
      await load.drain();
      const most = Math.max(...load.counters.map(({ limit, admitted }) => admitted / fullCapacity(limit)));
      return { ...load, struckMs: endMs - startMs, recoveryMs, lateMs: lateness.max / 1e6, most };
    } finally {
      await load.stop();
    }
  } finally {
    lateness.disable();
    await store.close();
    await victim.stop();
  }
}

async function untilQuiet(load: Load, sinceMs: number): Promise<void> {
  for (;;) {
    const nowMs = performance.now();
    const isQuiet = nowMs - Math.max(load.lastFailureMs, sinceMs) > QUIET_MS;
    if (isQuiet) return;
    if (nowMs - sinceMs > LONGEST_RECOVERY_MS)
      throw new Error(`calls still fail ${LONGEST_RECOVERY_MS} ms after the fault: ${[...load.reasons].join('; ')}`);
    await sleep(POLL_MS);
  }
}
const POLL_MS = 25;
