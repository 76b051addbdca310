import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { groupBy } from '../../base/group.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import {
  ALL_USAGE,
  isPartOf,
  reportPasses,
  sumInPasses,
  type UsageQuery,
  type UsageReport,
  type UsageRow,
  type UsageStore,
} from './usage-store.ts';

/** Usage contains what callers sent: no other user of the machine may read it. */
const OWNER_ONLY = 0o600;
const NAME = /^usage-(\d{4}-\d\d-\d\dT\d\d)-(\d+)-([\w-]+)\.ndjson\.gz$/;
/** Begins the name of a file that is being written. */
const UNFINISHED = 'unfinished-';
/** More young files of an hour, each of at most as many batches, are merged before its end. */
const MAX_PARTS = 16;
/** Attempts to read files while they are merged. */
const MAX_ATTEMPTS = 5;
/** Rows written in one turn of the event loop. */
const ROWS_PER_TURN = 2_000;
/** Sums in memory at a time; more take further passes over the files. */
const MAX_SUMS = 100_000;

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

/** What a file will have. */
interface WrittenPart {
  readonly id: string;
  readonly batches: readonly string[];
  readonly rows: Rows;
}

/** Rows, some at a time. */
type Rows = AsyncIterable<readonly UsageRow[]>;

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

  async add(batch: string, rows: readonly UsageRow[]): Promise<void> {
    for (const [hour, own] of byHour(rows))
      await this.#write(hour, { id: batch, batches: [batch], rows: inSlices(own) });
  }

  async report(query: UsageQuery): Promise<UsageReport> {
    for (let attempt = 1; ; attempt++) {
      const hours = byHour((await this.#list()).filter(({ hour }) => hour >= query.fromHour && hour < query.toHour));
      try {
        const parts: Part[] = [];
        for (const ofHour of hours.values()) parts.push(...(await choose(ofHour)).parts);
        return await reportPasses(
          query,
          sumInPasses(query, () => readRows(parts), MAX_SUMS),
        );
      } catch (error) {
        if (!isMissing(error) || attempt === MAX_ATTEMPTS) throw error; // else parts were merged meanwhile
      }
    }
  }

  async forget(domain: string, key: string): Promise<number> {
    let forgotten = 0;
    const isForgotten = (row: UsageRow): boolean => row.domain === domain && isPartOf(key, row.key);
    for (const part of await this.#list()) {
      let count = 0;
      for await (const rows of readRows([part])) count += rows.filter(isForgotten).length;
      forgotten += count;
      if (count === 0) continue;
      const { batches } = await choose([part]);
      await this.#write(part.hour, { id: part.id, batches, rows: readRows([part], (row) => !isForgotten(row)) });
    }
    return forgotten;
  }

  async newestHour(): Promise<number | undefined> {
    const hours = (await this.#list()).map(({ hour }) => hour);
    return hours.length === 0 ? undefined : Math.max(...hours);
  }

  async nowMs(): Promise<undefined> {}

  async refused(): Promise<undefined> {}

  async tidy(keptFromHour: number, nowHour: number): Promise<number> {
    let deleted = 0;
    for (const [hour, parts] of byHour(await this.#list())) {
      if (hour < keptFromHour) {
        for (const { path } of parts) await rm(path, { force: true });
        deleted += parts.length;
      } else if (parts.filter(isYoung).length > MAX_PARTS || (parts.length > 1 && hour < nowHour))
        await this.#merge(hour, parts, hour < nowHour).catch((error: unknown) => {
          if (!isMissing(error)) throw error; // else an instance that is being replaced merges them
        });
    }
    return deleted;
  }

  async close(): Promise<void> {}

  /** Merges the files of an hour; before its end the young ones alone, since the others are large. */
  async #merge(hour: number, all: readonly Part[], isOver: boolean): Promise<void> {
    const chosen = (await choose(all)).parts;
    const { parts, batches } = await choose(isOver ? chosen : chosen.filter(isYoung));
    const rows = mergedRows(parts);
    const merged = parts.length > 0 && (await this.#write(hour, { id: randomUUID(), batches, rows }));
    const kept = new Set(isOver ? [] : chosen.filter((part) => !isYoung(part)).map(({ path }) => path));
    for (const { path } of all) if (path !== merged && !kept.has(path)) await rm(path, { force: true });
  }

  /** Writes a file, of which nothing is visible until it is on disk. @returns its path */
  async #write(hour: number, { id, batches, rows }: WrittenPart): Promise<string> {
    const name = hourText(hour);
    const path = join(this.#directory, `usage-${name}-${batches.length}-${id}.ndjson.gz`);
    const unfinished = join(this.#directory, `${UNFINISHED}${id}`);
    const file = await open(unfinished, 'w', OWNER_ONLY);
    try {
      const head: Head = { usage: name, batches };
      await pipeline(linesOf(head, rows), createGzip(), async (packed: AsyncIterable<Buffer>) => {
        for await (const octets of packed) await file.writeFile(octets); // after those before
      });
      await file.sync();
      await rename(unfinished, path);
    } catch (error) {
      await rm(unfinished, { force: true }); // a full disk needs its room
      throw error;
    } finally {
      await file.close();
    }
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

const isYoung = ({ batches }: Part): boolean => batches <= MAX_PARTS;

const byHour = <T extends { readonly hour: number }>(all: readonly T[]): ReadonlyMap<number, readonly T[]> =>
  groupBy(all, ({ hour }) => hour);

/** `2026-11-27T20`. */
const hourText = (hour: number): string => rfc3339(hour * unitMs.HOUR).slice(0, 13);

const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT';

async function* inSlices(rows: readonly UsageRow[]): Rows {
  for (let at = 0; at < rows.length; at += ROWS_PER_TURN) yield rows.slice(at, at + ROWS_PER_TURN);
}

async function* linesOf(head: Head, all: Rows): AsyncIterable<string> {
  yield `${JSON.stringify(head)}\n`;
  for await (const rows of all) {
    let lines = '';
    for (const { domain, rule, key, hits, currency } of rows) {
      const row: WrittenRow = [hits, domain, rule, key];
      if (currency !== undefined) row.push(currency);
      lines += `${JSON.stringify(row)}\n`;
    }
    if (lines !== '') yield lines;
  }
}

/** The parts of an hour that have each batch once, and the batches. */
async function choose(
  all: readonly Part[],
): Promise<{ readonly parts: readonly Part[]; readonly batches: readonly string[] }> {
  const seen = new Set<string>();
  const parts: Part[] = [];
  for (const part of all.toSorted((one, other) => other.batches - one.batches)) {
    const { batches } = await readHead(part);
    if (batches.every((batch) => seen.has(batch))) continue;
    for (const batch of batches) seen.add(batch);
    parts.push(part);
  }
  return { parts, batches: [...seen] };
}

async function readHead({ path }: Part): Promise<Head> {
  for await (const [head = ''] of readLines(path)) return JSON.parse(head) as Head; // as written above
  throw new Error(`${path} is empty`);
}

/** The sums of the rows of an hour. */
async function* mergedRows(parts: readonly Part[]): Rows {
  for await (const { rows } of sumInPasses(ALL_USAGE, () => readRows(parts), MAX_SUMS))
    yield* inSlices(rows as readonly UsageRow[]); // sums for each hour have one
}

/** Reads the rows of parts, one part after the other. */
async function* readRows(parts: readonly Part[], isRead = (_: UsageRow): boolean => true): Rows {
  for (const { path, hour } of parts) {
    let isHead = true;
    for await (const lines of readLines(path)) {
      const rows = isHead ? lines.slice(1) : lines;
      isHead = false;
      // JSON has no line breaks in texts, and the rows are as written above
      const written = JSON.parse(`[${rows.join(',')}]`) as WrittenRow[];
      yield written
        .map(([hits, domain, rule, key, currency]) => ({ hour, domain, rule, key, hits, currency }))
        .filter(isRead);
    }
  }
}

/** Reads the lines of a compressed file, some at a time. */
async function* readLines(path: string): AsyncIterable<readonly string[]> {
  const file = createReadStream(path);
  const unpacked = createGunzip();
  file.once('error', (error) => unpacked.destroy(error));
  file.pipe(unpacked).setEncoding('utf8');
  let rest = '';
  try {
    for await (const chunk of unpacked) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      if (lines.length > 0) yield lines;
    }
  } finally {
    file.destroy();
    unpacked.destroy();
  }
}
