import type { Stats } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import type { RuleFileState } from './load.ts';

/** Where rule files come from. */
export interface RuleSource {
  /** As it is told to people: a path. */
  readonly description: string;
  /**
   * The rule files there are now, in a stable order. It makes one call of the file system at a time, off the event loop: one that hangs takes
   * a single one of the few threads that Node has for files and for DNS.
   *
   * @throws Error  of the file system, when the place cannot be read
   */
  list(): Promise<readonly RuleFileState[]>;
}

/** One rule file, or every `.yaml` and `.yml` file at any depth of a directory; names that begin with a dot are left out. */
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
 * The runtime directory of envoyproxy/ratelimit: every file counts, whatever its ending. A file is called by its path
 * with dots for slashes, `config.team-a.checkout.yaml`; without `watchRoot` the app directory is left out of the name.
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
  const listFrom = async (directory: string): Promise<readonly RuleFileState[]> => {
    const found = await filesBelow(directory, isRead);
    return found.map((file) => stateOf(file, relative(directory, file.path).split(sep).join('.')));
  };
  return {
    description: join(top, appDirectory),
    list: async () =>
      watchRoot
        ? (await listFrom(top)).filter(({ name }) => name.startsWith(`${appDirectory}.`))
        : listFrom(join(top, appDirectory)),
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

/** All files below a directory, links followed, sorted by path. */
async function filesBelow(
  directory: string,
  isRead: (name: string) => boolean,
  files: FoundFile[] = [],
): Promise<readonly FoundFile[]> {
  for (const name of (await readdir(directory)).filter(isRead).sort()) {
    const path = join(directory, name);
    const stats = await stat(path);
    if (stats.isDirectory()) await filesBelow(path, isRead, files);
    else files.push({ path, stats });
  }
  return files;
}
