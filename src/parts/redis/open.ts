import { Cluster, type Redis } from 'ioredis';
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
} from '../../engine/open/options.ts';
import { describeAddress, expectedAddress, parseAddress } from '../../settings/redis-address.ts';
import { RedisBackend } from './backend.ts';
import { connect, isQuiet, nameNode, type RedisConnection } from './connect.ts';
import { isLate, isRefusal } from './probe.ts';
import { describeError } from './reason.ts';
import { redisRecords } from './records.ts';
import { RedisUsage } from './usage.ts';

/** @throws InvalidOptions  a URL is malformed, or a file of certificates cannot be read */
export async function openRedisBackends(
  store: RedisStore,
  options: CounterOptions,
  context: BackendContext,
): Promise<OpenBackends> {
  const open = (option: string, written: string | RedisOptions) =>
    openRedis({ ...readOptions(written, option), option, isOneOfTwo: store.perSecond !== undefined }, options, context);
  const { backend: main, description, ...own } = open('store.redis', store.redis);
  if (!store.perSecond) return { backends: { main }, ...own, description: `in Redis: ${description}` };
  try {
    const perSecond = open('store.perSecond', store.perSecond);
    return {
      backends: { main, perSecond: perSecond.backend },
      ...own,
      circuits: () => new Map([...own.circuits(), ...perSecond.circuits()]),
      usage: own.usage && perSecond.usage && [...own.usage, ...perSecond.usage],
      description: `in Redis: ${description}; by the second: ${perSecond.description}`,
    };
  } catch (error) {
    await main.close();
    throw error;
  }
}

function openRedis(
  own: RedisOptions & { readonly option: string; readonly isOneOfTwo: boolean },
  options: CounterOptions,
  context: BackendContext,
): Required<Omit<OpenBackends, 'backends' | 'memory'>> & { readonly backend: Backend } {
  const { clock, isOnClock = false, monotonicMs, lateness, onStoreEvent } = context;
  const keys = keyOptions(options);
  const server = describeAddress(own.address);
  const onTlsProblem = (reason: string): void => onStoreEvent({ kind: 'invalid_tls', server, reason });
  const redis = openConnection({ ...own, startup: options.startup, onTlsProblem });
  const reportUp = (): void => onStoreEvent({ kind: 'up', server });
  redis.on('ready', () => {
    if (!isQuiet(redis)) return reportUp();
    // without a handshake, the server has not answered yet
    redis.ping().then(reportUp, () => {});
  });
  redis.on('error', (error: Error) => onStoreEvent({ kind: 'down', server, reason: describeError(error) }));
  if (redis instanceof Cluster) reportMasters(redis, onStoreEvent);
  const onUnavailable = (reason: string): void => {
    if (isLate(reason)) return onStoreEvent({ kind: 'late', server, latenessMs: lateness.latenessMs() });
    if (!isRefusal(reason) || redis.status !== 'ready') return; // else the missing connection has been reported
    onStoreEvent({ kind: 'refuses_calls', server, reason });
  };
  const usage = options.usage ? new RedisUsage(redis, keys.prefix) : undefined;
  const backend = new RedisBackend(redis, clock, {
    replay: isOnClock,
    monotonicMs,
    lateness,
    onUnavailable,
    onSlow: (tookMs) => onStoreEvent({ kind: 'slow', server, tookMs }),
    name: server,
    isOneOfTwo: own.isOneOfTwo,
    prefix: keys.prefix,
    atomic: atomicOfRedis(own, keys),
    usage,
    probe: {
      keys: createCounterKeys(keys.prefix, keys),
      onProblem(reason) {
        if (isRefusal(reason)) return onUnavailable(reason);
        const isKnown = isLate(reason) || reason === 'not connected' || redis.status !== 'ready'; // it has its own event
        if (!isKnown) onStoreEvent({ kind: 'cannot_count', server, reason });
      },
      onUsable: () => onStoreEvent({ kind: 'accepts_calls', server }),
      onLimited: (reason) => onStoreEvent({ kind: 'counts_windows_only', server, reason }),
    },
  });
  return {
    backend,
    description: server,
    circuits: () => backend.circuits(),
    runScript: scriptRunner(redis),
    records: redisRecords(redis, keys.prefix),
    usage: usage && [usage],
  };
}

/** Reports each master that a Cluster is connected without, and when it is back. */
function reportMasters(cluster: Cluster, onStoreEvent: BackendContext['onStoreEvent']): void {
  const lost = new Set<string>();
  cluster.on('+node', (node: Redis) => {
    const server = nameNode(node);
    node.on('error', (error: Error) => {
      if (cluster.status !== 'ready' || node.options.readOnly) return;
      lost.add(server);
      onStoreEvent({ kind: 'down', server, reason: describeError(error) });
    });
    node.on('ready', () => {
      if (lost.delete(server)) onStoreEvent({ kind: 'up', server });
    });
  });
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

/** @throws InvalidOptions */
function openConnection(own: Parameters<typeof connect>[0] & { readonly option: string }): RedisConnection {
  try {
    return connect(own);
  } catch (error) {
    throw new InvalidOptions(own.option, error instanceof Error ? error.message : String(error));
  }
}

/** @throws InvalidOptions  the URL is malformed */
function readOptions(written: string | RedisOptions, option: string): RedisOptions {
  if (typeof written !== 'string') return written;
  const address = parseAddress(written, 'SINGLE', { socket: undefined, auth: undefined });
  if (!address) throw new InvalidOptions(option, `must be ${expectedAddress.SINGLE}`); // the URL may hold a password
  if ('refusal' in address) throw new InvalidOptions(option, address.refusal);
  return { address };
}
