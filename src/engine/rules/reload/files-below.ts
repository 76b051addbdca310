import { type FSWatcher, type Stats, watch } from 'node:fs';
import { lstat, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

export interface FoundFile {
  readonly path: string;
  readonly stats: Stats;
}

interface Folder {
  /** Changes whenever a file is added, removed, renamed or replaced, to within the resolution of the clock. */
  readonly state: string;
  /** The state was the same a poll earlier, so no change of the same moment was missed. */
  readonly isSettled: boolean;
  readonly entries: readonly FoundFile[];
}

/** The link by which Kubernetes replaces all files of a volume at once. */
const VOLUME_DATA = '..data';

/** Files that each listing examines although their folder is unchanged: they may have been written in place. */
const MAX_EXAMINED = 100;

/**
 * All files below a directory, sorted by path. Follows links. Of many files in unchanged folders, a listing examines
 * some in turn, and those that the system reports as written.
 */
export class FilesBelow {
  readonly #isRead: (name: string) => boolean;
  readonly #onVolume: ((directory: string) => void) | undefined;
  readonly #folders = new Map<string, Folder>();
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #written = new Set<string>();
  /** Files of the last listing, and the first one to be examined next. */
  #count = 0;
  #turn = 0;
  #at = 0;

  /**
   * @param onVolume  called with each Kubernetes volume, in which names that begin with `..` are skipped. Default:
   * volumes are read like other directories.
   */
  constructor(isRead: (name: string) => boolean, onVolume?: (directory: string) => void) {
    this.#isRead = isRead;
    this.#onVolume = onVolume;
  }

  async list(directory: string): Promise<readonly FoundFile[]> {
    this.#at = 0;
    const files: FoundFile[] = [];
    try {
      await this.#list(directory, files);
    } catch (error) {
      this.#folders.clear(); // what is known may be out of date
      throw error;
    }
    this.#turn = (this.#turn + MAX_EXAMINED) % Math.max(files.length, 1);
    this.#count = files.length;
    return files;
  }

  close(): void {
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  async #list(directory: string, files: FoundFile[]): Promise<void> {
    const { ino, mtimeMs, ctimeMs } = await stat(directory);
    const state = `${ino} ${mtimeMs} ${ctimeMs}`;
    const known = this.#folders.get(directory);
    const isSettled = known?.state === state;
    const isKnown = known?.isSettled && isSettled;
    if (!isKnown) this.#watch(directory);
    const paths = isKnown ? known.entries : await this.#read(directory);
    const entries: FoundFile[] = [];
    for (const one of paths) {
      const isNew = typeof one === 'string';
      const path = isNew ? one : one.path;
      const found = isNew || this.#isDue(one) ? { path, stats: await stat(path) } : one;
      entries.push(found);
      if (found.stats.isDirectory()) await this.#list(path, files);
      else files.push(found);
    }
    this.#folders.set(directory, { state, isSettled, entries });
  }

  async #read(directory: string): Promise<readonly string[]> {
    const all = (await readdir(directory)).filter(this.#isRead).sort();
    const isVolume =
      this.#onVolume && all.includes(VOLUME_DATA) && (await lstat(join(directory, VOLUME_DATA))).isSymbolicLink();
    if (isVolume) this.#onVolume?.(directory);
    return (isVolume ? all.filter((one) => !one.startsWith('..')) : all).map((name) => join(directory, name));
  }

  #isDue({ path, stats }: FoundFile): boolean {
    if (stats.isDirectory()) return false; // its own state is read
    const place = (this.#at++ - this.#turn + this.#count) % Math.max(this.#count, 1);
    return place < MAX_EXAMINED || this.#written.delete(path);
  }

  /** Notes files of large folders that are written in place, where the system reports it. */
  #watch(directory: string): void {
    if (this.#count <= MAX_EXAMINED || this.#watchers.has(directory)) return;
    try {
      const watcher = watch(directory, { persistent: false }, (_, name) => {
        if (name !== null) this.#written.add(join(directory, name));
      });
      watcher.on('error', () => this.#watchers.delete(directory));
      this.#watchers.set(directory, watcher);
    } catch {
      // each file's turn comes without it
    }
  }
}
