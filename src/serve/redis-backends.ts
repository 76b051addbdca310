import type { Records } from '../admin/records.ts';
import type { Backend } from '../backends/backend.ts';
import { createCounterKeys } from '../backends/key.ts';
import { describeAddress } from '../backends/redis/address.ts';
import { RedisBackend } from '../backends/redis/backend.ts';
import { connect } from '../backends/redis/connect.ts';
import { createProbe, isRefusal } from '../backends/redis/probe.ts';
import { RedisRecords } from '../backends/redis/records.ts';
import { referenceCounters } from '../backends/redis/reference/counters.ts';
import type { RedisSettings, StoreSettings } from '../settings/stores.ts';
import type { BackendParts, OpenBackends } from './backend-parts.ts';
import { start } from './cannot-start.ts';
import { createLatenessLog } from './lateness.ts';
import { createRefusalLog } from './refusals.ts';
import { atomicOfRedis } from './traits.ts';

/** @throws CannotStart  a file of certificates cannot be read */
export async function openRedisBackends(
  store: Extract<StoreSettings, { kind: 'redis' }>,
  parts: BackendParts,
): Promise<OpenBackends> {
  const main = await openRedis('REDIS_URL', store.main, parts);
  const { records } = main;
  if (!store.perSecond)
    return { backends: { main: main.backend }, records, description: `in Redis: ${main.description}` };
  const perSecond = await openRedis('REDIS_PERSECOND_URL', store.perSecond, parts);
  return {
    backends: { main: main.backend, perSecond: perSecond.backend },
    records,
    description: `in Redis: ${main.description}; by the second: ${perSecond.description}`,
  };
}

async function openRedis(
  variable: string,
  redisSettings: RedisSettings,
  { settings, clock, monotonicMs, breakers, lateness, log }: BackendParts,
): Promise<{ readonly backend: Backend; readonly description: string; readonly records: Records }> {
  const { address } = redisSettings;
  const description = describeAddress(address);
  const { REDIS_STARTUP_INITIAL_INTERVAL: initialMs, REDIS_STARTUP_MAX_INTERVAL: maxMs } = settings;
  const onTlsProblem = (problem: string) => log.error(`${description}: ${problem}`);
  const redis = await start(variable, 'cannot be used', () =>
    connect({ ...redisSettings, startup: { initialMs, maxMs }, onTlsProblem }),
  );
  let wasDown = false;
  redis.on('ready', () => {
    if (wasDown) log.warn(`connected to ${description} again`);
    else log.info(`connected to ${description}`);
    wasDown = false;
  });
  redis.on('error', (error: Error) => {
    if (!wasDown) log.error(`no connection to ${description}: ${error.message}; retrying`);
    wasDown = true;
  });
  const atomic = atomicOfRedis(address, settings);
  const logRefusal = createRefusalLog(description, clock, log);
  const logLateness = createLatenessLog(lateness, settings.STORE_TIMEOUT, monotonicMs, log);
  const onUnavailable = (reason: string): void => {
    if (reason.endsWith(' ms late')) return logLateness();
    if (!isRefusal(reason)) return;
    logRefusal(reason);
    probe.refused();
  };
  const { CACHE_KEY_PREFIX: prefix, CLUSTER_HASH_TAG: hashTag } = settings;
  const slowMs = Math.max(settings.STORE_TIMEOUT, 1);
  const foreign = settings.COUNTER_KEYS === 'reference' ? { foreign: referenceCounters } : {};
  const options = {
    atomic,
    name: description,
    slowMs,
    breakers,
    prefix,
    monotonicMs,
    lateness,
    onUnavailable,
    ...foreign,
  } as const;
  const probe = createProbe({
    backend: new RedisBackend(redis, clock, options),
    redis,
    keys: createCounterKeys(prefix, { hashTag }),
    onUsable: () => log.warn(`${description} accepts calls again`),
  });
  return { backend: probe.backend, description, records: new RedisRecords(redis, prefix) };
}
