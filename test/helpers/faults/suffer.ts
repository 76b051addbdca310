import { setTimeout as sleep } from 'node:timers/promises';
import { capacityOf } from '../../../src/algorithms/index.ts';
import { openStore } from '../../../src/ledger/open.ts';
import { createLogger } from '../../../src/observe/log.ts';
import { readSettings } from '../../../src/settings.ts';
import { eventually } from '../statsd.ts';
import type { Fault } from './fault.ts';
import { type Counted, type Load, STORE_TIMEOUT_MS, startLoad } from './load.ts';

/** Before the fault. */
const WARM_MS = 300;
/** Calls go well for so long: it is over. While something is wrong, calls fail all the time. */
const QUIET_MS = 500;
/** Nothing takes longer to go back to normal. */
const LONGEST_RECOVERY_MS = 20_000;

/** What the callers of the service saw of a fault. */
export interface Report extends Pick<Load, 'calls' | 'failed' | 'longestMs' | 'reasons' | 'thrown'> {
  /** From the beginning of the fault until Redis could count again. */
  readonly struckMs: number;
  /** From then on until the last call that failed; 0 where none did. */
  readonly recoveryMs: number;
  readonly counters: readonly Counted[];
  /** What the counter that admitted most has admitted, as a share of its limit. */
  readonly most: number;
}

/**
 * Puts the counters of the service, as it opens them, under constant load, lets the fault happen, and waits until all is well again. In the end
 * all counters are spent, so that it shows what each has admitted.
 *
 * @throws Error  calls still fail long after the fault
 */
export async function suffer({ begin, areShared = false }: Fault): Promise<Report> {
  const victim = await begin();
  const settings = await readSettings({
    ...victim.env,
    STORE_TIMEOUT: `${STORE_TIMEOUT_MS}ms`,
    ...(areShared && { COUNTER_KEYS: 'reference' }),
  });
  const { ledger: store } = await openStore(settings.counters, {
    clock: Date.now,
    log: createLogger({ level: 'silent', format: 'json' }),
  });
  try {
    await eventually(() => store.health().ready);
    const load = startLoad(store, { areShared });
    try {
      await sleep(WARM_MS);
      const startMs = performance.now();
      await victim.strike();
      const endMs = performance.now();
      await untilQuiet(load, endMs);
      await eventually(() => store.health().ready);
      await load.stop();
      const recoveryMs = Math.max(load.lastFailureMs - endMs, 0);
      await load.drain();
      const most = Math.max(...load.counters.map(({ limit, admitted }) => admitted / capacityOf(limit)));
      return { ...load, struckMs: endMs - startMs, recoveryMs, most };
    } finally {
      await load.stop();
    }
  } finally {
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
