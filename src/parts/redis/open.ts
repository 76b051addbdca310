import { type Backend, StoreUnavailable } from '../../engine/backends/backend.ts';
import { createCounterKeys } from '../../engine/backends/key.ts';
import type { BackendContext, OpenBackends, RunScript } from '../../engine/open/open-backends.ts';
import {
  atomicOfRedis,
  type CounterOptions,
  InvalidOptions,
  keyOptions,
  type RedisOptions,
  type RedisStore,
  redisOptions,
} from '../../engine/open/options.ts';
import { describeAddress } from '../../engine/open/redis-address.ts';
import { RedisBackend } from './backend.ts';
import { connect, type RedisConnection } from './connect.ts';
import { isLate, isOfScripts, isRefusal } from './probe.ts';
import { describeError } from './reason.ts';
import { RedisRecords } from './records.ts';
import { RedisUsage } from './usage.ts';

const CONNECT_TIMEOUT_MS = 10_000;
const STARTUP = { initialMs: 1_000, maxMs: 30_000 };

/** @throws InvalidOptions  a URL is malformed, or a file of certificates cannot be read */
export async function openRedisBackends(
  store: RedisStore,
  options: CounterOptions,
  context: BackendContext,
): Promise<OpenBackends> {
  const {
    backend: main,
    description,
    ...kept
  } = openRedis({ option: 'store.redis', written: store.redis }, options, context);
  if (!store.perSecond) return { backends: { main }, ...kept, description: `in Redis: ${description}` };
  try {
    const perSecond = openRedis({ option: 'store.perSecond', written: store.perSecond }, options, context);
    return {
      backends: { main, perSecond: perSecond.backend },
      ...kept,
      usage: kept.usage && perSecond.usage && [...kept.usage, ...perSecond.usage],
      description: `in Redis: ${description}; by the second: ${perSecond.description}`,
    };
  } catch (error) {
    await main.close();
    throw error;
  }
}

function openRedis(
  { option, written }: { readonly option: string; readonly written: string | RedisOptions },
  options: CounterOptions,
  { clock, isOnClock = false, monotonicMs, breakers, lateness, onStoreEvent }: BackendContext,
): Required<Pick<OpenBackends, 'description' | 'records' | 'runScript' | 'usage'>> & { readonly backend: Backend } {
  const own = redisOptions(written, option);
  const keys = keyOptions(options);
  const server = describeAddress(own.address);
  const redis = open({ ...own, option }, options, (reason) => onStoreEvent({ kind: 'invalid_tls', server, reason }));
  redis.on('ready', () => onStoreEvent({ kind: 'up', server }));
  redis.on('error', (error: Error) => onStoreEvent({ kind: 'down', server, reason: describeError(error) }));
  const onUnavailable = (reason: string): void => {
    if (isLate(reason)) return onStoreEvent({ kind: 'late', server, latenessMs: lateness.latenessMs() });
    if (!isRefusal(reason) || redis.status !== 'ready') return; // else the missing connection has been reported
    onStoreEvent({ kind: 'refuses_calls', server, reason });
  };
  const usage = options.usage ? new RedisUsage(redis, keys.prefix) : undefined;
  const backend = new RedisBackend(redis, clock, {
    replay: isOnClock,
    breakers,
    monotonicMs,
    lateness,
    onUnavailable,
    name: server,
    prefix: keys.prefix,
    atomic: atomicOfRedis(own.address, keys),
    usage,
    probe: {
      keys: createCounterKeys(keys.prefix, keys),
      onProblem(reason) {
        if (isOfScripts(reason)) return onUnavailable(reason);
        const isKnown = isRefusal(reason) || isLate(reason) || redis.status !== 'ready'; // then it has its own event
        if (!isKnown) onStoreEvent({ kind: 'cannot_count', server, reason });
      },
      onUsable: () => onStoreEvent({ kind: 'accepts_calls', server }),
      onLimited: (reason) => onStoreEvent({ kind: 'counts_windows_only', server, reason }),
    },
  });
  return {
    backend,
    description: server,
    runScript: scriptRunner(redis),
    records: new RedisRecords(redis, keys.prefix),
    usage: usage && [usage],
  };
}

/** Runs scripts of other parts. */
export const scriptRunner =
  (redis: RedisConnection): RunScript =>
  async (text, key, args) => {
    if (redis.status !== 'ready') throw new StoreUnavailable('Redis cannot be reached');
    try {
      return await redis.eval(text, 1, key, ...args);
    } catch (error) {
      throw new StoreUnavailable(describeError(error));
    }
  };

function open(
  {
    option,
    address,
    tls,
    sentinelCredentials = {},
    connectTimeoutMs = CONNECT_TIMEOUT_MS,
  }: RedisOptions & { readonly option: string },
  { startup = STARTUP }: CounterOptions,
  onTlsProblem: (problem: string) => void,
): RedisConnection {
  try {
    return connect({ address, tls, sentinelCredentials, connectTimeoutMs, startup, onTlsProblem });
  } catch (error) {
    throw new InvalidOptions(option, error instanceof Error ? error.message : String(error));
  }
}
