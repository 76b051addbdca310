import { createWriteStream, type WriteStream } from 'node:fs';
import { readdir, stat, unlink, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { constants, createGzip, type Gzip } from 'node:zlib';
import type { Clock } from '../../base/clock.ts';

interface RecordingFilesOptions {
  readonly directory: string;
  /** The beginning of the names of this process's files. */
  readonly name: string;
  /** The approximate size of a compressed file, in octets: then the next file begins. */
  readonly fileBytes: number;
  /** The most compressed octets in the directory: the oldest recordings are removed before it is exceeded. */
  readonly maxBytes: number;
  /** The clock of the file system. */
  readonly clock: Clock;
  /** The first lines of a file. */
  readonly head: (part: number) => string;
  /** Called if files cannot be written: nothing is written until the next attempt. */
  readonly onFailure: (error: Error) => void;
  /** Called while files are written. */
  readonly onWritten: () => void;
  /** Called with an old recording that was removed. */
  readonly onRemoved: (path: string) => void;
}

/** Files that cannot be written are tried again after this time. */
const RETRY_MS = 5_000;

const ENDING = '.ndjson.gz';
const PREFIX = 'weir-';
/** The compression level: the fastest. */
const FASTEST_LEVEL = 1;

/** Recordings contain what callers sent: no other user of the machine may read them. */
const OWNER_ONLY = 0o600;
/** Files of other processes count as open for this long: each process touches its file whenever it flushes. */
const OPEN_MS = 10_000;

interface OpenFile {
  readonly path: string;
  readonly gzip: Gzip;
  readonly file: WriteStream;
  bytes: number;
  /** Another process has removed the file. */
  isGone: boolean;
}

/** Compressed files of lines, one after the other. */
export class RecordingFiles {
  readonly #options: RecordingFilesOptions;
  #part = 0;
  #open: OpenFile | undefined;
  #closing: Promise<unknown> = Promise.resolve();
  #isFull = false;
  #failedUntilMs = 0;
  /** Called as soon as more data can be written. */
  #waiting: (() => void)[] = [];

  constructor(options: RecordingFilesOptions) {
    this.#options = options;
  }

  /** Calls the function as soon as more data can be written. */
  whenWritable(run: () => void): void {
    if (this.#isFull) this.#waiting.push(run);
    else run();
  }

  get hasFailed(): boolean {
    return this.#failedUntilMs > 0 && this.#options.clock() < this.#failedUntilMs;
  }

  /** @param text  whole lines */
  write(text: string): void {
    if (this.hasFailed) return;
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

  /** Flushes the data written so far to disk. To be called every few seconds: this marks the file as open. */
  flush(): void {
    const open = this.#open;
    if (!open) return;
    open.gzip.flush(constants.Z_SYNC_FLUSH);
    if (open.file.pending) return; // the file does not exist yet
    if (open.file.bytesWritten > 0) this.#options.onWritten();
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
      if (gzip.destroyed) return;
      this.#failedUntilMs = this.#options.clock() + RETRY_MS;
      if (this.#open === open) this.#open = undefined;
      gzip.destroy();
      file.destroy();
      if (file.bytesWritten === 0) void unlink(path).catch(() => {}); // there may be no file
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
    const written = finished(open.file).catch(() => {}); // `fail` handles the error
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
      await unlink(path).then(
        () => this.#options.onRemoved(path),
        () => {},
      );
      bytes -= size;
    }
  }
}
