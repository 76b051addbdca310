import { setTimeout as sleep } from 'node:timers/promises';
import { openFetch } from './outgoing/fetcher.ts';
import type { FetchOptions, WeirFetch } from './outgoing/options.ts';

export {
  type FetchOptions,
  type FetchStats,
  OriginPaused,
  type RetryBudgetOptions,
  type WeirFetch,
} from './outgoing/options.ts';

/**
 * A `fetch` for third-party APIs. It waits as long as they request, with full jitter, and retries requests that may be
 * repeated, within a budget. With a client of Weir, all processes pause together.
 *
 * @throws TypeError  an option is invalid
 */
export function weirFetch(options: FetchOptions = {}): WeirFetch {
  return openFetch(options, {
    fetch: (input, init) => fetch(input, init),
    sleep: (ms, signal) => sleep(ms, undefined, { signal }),
    nowMs: () => performance.now(),
    dateMs: Date.now,
    random: Math.random,
  });
}
