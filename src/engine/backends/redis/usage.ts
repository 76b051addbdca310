import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { CounterKey } from '../key.ts';
import {
  ABANDONED_MS,
  PAGE_ENTRIES,
  type UsageBatch,
  type UsageEntry,
  type UsagePage,
  type UsageSource,
} from '../usage.ts';
import type { RedisConnection } from './connect.ts';
import { DOUBLE_BYTES, dataView } from './packed-numbers.ts';
import { answered } from './reason.ts';

const text = readFileSync(new URL('./usage.lua', import.meta.url), 'utf8');

/** The keys of the hash in which usage is counted, and of its log. */
export type UsageKeys = readonly [hash: string, log: string];

/** @param prefix  precedes every key, including those of counters */
export const usageKeys = (prefix: string): UsageKeys => [`${prefix}weir|usage`, `${prefix}weir|usage|log`];

/** Entries of the log on a page. */
const PAGE_LOGGED = 32;
/** Begins the position of a page of the hash, which follows the log. */
const IN_HASH = 'h';

/** Usage in Redis, which the script of the counters adds to. */
export class RedisUsage implements UsageSource {
  readonly #redis: RedisConnection;
  readonly #keys: UsageKeys;
  readonly #aside: UsageKeys;

  /** @param redis  closed by its owner; not a Cluster */
  constructor(redis: RedisConnection, prefix: string) {
    this.#redis = redis;
    this.#keys = usageKeys(prefix);
    this.#aside = [`${this.#keys[0]}|aside`, `${this.#keys[1]}|aside`];
  }

  async setAside(collector: string): Promise<UsageBatch | undefined> {
    const reply = await this.#run(randomUUID(), collector, ABANDONED_MS);
    if (!Array.isArray(reply)) return undefined;
    const [id, ageMs] = reply;
    return { id: String(id), ageMs: Number(ageMs) };
  }

  async read(id: string, after = '0'): Promise<UsagePage | undefined> {
    const page = after.startsWith(IN_HASH) ? await this.#readHash(after.slice(1)) : await this.#readLog(Number(after));
    return (await answered(this.#redis.hget(this.#aside[0], '#id'))) === id ? page : undefined;
  }

  async drop(id: string): Promise<void> {
    await this.#run(id);
  }

  #run(...args: readonly (string | number)[]): Promise<unknown> {
    return answered(this.#redis.eval(text, 4, ...this.#keys, ...this.#aside, ...args));
  }

  async #readLog(from: number): Promise<UsagePage> {
    const to = from + PAGE_LOGGED;
    const logged = await answered(this.#redis.lrangeBuffer(this.#aside[1], from, to - 1));
    return {
      added: logged.flatMap(readLogged),
      entries: [],
      next: logged.length === PAGE_LOGGED ? String(to) : `${IN_HASH}0`,
    };
  }

  async #readHash(cursor: string): Promise<UsagePage> {
    const [next, found] = await answered(this.#redis.hscan(this.#aside[0], cursor, 'COUNT', PAGE_ENTRIES));
    const entries: UsageEntry[] = [];
    for (let at = 0; at < found.length; at += 2) {
      const [field = '', hits] = [found[at], found[at + 1]];
      if (field.startsWith('#')) continue;
      const bar = field.indexOf('|');
      const key = field.slice(bar + 1) as CounterKey | ''; // as the script stores it
      entries.push({ hour: Number(field.slice(0, bar)), key, hits: Number(hits) });
    }
    return { entries, next: next === '0' ? undefined : `${IN_HASH}${next}` };
  }
}

/** Reads an entry of the log, whose format is described in counters.lua. */
function readLogged(entry: Buffer): readonly UsageEntry[] {
  const view = dataView(entry);
  const numberAt = (at: number): number => view.getFloat64(at * DOUBLE_BYTES, true);
  const [hour, count] = [numberAt(0), numberAt(1)];
  let from = (2 + 2 * count) * DOUBLE_BYTES;
  return Array.from({ length: count }, (_, at): UsageEntry => {
    const to = from + numberAt(3 + 2 * at);
    const key = entry.toString('utf8', from, to) as CounterKey; // as the script stores it
    from = to;
    return { hour, key, hits: numberAt(2 + 2 * at) };
  });
}
