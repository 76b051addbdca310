import { StoreUnavailable } from '../../engine/backends/backend.ts';
import { isQuiet, type RedisConnection } from './connect.ts';
import { answered } from './reason.ts';

/** Stores operators' records in Redis, under separate keys. */
export class RedisRecords {
  readonly #redis: RedisConnection;
  readonly #prefix: string;

  /** @param prefix  precedes every key, including those of counters */
  constructor(redis: RedisConnection, prefix: string) {
    this.#redis = redis;
    this.#prefix = prefix;
  }

  async append(list: string, text: string, max: number): Promise<void> {
    await this.#at(list, (key) => this.#redis.lpush(key, text));
    await this.#at(list, (key) => this.#redis.ltrim(key, 0, max - 1));
  }

  latest(list: string, count: number): Promise<readonly string[]> {
    return this.#at(list, (key) => this.#redis.lrange(key, 0, count - 1));
  }

  async put(map: string, field: string, text: string): Promise<void> {
    await this.#at(map, (key) => this.#redis.hset(key, field, text));
  }

  async putOnce(map: string, field: string, text: string): Promise<string> {
    await this.#at(map, (key) => this.#redis.hsetnx(key, field, text));
    return (await this.#at(map, (key) => this.#redis.hget(key, field))) ?? text;
  }

  async remove(map: string, field: string): Promise<void> {
    await this.#at(map, (key) => this.#redis.hdel(key, field));
  }

  async all(map: string): Promise<ReadonlyMap<string, string>> {
    return new Map(Object.entries(await this.#at(map, (key) => this.#redis.hgetall(key))));
  }

  async nowMs(): Promise<number> {
    if (isQuiet(this.#redis)) throw new StoreUnavailable('redis: a proxy does not tell the time');
    return Number((await answered(this.#redis.time()))[0]) * 1_000;
  }

  /** @throws StoreUnavailable  with the key, if another program has given it another type */
  async #at<T>(name: string, call: (key: string) => Promise<T>): Promise<T> {
    const key = `${this.#prefix}weir|${name}`;
    try {
      return await answered(call(key));
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('WRONGTYPE')) throw error;
      throw new StoreUnavailable(`redis: another program has written ${key}, which has another type: delete it`);
    }
  }
}
