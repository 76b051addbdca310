import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { createGunzip, gzip, gzipSync } from 'node:zlib';
import { groupBy } from '../../base/group.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import {
  ALL_HASHES,
  ALL_USAGE,
  HASHES,
  hashOf,
  isPartOf,
  MAX_SLICES,
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
/** Sums in memory at a time; more are read part by part. */
const MAX_SUMS = 100_000;
/** Rows of a slice in a new file. */
const SLICE_ROWS = 128;
/** Begins the name of a file whose content is not usage. */
const BROKEN = 'broken-';
/** Broken files that are named. */
const MAX_NAMED = 3;

/** A file of an hour's usage. */
interface Part {
  readonly path: string;
  readonly hour: number;
  /** Names it among the files of the hour. */
  readonly id: string;
  /** The number of batches in it. */
  readonly count: number;
}

/** The first line of a file, which is stored without compression, so that its length is known before the rows are. */
interface Head {
  readonly usage: string;
  readonly batches: readonly string[];
  /**
   * Where rows begin, then where those of each slice end: rows whose keys have hashes in one of several equal ranges.
   * Absent in files of earlier versions, whose rows have no order.
   */
  readonly offsets?: readonly string[];
}

interface OpenedPart extends Part, Head {}

/** What a file will have. */
interface WrittenPart extends Pick<Head, 'batches'> {
  readonly id: string;
  readonly slices: number;
  /** Those of a slice after those of the slices before it. */
  readonly rows: Rows | readonly (readonly UsageRow[])[];
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
      await this.#write(hour, { id: batch, batches: [batch], slices: roundUp(own.length / SLICE_ROWS), rows: [own] });
  }

  report(query: UsageQuery, isWanted = () => true): Promise<UsageReport> {
    const isRead = (): true => {
      if (!isWanted()) throw new Error('the client has gone');
      return true;
    };
    return this.#retry(async () => {
      const hours = byHour((await this.#list()).filter(({ hour }) => hour >= query.fromHour && hour < query.toHour));
      const parts: OpenedPart[] = [];
      for (const ofHour of hours.values()) parts.push(...(await choose(ofHour)).parts);
      return reportPasses(query, sumParts(parts, query, isRead));
    });
  }

  async forget(domain: string, key: string): Promise<number> {
    let forgotten = 0;
    const isForgotten = (row: UsageRow): boolean => row.domain === domain && isPartOf(key, row.key);
    await this.#retry(async () => {
      for (const part of await this.#list()) {
        const { parts, ...files } = await choose([part]);
        let count = 0;
        for await (const rows of readRows(parts)) count += rows.filter(isForgotten).length;
        if (count === 0) continue;
        const rows = mergedRows(parts, (row) => !isForgotten(row));
        await this.#write(part.hour, { ...files, id: part.id, rows });
        forgotten += count;
      }
    });
    return forgotten;
  }

  async newestHour(below: number): Promise<number | undefined> {
    const hours = (await this.#list()).map(({ hour }) => hour).filter((hour) => hour < below);
    return hours.length === 0 ? undefined : Math.max(...hours);
  }

  async nowMs(): Promise<undefined> {}

  async refused(): Promise<string | undefined> {
    const broken = (await readdir(this.#directory)).filter((name) => name.startsWith(BROKEN));
    if (broken.length === 0) return undefined;
    return `broken files are left out (${broken.length}): ${broken.slice(0, MAX_NAMED).join(', ')}`;
  }

  async tidy(keptFromHour: number, nowHour: number): Promise<number> {
    let deleted = 0;
    await this.#retry(async () => {
      for (const [hour, parts] of byHour(await this.#list())) {
        if (hour < keptFromHour) {
          for (const { path } of parts) await rm(path, { force: true });
          deleted += parts.length;
        } else if (parts.filter(isYoung).length > MAX_PARTS || (parts.length > 1 && hour < nowHour))
          await this.#merge(hour, parts, hour < nowHour);
      }
    });
    return deleted;
  }

  async close(): Promise<void> {}

  /** Merges the files of an hour; before its end the young ones alone, since the others are large. */
  async #merge(hour: number, all: readonly Part[], isOver: boolean): Promise<void> {
    const chosen = (await choose(all)).parts;
    const { parts, ...files } = await choose(isOver ? chosen : chosen.filter(isYoung));
    const rows = mergedRows(parts);
    const merged = parts.length > 0 && (await this.#write(hour, { ...files, id: randomUUID(), rows }));
    const kept = new Set(isOver ? [] : chosen.filter((part) => !isYoung(part)).map(({ path }) => path));
    for (const { path } of all) if (path !== merged && !kept.has(path)) await rm(path, { force: true });
  }

  /** Writes a file, of which nothing is visible until it is on disk. @returns its path */
  async #write(hour: number, { id, batches, slices, rows }: WrittenPart): Promise<string> {
    const usage = hourText(hour);
    const path = join(this.#directory, `usage-${usage}-${batches.length}-${id}.ndjson.gz`);
    const unfinished = join(this.#directory, `${UNFINISHED}${id}`);
    const offsets = new Array<number>(slices + 1).fill(0);
    const packHead = (): Buffer => packStored({ usage, batches, offsets: offsets.map(paddedOffset) });
    const file = await open(unfinished, 'w', OWNER_ONLY);
    try {
      const head = packHead();
      await file.writeFile(head);
      offsets.fill(head.length);
      for await (const some of rows)
        for (const [slice, own] of bySlice(some, slices)) {
          const packed = await pack(own.map(lineOf).join(''));
          await file.writeFile(packed); // after those before
          offsets.fill((offsets[slice + 1] ?? 0) + packed.length, slice + 1);
        }
      await file.write(packHead(), 0, head.length, 0);
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

  /** Tries again if files were merged meanwhile, and without a file that is broken, which is set aside. */
  async #retry<T>(run: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++)
      try {
        return await run();
      } catch (error) {
        if (error instanceof BrokenFile && this.collector !== '')
          await rename(error.path, join(this.#directory, `${BROKEN}${basename(error.path)}`));
        else if (!isMissing(error) || attempt === MAX_ATTEMPTS) throw error;
      }
  }

  async #list(): Promise<readonly Part[]> {
    return (await readdir(this.#directory)).flatMap((name): Part[] => {
      const [, hour = '', batches, id = ''] = NAME.exec(name) ?? [];
      if (batches === undefined) return [];
      const atMs = parseTime(`${hour}:00Z`) ?? 0;
      return [{ path: join(this.#directory, name), hour: atMs / unitMs.HOUR, id, count: Number(batches) }];
    });
  }
}

class BrokenFile extends Error {
  readonly path: string;

  constructor(path: string, { message }: Error) {
    super(`${path} cannot be read: ${message}`);
    this.path = path;
  }
}

/** Whether an error is about the content of a file, not about reading it. */
const isOfContent = (error: Error): boolean =>
  error instanceof SyntaxError || ('code' in error && String(error.code).startsWith('Z_'));

const isYoung = ({ count }: Part): boolean => count <= MAX_PARTS;

const byHour = <T extends { readonly hour: number }>(all: readonly T[]): ReadonlyMap<number, readonly T[]> =>
  groupBy(all, ({ hour }) => hour);

/** `2026-11-27T20`. */
const hourText = (hour: number): string => rfc3339(hour * unitMs.HOUR).slice(0, 13);

const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT';

const pack = promisify(gzip);

/** Its length depends on that of the text alone. */
const packStored = (head: Head): Buffer => gzipSync(`${JSON.stringify(head)}\n`, { level: 0 });

const paddedOffset = (offset: number): string => String(offset).padStart(15, '0');

/** The least power of two that is at least this, within the number of slices that a file may have. */
const roundUp = (slices: number): number => Math.min(2 ** Math.ceil(Math.log2(Math.max(slices, 1))), MAX_SLICES);

/** Rows by their slice, the first slice first. */
const bySlice = (rows: readonly UsageRow[], slices: number) =>
  [...groupBy(rows, ({ key }) => Math.floor((hashOf(key) / HASHES) * slices))].sort(([one], [other]) => one - other);

function lineOf({ hits, domain, rule, key, currency }: UsageRow): string {
  const row: WrittenRow = [hits, domain, rule, key];
  return `${JSON.stringify(currency === undefined ? row : [...row, currency])}\n`;
}

/** Chooses files that have each batch once: a merge may have ended before it deleted its parts. */
async function choose(
  all: readonly Part[],
): Promise<Pick<WrittenPart, 'batches' | 'slices'> & { readonly parts: readonly OpenedPart[] }> {
  const seen = new Set<string>();
  const parts: OpenedPart[] = [];
  let slices = 0;
  for (const part of all.toSorted((one, other) => other.count - one.count)) {
    const head = await readHead(part);
    if (head.batches.every((batch) => seen.has(batch))) continue;
    for (const batch of head.batches) seen.add(batch);
    parts.push({ ...part, ...head });
    slices += head.offsets ? head.offsets.length - 1 : MAX_SLICES;
  }
  return { parts, batches: [...seen], slices: roundUp(slices) };
}

async function readHead({ path }: Part): Promise<Head> {
  for await (const [head] of readJson<Head>(path, { count: 1 })) if (head && Array.isArray(head.batches)) return head;
  throw new BrokenFile(path, new Error('it has no batches'));
}

/** The sums of the rows of an hour, in the order of their hashes. */
async function* mergedRows(parts: readonly OpenedPart[], isRead?: (row: UsageRow) => boolean): Rows {
  for await (const { rows } of sumParts(parts, ALL_USAGE, isRead)) yield rows as readonly UsageRow[]; // sums for each hour have one
}

/** Sums up the rows of parts, as many slices at a time as probably fit into memory. */
function sumParts(parts: readonly OpenedPart[], query: UsageQuery, isRead?: (row: UsageRow) => boolean) {
  const rows = SLICE_ROWS * parts.reduce((sum, { offsets }) => sum + (offsets?.length ?? MAX_SLICES), 0);
  return sumInPasses(query, (range) => readRows(parts, range, isRead), MAX_SUMS, HASHES / roundUp(rows / MAX_SUMS));
}

/** Reads the rows of parts, one part after the other: at least those in a range. */
async function* readRows(
  parts: readonly OpenedPart[],
  { from, to } = ALL_HASHES,
  isRead = (_: UsageRow): boolean => true,
): Rows {
  for (const { path, hour, offsets } of parts) {
    const slices = (offsets?.length ?? 1) - 1;
    const start = Number(offsets?.[Math.floor((from / HASHES) * slices)] ?? 0);
    const end = Number(offsets?.[Math.ceil((to / HASHES) * slices)] ?? Number.POSITIVE_INFINITY);
    let isHead = !offsets;
    if (start < end)
      for await (const read of readJson<WrittenRow>(path, { start, end })) {
        yield (isHead ? read.slice(1) : read)
          .map(([hits, domain, rule, key, currency]) => ({ hour, domain, rule, key, hits, currency }))
          .filter(isRead);
        isHead = false;
      }
  }
}

/** Reads the lines of a compressed file, or of a part of it, some at a time. @throws BrokenFile */
async function* readJson<T>(
  path: string,
  { start = 0, end = Number.POSITIVE_INFINITY, count = Number.POSITIVE_INFINITY } = {},
): AsyncIterable<readonly T[]> {
  const file = createReadStream(path, { start, end: end - 1 });
  const unpacked = createGunzip();
  file.once('error', (error) => unpacked.destroy(error));
  file.pipe(unpacked).setEncoding('utf8');
  let rest = '';
  try {
    for await (const chunk of unpacked) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      // JSON has no line breaks in texts, and the lines are as written above
      if (lines.length > 0) yield JSON.parse(`[${lines.slice(0, count).join(',')}]`) as T[];
    }
  } catch (error) {
    throw error instanceof Error && isOfContent(error) ? new BrokenFile(path, error) : error;
  } finally {
    file.destroy();
    unpacked.destroy();
  }
}
