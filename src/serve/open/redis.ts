import type { Backend } from '../../engine/backends/backend.ts';
import { createCounterKeys } from '../../engine/backends/key.ts';
import { describeAddress } from '../../engine/backends/redis/address.ts';
import { RedisBackend } from '../../engine/backends/redis/backend.ts';
import { connect, type RedisConnection } from '../../engine/backends/redis/connect.ts';
import { createProbe, isLate, isRefusal } from '../../engine/backends/redis/probe.ts';
import { reasonOf } from '../../engine/backends/redis/reason.ts';
import { RedisRecords } from '../../engine/backends/redis/records.ts';
import { referenceCounters } from '../../engine/backends/redis/reference/counters.ts';
import { createOutageLog, createSeldomLog, type OutageLog } from '../../operate/observe/seldom-log.ts';
import type { Settings } from '../../settings/settings.ts';
import { atomicOfRedis } from '../../settings/store-traits.ts';
import type { RedisSettings, StoreSettings } from '../../settings/stores.ts';
import { start } from '../parts/start-up.ts';
import type { BackendContext, OpenBackends } from './open-backends.ts';

/** No request waits for shares. */
const MIN_SHARES_TIMEOUT_MS = 1_000;

/** @throws CannotStart  a file of certificates cannot be read */
export async function openRedisBackends(
  store: Extract<StoreSettings, { kind: 'redis' }>,
  options: Settings['counters'],
  context: BackendContext,
): Promise<OpenBackends> {
  const open = (variable: string, redis: RedisSettings) => openRedis(variable, redis, options, context);
  const { backend: main, description, ...kept } = await open('REDIS_URL', store.main);
  if (!store.perSecond) return { backends: { main }, ...kept, description: `in Redis: ${description}` };
  const perSecond = await open('REDIS_PERSECOND_URL', store.perSecond);
  return {
    backends: { main, perSecond: perSecond.backend },
    ...kept,
    description: `in Redis: ${description}; by the second: ${perSecond.description}`,
  };
}

async function openRedis(
  variable: string,
  settings: RedisSettings,
  { keys, startup, timeoutMs }: Settings['counters'],
  { clock, isOnClock = false, monotonicMs, breakers, lateness, log }: BackendContext,
): Promise<Required<Pick<OpenBackends, 'description' | 'records' | 'openShares'>> & { readonly backend: Backend }> {
  const description = describeAddress(settings.address);
  const onTlsProblem = (problem: string) => log.error(`${description}: ${problem}`);
  const redis = await start(variable, 'cannot be used', () => connect({ ...settings, startup, onTlsProblem }));
  const logSeldom = createSeldomLog(monotonicMs);
  logConnection(redis, { description, log, outages: createOutageLog(logSeldom) });
  let isRefusalLogged = false;
  const logRefusal = (reason: string, what: string): void =>
    logSeldom(reason, () => {
      isRefusalLogged = true;
      log.error(`${description} ${what}: ${reason}; not logged again for a minute`);
    });
  const onUnavailable = (reason: string): void => {
    if (isLate(reason))
      return logSeldom('late', () =>
        log.warn(
          `this process is ${Math.round(lateness.latenessMs())} ms late: requests are answered from memory (on_overload) although the store may be healthy; give the process more CPU. Not logged again for a minute`,
        ),
      );
    if (!isRefusal(reason) || redis.status !== 'ready') return; // else why there is no connection is logged
    logRefusal(reason, 'refuses calls');
    probe.refused();
  };
  const backend = new RedisBackend(redis, clock, {
    ...{ replay: isOnClock, breakers, monotonicMs, lateness, onUnavailable, name: description, prefix: keys.prefix },
    atomic: atomicOfRedis(settings.address, keys),
    ...(keys.kind === 'reference' && { foreign: referenceCounters }),
  });
  const probe = createProbe({
    ...{ backend, redis, keys: createCounterKeys(keys.prefix, keys) },
    onProblem(reason) {
      const isKnown = isRefusal(reason) || isLate(reason) || redis.status !== 'ready'; // then it has its own line
      if (!isKnown) logRefusal(reason, 'cannot be counted in');
    },
    onUsable() {
      if (isRefusalLogged) log.warn(`${description} accepts calls again`);
      isRefusalLogged = false;
    },
  });
  const openShares: OpenBackends['openShares'] = async (terms) => {
    const { RedisShares } = await import('../../engine/backends/redis/shares.ts');
    return new RedisShares(redis, { terms, timeoutMs: Math.max(timeoutMs ?? 0, MIN_SHARES_TIMEOUT_MS) });
  };
  return { backend: probe.backend, description, openShares, records: new RedisRecords(redis, keys.prefix) };
}

interface ConnectionLog {
  readonly description: string;
  readonly log: BackendContext['log'];
  readonly outages: OutageLog;
}

function logConnection(redis: RedisConnection, { description, log, outages }: ConnectionLog): void {
  let wasReady = false;
  redis.on('ready', () => {
    if (outages.recovered('connection')) log.warn(`connected to ${description} again`);
    else if (!wasReady) log.info(`connected to ${description}`);
    wasReady = true;
  });
  redis.on('error', (error: Error) => {
    const reason = reasonOf(error);
    outages.failed('connection', reason, () => log.error(`no connection to ${description}: ${reason}; retrying`));
  });
}
