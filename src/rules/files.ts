import type { Stats } from 'node:fs';
import { lstat, readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import type { RuleFileState } from './load.ts';

/** Where rule files come from. */
export interface RuleSource {
  /** For messages: a path. */
  readonly description: string;
  /**
   * The rule files there are now, in a stable order. It makes one file system call at a time, off the event loop: one
   * that hangs occupies only one of the few threads that Node has for files and DNS.
   *
   * @throws Error  of the file system, when the place cannot be read
   */
  list(): Promise<readonly RuleFileState[]>;
  /** Notes for operators, one text each. */
  notes?(): readonly string[];
}

/**
 * The files of a source, or the reason why they cannot be read; and a text that changes whenever their content may have
 * changed.
 */
export async function listFiles(
  source: RuleSource,
): Promise<{ readonly files: readonly RuleFileState[] | string; readonly state: string }> {
  try {
    const files = await source.list().catch(() => source.list()); // a file may vanish between `readdir` and `stat`
    return { files, state: files.map((file) => file.state).join('\n') };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { files: reason, state: reason };
  }
}

/**
 * One rule file, or every `.yaml` and `.yml` file at any depth of a directory; names that begin with a dot are skipped.
 */
export function plainPath(path: string): RuleSource {
  return {
    description: path,
    async list() {
      const stats = await stat(path);
      if (!stats.isDirectory()) return [stateOf({ path, stats }, path)];
      const found = await filesBelow(path, (name) => !name.startsWith('.'));
      const files = found.filter((file) => /\.ya?ml$/.test(file.path));
      if (files.length === 0) throw new Error('the directory holds no .yaml or .yml file');
      return files.map((file) => stateOf(file, file.path));
    },
  };
}

/** How a runtime directory is laid out: the settings of the same names. */
export interface RuntimeLayout {
  readonly root: string;
  readonly subdirectory: string;
  readonly appDirectory: string;
  readonly ignoreDotFiles: boolean;
  readonly watchRoot: boolean;
}

/**
 * The runtime directory of envoyproxy/ratelimit: every file below the app directory counts, whatever its ending; with
 * `watchRoot` also every file beside it whose name, with dots for slashes, begins with that of the app directory and a
 * dot. What a Kubernetes volume keeps twice is read once.
 */
export function runtimeDirectory({
  root,
  subdirectory,
  appDirectory,
  ignoreDotFiles,
  watchRoot,
}: RuntimeLayout): RuleSource {
  const top = join(root, subdirectory);
  const isRead = (name: string): boolean => !(ignoreDotFiles && name.startsWith('.'));
  const volumes = new Set<string>();
  const listFrom = (directory: string): Promise<readonly FoundFile[]> =>
    filesBelow(directory, isRead, { onVolume: (volume) => volumes.add(volume) });
  const isOfApp = ({ path }: FoundFile): boolean =>
    relative(top, path).split(sep).join('.').startsWith(`${appDirectory}.`);
  return {
    description: join(top, appDirectory),
    async list() {
      const found = watchRoot ? (await listFrom(top)).filter(isOfApp) : await listFrom(join(top, appDirectory));
      return found.map((file) => stateOf(file, file.path));
    },
    notes: () =>
      Array.from(
        volumes,
        (volume) =>
          `${volume} is a volume of Kubernetes (a ConfigMap, say): ..data and what it links to hold the same files once more and are left out, as with RUNTIME_IGNOREDOTFILES=true`,
      ),
  };
}

interface FoundFile {
  readonly path: string;
  readonly stats: Stats;
}

/** A write in place, a rename, and a link that is swapped change at least one of these. */
const stateOf = ({ path, stats: { ino, size, mtimeMs, ctimeMs } }: FoundFile, name: string): RuleFileState => ({
  ...{ path, name, state: `${name} ${ino} ${size} ${mtimeMs} ${ctimeMs}` },
});

/** The link by which Kubernetes replaces all files of a volume at once. */
const VOLUME_DATA = '..data';

interface Walk {
  /** Takes what is found. */
  readonly files?: FoundFile[];
  /**
   * Takes each directory that is a volume of Kubernetes, of which what begins with `..` is left out. Absent: there are
   * none.
   */
  readonly onVolume?: (directory: string) => void;
}

/** All files below a directory, links followed, sorted by path. */
async function filesBelow(
  directory: string,
  isRead: (name: string) => boolean,
  { files = [], onVolume }: Walk = {},
): Promise<readonly FoundFile[]> {
  const all = (await readdir(directory)).filter(isRead).sort();
  const isVolume =
    onVolume && all.includes(VOLUME_DATA) && (await lstat(join(directory, VOLUME_DATA))).isSymbolicLink();
  if (isVolume) onVolume(directory);
  for (const name of isVolume ? all.filter((one) => !one.startsWith('..')) : all) {
    const path = join(directory, name);
    const stats = await stat(path);
    if (stats.isDirectory()) await filesBelow(path, isRead, { files, ...(onVolume && { onVolume }) });
    else files.push({ path, stats });
  }
  return files;
}
