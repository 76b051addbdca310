import type { Clock } from '../../base/clock.ts';
import { every, monotonicMs } from '../../base/clock.ts';
import { type CounterOptions, InvalidOptions, type StoreEvent } from '../../engine/open/options.ts';
import type { OpenStore } from '../../engine/open/store.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { createOutageLog, createSeldomLog } from '../../operate/observe/seldom-log.ts';
import type { Settings } from '../../settings/settings.ts';
import { counterOptions } from '../../settings/store-traits.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { CannotStart } from '../parts/start-up.ts';

/** The options of the store, whose events are logged. */
export const loggedCounters = (
  settings: Settings['counters'],
  { clock, log }: Pick<ProcessContext, 'clock' | 'log'>,
): CounterOptions & { readonly clock: Clock } => ({
  ...counterOptions(settings),
  clock,
  monotonicMs,
  onStoreEvent: settings.store.kind === 'memcache' ? logMemcached(log) : logRedis(log),
});

/** The settings that the options of a store come from. */
const variables: Readonly<Record<string, string>> = {
  'store.redis': 'REDIS_URL',
  'store.perSecond': 'REDIS_PERSECOND_URL',
  'store.memcached': 'MEMCACHE_HOST_PORT',
};

/** Runs a step that opens the store. @throws CannotStart if its options cannot be used */
export async function startStore<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof InvalidOptions)) throw error;
    throw new CannotStart(`${variables[error.option] ?? error.option}: cannot be used: ${error.problem}`);
  }
}

function logRedis(log: Logger): (event: StoreEvent) => void {
  const servers = new Map<string, (event: StoreEvent) => void>();
  return (event) => {
    const known = servers.get(event.server) ?? logServer(event.server, log);
    servers.set(event.server, known);
    known(event);
  };
}

function logServer(server: string, log: Logger): (event: StoreEvent) => void {
  const logSeldom = createSeldomLog(monotonicMs);
  const outages = createOutageLog(logSeldom);
  let wasUp = false;
  let isRefusalLogged = false;
  const logRefusal = (reason: string, what: string): void =>
    // those of a Cluster may have the number of a slot
    logSeldom(reason.replace(/\d+/g, '#'), () => {
      isRefusalLogged = true;
      log.error(`${server} ${what}: ${reason}; not logged again for a minute`);
    });
  return (event) => {
    switch (event.kind) {
      case 'up':
        if (outages.recovered('connection')) log.warn(`connected to ${server} again`);
        else if (!wasUp) log.info(`connected to ${server}`);
        wasUp = true;
        return;
      case 'down': {
        const { reason } = event;
        return outages.failed('connection', reason, () => log.error(`no connection to ${server}: ${reason}; retrying`));
      }
      case 'refuses_calls':
        return logRefusal(event.reason, 'refuses calls');
      case 'cannot_count':
        return logRefusal(event.reason, 'cannot be counted in');
      case 'counts_windows_only': {
        const line = `counts fixed windows only: ${event.reason}`;
        return logSeldom(line, () => log.warn(`${server} ${line}`));
      }
      case 'accepts_calls':
        if (isRefusalLogged) log.warn(`${server} accepts calls again`);
        isRefusalLogged = false;
        return;
      case 'slow': {
        const took = `replies take longer than callers wait, the last one ${Math.round(event.tookMs)} ms or more`;
        return logSeldom('slow', () =>
          log.error(
            `${server} is slow: ${took}; see "Is the store slow?" in the runbooks. Not logged again for a minute`,
          ),
        );
      }
      case 'late': {
        const lateMs = Math.round(event.latenessMs);
        return logSeldom('late', () =>
          log.warn(
            `this process is ${lateMs} ms late: requests are answered from memory (on_overload) although the store may be healthy; give the process more CPU. Not logged again for a minute`,
          ),
        );
      }
      case 'invalid_tls':
        return log.error(`${server}: ${event.reason}`);
    }
  };
}

function logMemcached(log: Logger): (event: StoreEvent) => void {
  const logSeldom = createSeldomLog(monotonicMs);
  const outages = createOutageLog(logSeldom);
  return (event) => {
    const { server } = event;
    if (event.kind === 'down') {
      const { reason } = event;
      outages.failed(server, reason, () => log.error(`memcached ${server}: ${reason}; retrying`));
    } else if (event.kind === 'refuses_calls') {
      const line = `memcached ${server} refuses calls: ${event.reason}`;
      logSeldom(line, () => log.error(`${line}; not logged again for a minute`));
    } else if (event.kind === 'invalid_tls') log.error(`${server}: ${event.reason}`);
    else if (outages.recovered(server)) log.warn(`memcached ${server} answers again`);
  };
}

/** How often the first contact with the store is polled. */
const POLL_INTERVAL_MS = 100;

/** Minimum time for the first contact, even if opening the other parts has taken longer than the store was given. */
const MIN_CONTACT_MS = 500;

/**
 * Resolves if the store was never reached within this time after the start; 0 for no limit.
 *
 * @param upMs  the time since the start
 */
export function whenNeverReached(
  maxElapsedMs: number,
  { ledger, description }: Pick<OpenStore, 'ledger' | 'description'>,
  upMs: number,
): Promise<CannotStart> {
  return new Promise((resolve) => {
    if (maxElapsedMs === 0) return;
    const endMs = monotonicMs() + Math.max(maxElapsedMs - upMs, Math.min(maxElapsedMs, MIN_CONTACT_MS));
    const check = (isLast: boolean): void => {
      const isReady = ledger.health().ready;
      if (isReady || isLast) stopPolling();
      const message = `counters ${description} could not be reached within ${maxElapsedMs} ms of the start`;
      if (isLast && !isReady) resolve(new CannotStart(`REDIS_STARTUP_MAX_ELAPSED_TIME: ${message}`));
    };
    // a late process reads what has arrived first
    const stopPolling = every(POLL_INTERVAL_MS, () => setImmediate(check, monotonicMs() >= endMs));
  });
}
