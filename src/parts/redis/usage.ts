import { randomUUID } from 'node:crypto';
import { Cluster } from 'ioredis';
import { monotonicMs } from '../../base/clock.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { DOUBLE_BYTES } from '../../engine/backends/packed-state.ts';
import type { Records } from '../../engine/backends/records.ts';
import {
  ABANDONED_MS,
  PAGE_ENTRIES,
  type UsageAside,
  type UsageEntry,
  type UsagePage,
  type UsageSource,
} from '../../engine/backends/usage.ts';
import { readNumbers } from './batch-reply.ts';
import type { RedisConnection } from './connect.ts';
import { answered } from './reason.ts';
import { redisRecords } from './records.ts';
import { usageScript } from './script.ts';

/** The keys of the hash in which usage is counted, and of its log. */
type UsageKeys = readonly [hash: string, log: string];

/** @param start  precedes every key: the prefix of the counters, on a Cluster with the hash tag of their slot */
export const usageKeys = (start: string): UsageKeys => [`${start}weir|usage`, `${start}weir|usage|log`];

/** On a Cluster, the hash tags of slots with usage, since nothing else tells a collector which of its slots have some. */
const TAGS = 'usage|tags';
/** A process records its tags again after this time, in case a failover has lost one. */
const RECORDED_MS = 60_000;

/** Entries of the log on a page. */
const PAGE_LOGGED = 32;
/** Begins the position of a page of the hash, which follows the log. */
const IN_HASH = 'h';

/** Usage in Redis, which the script of the counters adds to: on a Cluster, in the slot of the counters. */
export class RedisUsage implements UsageSource {
  readonly #redis: RedisConnection;
  readonly #prefix: string;
  readonly #records: Records;
  /** By hash tag. */
  readonly #known = new Map<string, { readonly keys: UsageKeys; readonly recordedAtMs: number }>();

  /**
   * @param redis   closed by its owner
   * @param prefix  precedes every key, including those of counters
   */
  constructor(redis: RedisConnection, prefix: string) {
    this.#redis = redis;
    this.#prefix = prefix;
    this.#records = redisRecords(redis, prefix);
  }

  /**
   * The keys of the usage of counters in a slot, which collectors will find.
   *
   * @param tag  in braces; empty without a Cluster
   */
  keysIn(tag: string): UsageKeys {
    const known = this.#known.get(tag);
    const nowMs = tag === '' ? 0 : monotonicMs();
    if (known && nowMs - known.recordedAtMs < RECORDED_MS) return known.keys;
    const keys = usageKeys(this.#prefix + tag);
    this.#known.set(tag, { keys, recordedAtMs: nowMs });
    if (tag !== '') this.#records.put(TAGS, tag, '').catch(() => this.#known.delete(tag)); // the next call tries again
    return keys;
  }

  async setAside(collector: string): Promise<UsageAside> {
    const tags = this.#redis instanceof Cluster ? [...(await this.#records.all(TAGS)).keys()] : [''];
    const all = await Promise.allSettled(tags.map((tag) => this.#run(tag, makeId(tag), collector, ABANDONED_MS)));
    const failures = all.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    if (failures.length > 0 && failures.length === tags.length) throw failures[0];
    const batches = all.flatMap((one) =>
      one.status === 'fulfilled' && Array.isArray(one.value)
        ? [{ id: String(one.value[0]), ageMs: Number(one.value[1]) }]
        : [],
    );
    return { batches, problems: failures.map((error) => (error instanceof Error ? error.message : String(error))) };
  }

  async read(id: string, after = '0'): Promise<UsagePage | undefined> {
    const [hash, log] = this.#asideIn(readTag(id));
    const inHash = after.startsWith(IN_HASH);
    const page = inHash ? await this.#readHash(hash, after.slice(1)) : await this.#readLog(log, Number(after));
    return (await answered(this.#redis.hget(hash, '#id'))) === id ? page : undefined;
  }

  async drop(id: string): Promise<void> {
    await this.#run(readTag(id), id);
  }

  #asideIn(tag: string): UsageKeys {
    const [hash, log] = usageKeys(this.#prefix + tag);
    return [`${hash}|aside`, `${log}|aside`];
  }

  #run(tag: string, ...args: readonly (string | number)[]): Promise<unknown> {
    return answered(
      this.#redis.eval(usageScript.text, 4, ...usageKeys(this.#prefix + tag), ...this.#asideIn(tag), ...args),
    );
  }

  async #readLog(log: string, from: number): Promise<UsagePage> {
    const to = from + PAGE_LOGGED;
    const logged = await answered(this.#redis.lrangeBuffer(log, from, to - 1));
    const read = logged.map(readLogged);
    return {
      added: read.flatMap((entries) => entries ?? []),
      entries: [],
      foreign: read.flatMap((entries, at) => (entries ? [] : [`item ${from + at} of ${log}`])),
      next: logged.length === PAGE_LOGGED ? String(to) : `${IN_HASH}0`,
    };
  }

  async #readHash(hash: string, cursor: string): Promise<UsagePage> {
    const [next, found] = await answered(this.#redis.hscan(hash, cursor, 'COUNT', PAGE_ENTRIES));
    const entries: UsageEntry[] = [];
    const foreign: string[] = [];
    for (let at = 0; at < found.length; at += 2) {
      const [field = '', hits] = [found[at], found[at + 1]];
      if (field.startsWith('#')) continue;
      const bar = field.indexOf('|');
      const key = field.slice(bar + 1) as CounterKey | ''; // as the script stores it
      const entry = { hour: Number(field.slice(0, bar)), key, hits: Number(hits) };
      if (bar > 0 && isCounted(entry)) entries.push(entry);
      else foreign.push(`field ${JSON.stringify(field.slice(0, MAX_NAMED))} of ${hash}`);
    }
    return { entries, foreign, next: next === '0' ? undefined : `${IN_HASH}${next}` };
  }
}

/** An id names the slot of its batch, since any process may be asked for it: `417_<UUID>` with the tag `{417}`. */
const makeId = (tag: string): string => `${tag === '' ? '' : `${tag.slice(1, -1)}_`}${randomUUID()}`;

function readTag(id: string): string {
  const end = id.indexOf('_');
  return end < 0 ? '' : `{${id.slice(0, end)}}`;
}

/** Characters of a foreign field that its name in the log has. */
const MAX_NAMED = 100;

const isCounted = ({ hour, hits }: UsageEntry): boolean =>
  Number.isSafeInteger(hour) && hour >= 0 && Number.isFinite(hits);

/** Reads an entry of the log, whose format is described in scripts/counters.ts; undefined if another program wrote it. */
function readLogged(entry: Buffer): readonly UsageEntry[] | undefined {
  try {
    const entries = readEntries(entry);
    return entries.every(isCounted) ? entries : undefined;
  } catch {
    return undefined; // it is too short
  }
}

function readEntries(entry: Buffer): readonly UsageEntry[] {
  const { next } = readNumbers(entry);
  const [hour, count] = [next(), next()];
  let from = (2 + 2 * count) * DOUBLE_BYTES;
  if (!(count >= 0 && from <= entry.length)) throw new RangeError('expected a log of usage');
  return Array.from({ length: count }, (): UsageEntry => {
    const hits = next();
    const to = from + next();
    const key = entry.toString('utf8', from, to) as CounterKey; // as the script stores it
    from = to;
    return { hour, key, hits };
  });
}
