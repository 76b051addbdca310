import { readdirSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import type { RuleFile } from './load.ts';

/** Where rule files come from. */
export interface RuleSource {
  /** As it is told to people: a path. */
  readonly description: string;
  /**
   * The rule files there are now, in a stable order.
   *
   * @throws Error  of the file system, when the place cannot be read
   */
  list(): readonly RuleFile[];
}

/** One rule file, or every `.yaml` and `.yml` file at any depth of a directory; names that begin with a dot are left out. */
export function plainPath(path: string): RuleSource {
  return {
    description: path,
    list() {
      if (!statSync(path).isDirectory()) return [{ path, name: path }];
      const files = filesBelow(path, (name) => !name.startsWith('.')).filter((file) => /\.ya?ml$/.test(file));
      if (files.length === 0) throw new Error('the directory holds no .yaml or .yml file');
      return files.map((file) => ({ path: file, name: file }));
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
  const listFrom = (directory: string): RuleFile[] =>
    filesBelow(directory, isRead).map((path) => ({ path, name: relative(directory, path).split(sep).join('.') }));
  return {
    description: join(top, appDirectory),
    list: () =>
      watchRoot
        ? listFrom(top).filter(({ name }) => name.startsWith(`${appDirectory}.`))
        : listFrom(join(top, appDirectory)),
  };
}

/** All files below a directory, links followed, sorted by path. */
function filesBelow(directory: string, isRead: (name: string) => boolean): string[] {
  const names = readdirSync(directory).filter(isRead).sort();
  return names.flatMap((name) => {
    const path = join(directory, name);
    return statSync(path).isDirectory() ? filesBelow(path, isRead) : [path];
  });
}
