import { StoreUnavailable } from '../../engine/backends/backend.ts';
import type { Records } from '../../engine/backends/records.ts';
import { isQuiet, type RedisConnection } from './connect.ts';
import { answered } from './reason.ts';

/** Operators' records in Redis, under separate keys. @param prefix  precedes every key, including those of counters */
export function redisRecords(redis: RedisConnection, prefix: string): Records {
  /** @throws StoreUnavailable  with the key, if another program has given it another type */
  const at = async <T>(name: string, call: (key: string) => Promise<T>): Promise<T> => {
    const key = `${prefix}weir|${name}`;
    try {
      return await answered(call(key));
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('WRONGTYPE')) throw error;
      throw new StoreUnavailable(`redis: another program has written ${key}, which has another type: delete it`);
    }
  };
  return {
    async append(list, text, max) {
      await at(list, (key) => redis.lpush(key, text));
      await at(list, (key) => redis.ltrim(key, 0, max - 1));
    },
    latest: (list, count) => at(list, (key) => redis.lrange(key, 0, count - 1)),
    async put(map, field, text) {
      await at(map, (key) => redis.hset(key, field, text));
    },
    async putOnce(map, field, text) {
      await at(map, (key) => redis.hsetnx(key, field, text));
      return (await at(map, (key) => redis.hget(key, field))) ?? text;
    },
    async remove(map, field) {
      await at(map, (key) => redis.hdel(key, field));
    },
    all: async (map) => new Map(Object.entries(await at(map, (key) => redis.hgetall(key)))),
    async nowMs() {
      if (isQuiet(redis)) throw new StoreUnavailable('redis: a proxy does not tell the time');
      return Number((await answered(redis.time()))[0]) * 1_000;
    },
  };
}
