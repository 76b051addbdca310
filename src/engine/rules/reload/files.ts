import { stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { FilesBelow, type FoundFile } from './files-below.ts';
import type { RuleFileState } from './load.ts';

/** Where rule files come from. */
export interface RuleSource {
  readonly description: string;
  /**
   * The current rule files, in a stable order. It makes one file system call at a time, off the event loop: a call that
   * hangs occupies only one of the few threads that Node has for files and DNS.
   *
   * @throws Error  of the file system, if the place cannot be read
   */
  list(): Promise<readonly RuleFileState[]>;
  /** Notes for operators, one text each. */
  notes?(): readonly string[];
  close?(): void;
}

/** The files of a source, or why they cannot be read; and a text that changes whenever their content may have. */
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

/** One rule file, or every `.yaml` and `.yml` file at any depth of a directory, except those that begin with a dot. */
export function plainPath(path: string): RuleSource {
  const below = new FilesBelow((name) => !name.startsWith('.'));
  return {
    description: path,
    close: () => below.close(),
    async list() {
      const stats = await stat(path);
      if (!stats.isDirectory()) return [fileState({ path, stats })];
      const found = await below.list(path);
      const files = found.filter((file) => /\.ya?ml$/.test(file.path));
      if (files.length === 0) throw new Error('the directory holds no .yaml or .yml file');
      return files.map(fileState);
    },
  };
}

/** The layout of a runtime directory; the settings have the same names. */
export interface RuntimeLayout {
  readonly root: string;
  readonly subdirectory: string;
  readonly appDirectory: string;
  readonly ignoreDotFiles: boolean;
  readonly watchRoot: boolean;
}

/**
 * The runtime directory of envoyproxy/ratelimit: every file below the app directory is a rule file, whatever its
 * extension. With `watchRoot`, so is every file beside it whose relative path, with dots for slashes, begins with the
 * app directory's name and a dot. Files that a Kubernetes volume has twice are read once.
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
  const below = new FilesBelow(isRead, (volume) => volumes.add(volume));
  const isOfApp = ({ path }: FoundFile): boolean =>
    relative(top, path).split(sep).join('.').startsWith(`${appDirectory}.`);
  return {
    description: join(top, appDirectory),
    close: () => below.close(),
    async list() {
      const found = watchRoot ? (await below.list(top)).filter(isOfApp) : await below.list(join(top, appDirectory));
      return found.map(fileState);
    },
    notes: () =>
      Array.from(
        volumes,
        (volume) =>
          `${volume} is a Kubernetes volume (such as a ConfigMap): ..data and its target, which hold the same files again, are ignored, as with RUNTIME_IGNOREDOTFILES=true`,
      ),
  };
}

/** A write in place, a rename and a swapped link change at least one of these. */
const fileState = ({ path, stats }: FoundFile): RuleFileState => ({
  path,
  name: path,
  state: `${path} ${stats.ino} ${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}`,
});
