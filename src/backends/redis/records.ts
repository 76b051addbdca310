import type { RedisConnection } from './connect.ts';

/** Keeps operators' records in a Redis, under keys of their own. */
export class RedisRecords {
  readonly #redis: RedisConnection;
  readonly #prefix: string;

  /** @param prefix  put before every key, as before those of the counters */
  constructor(redis: RedisConnection, prefix: string) {
    this.#redis = redis;
    this.#prefix = prefix;
  }

  async append(list: string, text: string, max: number): Promise<void> {
    await this.#redis.lpush(this.#key(list), text);
    await this.#redis.ltrim(this.#key(list), 0, max - 1);
  }

  latest(list: string, count: number): Promise<readonly string[]> {
    return this.#redis.lrange(this.#key(list), 0, count - 1);
  }

  async put(map: string, field: string, text: string): Promise<void> {
    await this.#redis.hset(this.#key(map), field, text);
  }

  async remove(map: string, field: string): Promise<void> {
    await this.#redis.hdel(this.#key(map), field);
  }

  async all(map: string): Promise<ReadonlyMap<string, string>> {
    return new Map(Object.entries(await this.#redis.hgetall(this.#key(map))));
  }

  #key(name: string): string {
    return `${this.#prefix}weir|${name}`;
  }
}
