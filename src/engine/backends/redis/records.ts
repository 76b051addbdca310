import { StoreUnavailable } from '../backend.ts';
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
    await answered(this.#redis.lpush(this.#key(list), text));
    await answered(this.#redis.ltrim(this.#key(list), 0, max - 1));
  }

  latest(list: string, count: number): Promise<readonly string[]> {
    return answered(this.#redis.lrange(this.#key(list), 0, count - 1));
  }

  async put(map: string, field: string, text: string): Promise<void> {
    await answered(this.#redis.hset(this.#key(map), field, text));
  }

  async putOnce(map: string, field: string, text: string): Promise<string> {
    await answered(this.#redis.hsetnx(this.#key(map), field, text));
    return (await answered(this.#redis.hget(this.#key(map), field))) ?? text;
  }

  async remove(map: string, field: string): Promise<void> {
    await answered(this.#redis.hdel(this.#key(map), field));
  }

  async all(map: string): Promise<ReadonlyMap<string, string>> {
    return new Map(Object.entries(await answered(this.#redis.hgetall(this.#key(map)))));
  }

  async nowMs(): Promise<number> {
    if (isQuiet(this.#redis)) throw new StoreUnavailable('redis: a proxy does not tell the time');
    return Number((await answered(this.#redis.time()))[0]) * 1_000;
  }

  #key(name: string): string {
    return `${this.#prefix}weir|${name}`;
  }
}
