import { createWriteStream, type WriteStream } from 'node:fs';
import { readdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { constants, createGzip, type Gzip } from 'node:zlib';

export interface RecordingFilesOptions {
  readonly directory: string;
  /** Begins the names of this process's files. */
  readonly name: string;
  /** Compressed octets of one file, about: the next one is begun after it. */
  readonly fileBytes: number;
  /** Compressed octets of all recordings in the directory: the oldest files are removed before it is exceeded. */
  readonly maxBytes: number;
  /** The first lines of a file. */
  readonly head: (part: number) => string;
  /** Files cannot be written: nothing is, from now on. */
  readonly onFailure: (error: Error) => void;
}

const ENDING = '.ndjson.gz';
const PREFIX = 'weir-';
/** Of compression: the fastest. */
const FASTEST_LEVEL = 1;

interface OpenFile {
  readonly gzip: Gzip;
  readonly file: WriteStream;
  bytes: number;
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
    if (this.#open && this.#open.bytes >= this.#options.fileBytes) this.#end();
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

  /** Has what was written so far reach the disk. */
  flush(): void {
    this.#open?.gzip.flush(constants.Z_SYNC_FLUSH);
  }

  async close(): Promise<void> {
    this.#end();
    await this.#closing;
  }

  #begin(): OpenFile {
    const { directory, name, head } = this.#options;
    const part = ++this.#part;
    const file = createWriteStream(join(directory, `${PREFIX}${name}-${String(part).padStart(6, '0')}${ENDING}`));
    const gzip = createGzip({ level: FASTEST_LEVEL });
    const open: OpenFile = { gzip, file, bytes: 0 };
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

  /** Removes the oldest recordings until another file fits. */
  async #makeRoom(): Promise<void> {
    const { directory, maxBytes, fileBytes } = this.#options;
    const names = (await readdir(directory)).filter((name) => name.startsWith(PREFIX) && name.endsWith(ENDING));
    const found: { readonly path: string; readonly size: number; readonly mtimeMs: number }[] = [];
    for (const name of names) {
      const path = join(directory, name);
      const stats = await stat(path).catch(() => undefined); // another process has removed it
      if (stats) found.push({ path, size: stats.size, mtimeMs: stats.mtimeMs });
    }
    found.sort((one, other) => one.mtimeMs - other.mtimeMs || (one.path < other.path ? -1 : 1));
    let bytes = found.reduce((sum, { size }) => sum + size, 0);
    for (const { path, size } of found.slice(0, -1)) {
      if (bytes + fileBytes <= maxBytes) return;
      await unlink(path).catch(() => {});
      bytes -= size;
    }
  }
}
