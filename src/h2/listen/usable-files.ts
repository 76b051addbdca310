/**
 * The last usable contents of certificate and key files. The supervisor passes them to its workers, so that a
 * worker that starts in the middle of a rotation has the same ones as the others.
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

const keyOf = (paths: FilePaths): string => JSON.stringify(Object.entries(paths).sort());

/** Keeps the contents of these files, which are usable. */
export function keepUsable(paths: FilePaths, texts: FileTexts): void {
  kept.set(keyOf(paths), texts);
}

/**
 * Reads files for the first time. If `read` throws in a worker, it is called again with the contents that the
 * supervisor passed.
 *
 * @param report  receives the first error; may rethrow it
 * @throws the error of `read` if the supervisor passed no contents of these files, or this is no worker
 */
export function firstUsable<T extends object, R>(
  paths: FilePaths,
  read: (texts?: T) => R,
  report: (error: unknown) => void,
): R {
  try {
    return read();
  } catch (error) {
    const texts = passed.get(keyOf(paths)) as T | undefined; // kept under these paths by the same caller
    if (!texts) throw error;
    report(error);
    return read(texts);
  }
}

/** Registers a function that reads files again before they are passed on, for files that nothing polls. */
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
