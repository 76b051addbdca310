import { createWriteStream, type WriteStream } from 'node:fs';
import { readdir, stat, unlink, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { constants, createGzip, type Gzip } from 'node:zlib';
import type { Clock } from '../clock.ts';

export interface RecordingFilesOptions {
  readonly directory: string;
  /** Begins the names of this process's files. */
  readonly name: string;
  /** Compressed octets of one file, about: the next one is begun after it. */
  readonly fileBytes: number;
  /** Compressed octets of all recordings in the directory: the oldest files are removed before it is exceeded. */
  readonly maxBytes: number;
  /** That of the file system. */
  readonly clock: Clock;
  /** The first lines of a file. */
  readonly head: (part: number) => string;
  /** Files cannot be written: nothing is, from now on. */
  readonly onFailure: (error: Error) => void;
}

const ENDING = '.ndjson.gz';
const PREFIX = 'weir-';
/** Of compression: the fastest. */
const FASTEST_LEVEL = 1;

/** Recordings hold what callers sent: no other user of the machine is to read them. */
const OWNER_ONLY = 0o600;
/** Files of other processes are taken for open until then: each touches its own whenever it flushes. */
const OPEN_MS = 10_000;

interface OpenFile {
  readonly path: string;
  readonly gzip: Gzip;
  readonly file: WriteStream;
  bytes: number;
  /** It was removed by another process. */
  isGone: boolean;
}

/** Compressed files of lines, one after the other. */
export class RecordingFiles {
  readonly #options: RecordingFilesOptions;
  #part = 0;
  #open: OpenFile | undefined;
  #closing: Promise<unknown> = Promise.resolve();
  #isFull = false;
  #hasFailed = false;
  /** Called once the disk has taken what was written. */
  #waiting: (() => void)[] = [];

  constructor(options: RecordingFilesOptions) {
    this.#options = options;
  }

  /** Calls the function as soon as the disk has taken what was written. */
  whenWritable(run: () => void): void {
    if (this.#isFull) this.#waiting.push(run);
    else run();
  }

  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** @param text  whole lines */
  write(text: string): void {
    if (this.#hasFailed) return;
    if (this.#open && (this.#open.isGone || this.#open.bytes >= this.#options.fileBytes)) this.#end();
    this.#open ??= this.#begin();
    const { gzip } = this.#open;
    if (gzip.write(text)) return;
    this.#isFull = true;
    gzip.once('drain', () => this.#resume());
  }

  #resume(): void {
    this.#isFull = false;
    for (const run of this.#waiting.splice(0)) run();
  }

  /** Has what was written so far reach the disk. To be called every few seconds: it shows that the file is open. */
  flush(): void {
    const open = this.#open;
    if (!open) return;
    open.gzip.flush(constants.Z_SYNC_FLUSH);
    if (open.file.pending) return; // it is not there yet
    const seconds = this.#options.clock() / 1_000;
    utimes(open.path, seconds, seconds).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') open.isGone = true;
    });
  }

  async close(): Promise<void> {
    this.#end();
    await this.#closing;
  }

  #begin(): OpenFile {
    const { directory, name, head } = this.#options;
    const part = ++this.#part;
    const path = join(directory, `${PREFIX}${name}-${String(part).padStart(6, '0')}${ENDING}`);
    const file = createWriteStream(path, { mode: OWNER_ONLY });
    const gzip = createGzip({ level: FASTEST_LEVEL });
    const open: OpenFile = { path, gzip, file, bytes: 0, isGone: false };
    gzip.on('data', (chunk: Buffer) => {
      open.bytes += chunk.length;
    });
    const fail = (error: Error): void => {
      if (this.#hasFailed) return;
      this.#hasFailed = true;
      this.#open = undefined;
      gzip.destroy();
      this.#options.onFailure(error);
      this.#resume();
    };
    file.on('error', fail);
    gzip.on('error', fail);
    gzip.pipe(file);
    gzip.write(head(part));
    this.#closing = this.#closing.then(() => this.#makeRoom()).catch(fail);
    return open;
  }

  #end(): void {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    open.gzip.end();
    const written = finished(open.file).catch(() => {}); // its failure is noted
    this.#closing = this.#closing.then(() => written);
  }

  /** Removes the oldest recordings that no process writes to, until another file fits. */
  async #makeRoom(): Promise<void> {
    const { directory, name: own, maxBytes, fileBytes, clock } = this.#options;
    const names = (await readdir(directory)).filter((name) => name.startsWith(PREFIX) && name.endsWith(ENDING));
    const found: { readonly path: string; readonly size: number; readonly mtimeMs: number }[] = [];
    for (const name of names) {
      const path = join(directory, name);
      const stats = await stat(path).catch(() => undefined); // another process has removed it
      if (stats) found.push({ path, size: stats.size, mtimeMs: stats.mtimeMs });
    }
    found.sort((one, other) => one.mtimeMs - other.mtimeMs || (one.path < other.path ? -1 : 1));
    let bytes = found.reduce((sum, { size }) => sum + size, 0);
    const ownPaths = join(directory, `${PREFIX}${own}-`);
    const openSinceMs = clock() - OPEN_MS;
    for (const { path, size, mtimeMs } of found.slice(0, -1)) {
      if (bytes + fileBytes <= maxBytes) return;
      if (path.startsWith(ownPaths) ? path === this.#open?.path : mtimeMs > openSinceMs) continue;
      await unlink(path).catch(() => {});
      bytes -= size;
    }
  }
}
