import type { Redis } from 'ioredis';
import { isQuiet } from './connect.ts';
import { Pipeline } from './pipeline.ts';

/** Enough that a proxy with two servers has all of them on one in one of 32,768 cases. */
const KEYS = 16;
/** How long they are kept. */
const KEPT_MS = 10_000;
const ARE_TOGETHER = "for _, key in ipairs(KEYS) do if not redis.call('GET', key) then return 0 end end return 1";

/**
 * Why scripts must not run on the connection, although they may: a proxy sends each command to the server of its first
 * key, so that a script does not find the others.
 *
 * @param nameKey  makes a key that the user may use
 */
export async function findProxy(redis: Redis, nameKey: (name: string) => string): Promise<string | undefined> {
  if (isQuiet(redis))
    return 'a proxy closes connections on commands that it does not know, and may divide keys among servers';
  const hello = JSON.stringify(await redis.call('HELLO').catch(() => ''));
  if (hello.includes('envoy-redis-proxy')) return 'Envoy’s redis_proxy divides keys among servers';
  const keys = Array.from({ length: KEYS }, (_, at) => nameKey(String(at)));
  const commands = new Pipeline();
  for (const key of keys) commands.add('SET', key, '1', 'PX', String(KEPT_MS));
  const written = await commands.send(redis).catch(() => []);
  if (!written.every((reply) => String(reply) === 'OK')) return undefined; // nothing is known
  const found = await redis.eval(ARE_TOGETHER, KEYS, ...keys).catch(() => undefined);
  return found === 0 ? 'a proxy divides keys among servers' : undefined;
}
