import { type Clock, monotonicMs as processMonotonicMs } from '../../base/clock.ts';
import { watchLateness } from '../backends/lateness.ts';
import { awaitReady } from '../backends/within.ts';
import { LedgerBackends } from '../ledger/ledger-backends.ts';
import type { StoreLimitation } from '../rules/compile/fit.ts';
import { openBackends } from './backends.ts';
import type { CounterOptions } from './options.ts';

type TimedOptions = CounterOptions & { readonly clock: Clock };

/** What the Redis of these options cannot do, which is asked on connections of their own; undefined for other stores. */
export function createLimitation(options: TimedOptions): StoreLimitation | undefined {
  const { store = 'memory' } = options;
  if (store === 'memory' || !('redis' in store)) return undefined;
  let isAsked = false;
  let reason: string | undefined;
  return {
    reason() {
      isAsked = true;
      return reason;
    },
    async learn() {
      if (!isAsked) return false;
      const before = reason;
      const answer = await ask(options);
      if (answer) reason = answer.reason;
      return reason !== before;
    },
  };
}

/** @returns undefined if the store cannot be reached in time */
async function ask(options: TimedOptions): Promise<{ readonly reason: string | undefined } | undefined> {
  const { clock, monotonicMs = processMonotonicMs } = options;
  const lateness = watchLateness(monotonicMs);
  const context = { clock, monotonicMs, lateness, onStoreEvent: () => {} };
  let backends: LedgerBackends | undefined;
  try {
    backends = new LedgerBackends((await openBackends({ ...options, usage: false }, context)).backends);
    await awaitReady(backends);
    const [reason] = backends.all.flatMap((backend) => backend.limitation?.() ?? []);
    return backends.health().ready ? { reason } : undefined;
  } finally {
    lateness.close();
    await backends?.close();
  }
}
