import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, monotonicMs as processMonotonicMs } from '../../base/clock.ts';
import type { Backend } from '../backends/backend.ts';
import { Breakers } from '../backends/breaker.ts';
import { watchLateness } from '../backends/lateness.ts';
import type { StoreLimitation } from '../rules/compile/fit.ts';
import { openBackends } from './backends.ts';
import type { CounterOptions } from './options.ts';

/** How long rules wait for the store. */
const MAX_WAIT_MS = 1_000;
const POLL_MS = 5;

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
  const context = { clock, monotonicMs, breakers: new Breakers(monotonicMs), lateness, onStoreEvent: () => {} };
  const all: Backend[] = [];
  try {
    const { backends } = await openBackends({ ...options, usage: false }, context);
    all.push(backends.main, ...(backends.perSecond ? [backends.perSecond] : []));
    const areReady = (): boolean => all.every((backend) => backend.health().ready);
    for (let waitedMs = 0; !areReady() && waitedMs < MAX_WAIT_MS; waitedMs += POLL_MS) await sleep(POLL_MS);
    return areReady() ? { reason: all.flatMap((backend) => backend.limitation?.() ?? [])[0] } : undefined;
  } finally {
    lateness.close();
    for (const backend of all) await backend.close();
  }
}
