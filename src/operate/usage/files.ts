import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { groupBy } from '../../base/group.ts';
import { inTurns } from '../../base/slices.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import {
  isPartOf,
  RowSums,
  type UsageQuery,
  type UsageReport,
  type UsageRow,
  type UsageStore,
  UsageSums,
} from './usage-store.ts';

const pack = promisify(gzip);
const unpack = promisify(gunzip);

/** Usage contains what callers sent: no other user of the machine may read it. */
const OWNER_ONLY = 0o600;
const NAME = /^usage-(\d{4}-\d\d-\d\dT\d\d)-(\d+)-([\w-]+)\.ndjson\.gz$/;
/** Begins the name of a file that is being written. */
const UNFINISHED = 'unfinished-';
/** An hour with more files is compacted before its end. */
const MAX_PARTS = 16;
/** Attempts to read files while they are merged. */
const MAX_ATTEMPTS = 5;
/** Lines written, and characters read, in one turn of the event loop. */
const LINES_PER_TURN = 2_000;
const CHUNK = 100_000;

/** A file of an hour's usage. */
interface Part {
  readonly path: string;
  readonly hour: number;
  /** Names it among the files of the hour. */
  readonly id: string;
  /** The number of batches in it. */
  readonly batches: number;
}

/** The first line of a file. */
interface Head {
  readonly usage: string;
  readonly batches: readonly string[];
}

type WrittenRow = [hits: number, domain: string, rule: string, key: string, currency?: string];

/**
 * Usage in a directory of one instance: compressed files of JSON lines, one for each hour of a batch, which are merged
 * into one for each hour. A file appears complete or not at all, and names the batches in it: a batch that arrives
 * again, or is still there after a merge, is counted once.
 */
export class FileUsage implements UsageStore {
  readonly collector: string;
  readonly #directory: string;

  private constructor(directory: string, collector: string) {
    this.#directory = directory;
    this.collector = collector;
  }

  /** Opens a directory, which is created if there is none. */
  static async open(directory: string): Promise<FileUsage> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const path = join(directory, 'collector');
    await writeFile(path, randomUUID(), { flag: 'wx', mode: OWNER_ONLY }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    for (const name of await readdir(directory))
      if (name.startsWith(UNFINISHED)) await rm(join(directory, name), { force: true });
    return new FileUsage(directory, await readFile(path, 'utf8'));
  }

  /** Files that another process writes: to be read alone. */
  static reading(directory: string): Pick<UsageStore, 'report'> {
    return new FileUsage(directory, '');
  }

  async add(batch: string, rows: readonly UsageRow[]): Promise<undefined> {
    for (const [hour, own] of byHour(rows)) await this.#write(hour, { id: batch, batches: [batch], rows: own });
  }

