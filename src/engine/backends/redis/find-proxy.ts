import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { isQuiet } from './connect.ts';
import { Pipeline } from './commands.ts';

/** Enough that a proxy with two servers has all of them on one in one of 32,768 cases. */
const KEYS = 16;
/** How long they are kept if this process ends before it has deleted them. */
const KEPT_MS = 10_000;
const ARE_TOGETHER = "for _, key in ipairs(KEYS) do if not redis.call('GET', key) then return 0 end end return 1";

/**
 * Finds out why scripts must not be used on a connection that accepts them. A proxy sends a script to the server of its
 * first key, where the other keys are missing.
 *
 * @param nameKey  makes a key that the user may use
 */
export async function findProxy(redis: Redis, nameKey: (name: string) => string): Promise<string | undefined> {
  if (isQuiet(redis))
    return 'a proxy closes connections on commands that it does not know, and may divide keys among servers';
  const hello = JSON.stringify(await redis.call('HELLO').catch(() => ''));
  if (hello.includes('envoy-redis-proxy')) return 'Envoy’s redis_proxy divides keys among servers';
  const instance = randomUUID();
  const keys = Array.from({ length: KEYS }, (_, at) => nameKey(`${instance}-${at}`));
  const written = await onEach(redis, keys, 'SET', '1', 'PX', String(KEPT_MS));
  if (!written.every((reply) => String(reply) === 'OK')) return undefined; // nothing is known
  const found = await redis.eval(ARE_TOGETHER, KEYS, ...keys).catch(() => undefined);
  await onEach(redis, keys, 'DEL');
  return found === 0 ? 'a proxy divides keys among servers' : undefined;
}

/** The replies to a command on each key; none if the connection was lost. */
function onEach(redis: Redis, keys: readonly string[], name: string, ...args: readonly string[]) {
  const commands = new Pipeline();
  for (const key of keys) commands.add(name, key, ...args);
  return commands.send(redis).catch((): readonly unknown[] => []);
}
