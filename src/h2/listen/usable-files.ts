/**
 * The last usable contents of certificate and key files. The supervisor passes them to its workers, so that one that
 * starts in the middle of a rotation has the same contents as the others.
 */

/** Paths of files that are used together, by purpose. */
type FilePaths = Readonly<Record<string, unknown>>;
/** Their contents, by purpose. */
type FileTexts = Readonly<Record<string, unknown>>;
/** The contents of several such sets. */
export type UsableFiles = ReadonlyMap<string, FileTexts>;

const kept = new Map<string, FileTexts>();
const rereads = new Set<() => void>();
let passed: UsableFiles = new Map();

const pathsKey = (paths: FilePaths): string => JSON.stringify(Object.entries(paths).sort());

/** Keeps usable contents of these files. */
export function keepUsable(paths: FilePaths, texts: FileTexts): void {
  kept.set(pathsKey(paths), texts);
}

/**
 * Reads files for the first time. If `read` throws in a worker, it is called again with the contents that the
 * supervisor passed.
 *
 * @param report  receives the first error; may rethrow it
 * @throws the error of `read` outside workers, or if the supervisor passed no contents of these files
 */
export function firstUsable<T extends object, R>(
  paths: FilePaths,
  read: (texts?: T) => R,
  report: (error: unknown) => void,
): R {
  try {
    return read();
  } catch (error) {
    const texts = passed.get(pathsKey(paths)) as T | undefined; // kept under these paths by the same caller
    if (!texts) throw error;
    report(error);
    return read(texts);
  }
}

/** Registers a function that rereads unpolled files before contents are passed on. */
export function onPass(reread: () => void): void {
  rereads.add(reread);
}

/** The contents to pass to a worker. */
export function usableFiles(): UsableFiles {
  for (const reread of rereads) reread();
  return kept;
}

/** Keeps the contents that the supervisor passed. */
export function takeUsable(files: UsableFiles): void {
  passed = files;
}