  async report(query: UsageQuery): Promise<UsageReport> {
    for (let attempt = 1; ; attempt++) {
      const sums = new UsageSums(query);
      const hours = byHour((await this.#list()).filter(({ hour }) => hour >= query.fromHour && hour < query.toHour));
      try {
        for (const parts of hours.values()) await readParts(parts, (row) => sums.add(row));
        return sums.report();
      } catch (error) {
        if (!isMissing(error) || attempt === MAX_ATTEMPTS) throw error; // else parts were merged meanwhile
      }
    }
  }

  async forget(domain: string, key: string): Promise<number> {
    let forgotten = 0;
    for (const part of await this.#list()) {
      const kept: UsageRow[] = [];
      let count = 0;
      const batches = await readParts([part], (row) => {
        if (row.domain === domain && isPartOf(key, row.key)) count++;
        else kept.push(row);
      });
      forgotten += count;
      if (count > 0) await this.#write(part.hour, { id: part.id, batches, rows: kept });
    }
    return forgotten;
  }

  async newestHour(): Promise<number | undefined> {
    const hours = (await this.#list()).map(({ hour }) => hour);
    return hours.length === 0 ? undefined : Math.max(...hours);
  }

  async nowMs(): Promise<undefined> {}

  async tidy(keptFromHour: number, nowHour: number): Promise<number> {
    let deleted = 0;
    for (const [hour, parts] of byHour(await this.#list())) {
      if (hour < keptFromHour) {
        for (const { path } of parts) await rm(path, { force: true });
        deleted += parts.length;
      } else if (parts.length > MAX_PARTS || (parts.length > 1 && hour < nowHour))
        await this.#merge(hour, parts).catch((error: unknown) => {
          if (!isMissing(error)) throw error; // else an instance that is being replaced merges them
        });
    }
    return deleted;
  }

  async close(): Promise<void> {}

  async #merge(hour: number, parts: readonly Part[]): Promise<void> {
    const sums = new RowSums();
    const batches = await readParts(parts, (row) => sums.add(row));
    const merged = await this.#write(hour, { id: randomUUID(), batches, rows: sums.rows() });
    for (const { path } of parts) if (path !== merged) await rm(path, { force: true });
  }

  /** Writes a file, of which nothing is visible until it is on disk. @returns its path */
  async #write(
    hour: number,
    {
      id,
      batches,
      rows,
    }: { readonly id: string; readonly batches: readonly string[]; readonly rows: readonly UsageRow[] },
  ): Promise<string> {
    const name = hourText(hour);
    const head: Head = { usage: name, batches };
    const lines = [JSON.stringify(head)];
    for await (const slice of inTurns(rows, LINES_PER_TURN))
      for (const { domain, rule, key, hits, currency } of slice)
        lines.push(JSON.stringify([hits, domain, rule, key, ...(currency === undefined ? [] : [currency])]));
    const path = join(this.#directory, `usage-${name}-${batches.length}-${id}.ndjson.gz`);
    const unfinished = join(this.#directory, `${UNFINISHED}${id}`);
    const file = await open(unfinished, 'w', OWNER_ONLY);
    try {
      await file.writeFile(await pack(`${lines.join('\n')}\n`));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(unfinished, path);
    return path;
  }

  async #list(): Promise<readonly Part[]> {
    return (await readdir(this.#directory)).flatMap((name): Part[] => {
      const [, hour = '', batches, id = ''] = NAME.exec(name) ?? [];
      if (batches === undefined) return [];
      const atMs = parseTime(`${hour}:00Z`) ?? 0;
      return [{ path: join(this.#directory, name), hour: atMs / unitMs.HOUR, id, batches: Number(batches) }];
    });
  }
}

const byHour = <T extends { readonly hour: number }>(all: readonly T[]): ReadonlyMap<number, readonly T[]> =>
  groupBy(all, ({ hour }) => hour);

/** `2026-11-27T20`. */
const hourText = (hour: number): string => rfc3339(hour * unitMs.HOUR).slice(0, 13);

const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT';

/** Reads the parts of an hour, each batch once. @returns the batches */
async function readParts(parts: readonly Part[], onRow: (row: UsageRow) => void): Promise<readonly string[]> {
  const seen = new Set<string>();
  for (const { path, hour } of parts.toSorted((one, other) => other.batches - one.batches)) {
    const text = (await unpack(await readFile(path))).toString();
    const end = text.indexOf('\n');
    const { batches } = JSON.parse(text.slice(0, end)) as Head; // as written above
    if (batches.every((batch) => seen.has(batch))) continue;
    for (const batch of batches) seen.add(batch);
    for (let from = end + 1; from < text.length; ) {
      const to = text.indexOf('\n', from + CHUNK) + 1 || text.length;
      const rows = text.slice(from, to).trimEnd().replaceAll('\n', ','); // JSON has no line breaks in texts
      for (const [hits, domain, rule, key, currency] of JSON.parse(`[${rows}]`) as WrittenRow[]) // as written above
        onRow({ hour, domain, rule, key, hits, currency });
      from = to;
      await new Promise(setImmediate);
    }
  }
  return [...seen];
}
