import { unitMs } from '../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import type { StoreWatch } from '../../src/engine/backends/store-watch.ts';
import { createDebit } from '../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../src/engine/ledger/ledger.ts';
import { openStore } from '../../src/engine/open/store.ts';
import { createLogger } from '../../src/operate/observe/log.ts';
import { loggedCounters } from '../../src/serve/decider/store.ts';
import type { Environment } from '../../src/settings/near-misses.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { fixedWindowOf } from './limits.ts';

/** Counters, opened as the service does, ready or not. */
export interface OpenCounters {
  readonly ledger: Ledger;
  /** Why the counters are not ready; empty: they are. */
  problem(): string;
  /** The result of the latest check; there is one each second. */
  state(): ReturnType<StoreWatch['state']>;
  /** The log lines, except the one about the first connection. */
  lines(): readonly string[];
  close(): Promise<void>;
}

export async function openCounters(env: Environment): Promise<OpenCounters> {
  const settings = await readSettings({ STORE_TIMEOUT: '2s', ...env });
  const lines: string[] = [];
  const log = createLogger({ level: 'silent', format: 'json' });
  for (const level of ['warn', 'error'] as const) log[level] = (line: unknown) => void lines.push(String(line));
  const { ledger, watch, close } = await openStore(loggedCounters(settings.counters, { clock: Date.now, log }));
  return {
    ledger,
    problem() {
      const health = ledger.health();
      return health.ready ? '' : health.reason;
    },
    state() {
      if (!watch) throw new Error('counters in memory are not watched');
      return watch.state();
    },
    lines: () => lines,
    close: async () => close(),
  };
}

/** Takes one hit from a limit of twenty a day. */
export async function takeHit({ ledger }: Pick<OpenCounters, 'ledger'>, timeoutMs = 5_000) {
  const limit = fixedWindowOf(20, unitMs.DAY);
  const debit = createDebit({ key: 'counter' as CounterKey }, { limit, policy: {} }, 1, true); // any key will do
  return (await ledger.debit([debit], { spend: 'each', timeoutMs }))[0];
}
