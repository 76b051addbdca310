import { existsSync, renameSync, rmSync } from 'node:fs';

/** Replaces a folder by a complete one, by renaming both: no part of either is ever in its place. */
export function replaceFolder(folder: string, complete: string): void {
  const replaced = `${folder}.replaced`;
  rmSync(replaced, { recursive: true, force: true }); // of a build that was killed
  if (existsSync(folder)) renameSync(folder, replaced);
  renameSync(complete, folder);
  rmSync(replaced, { recursive: true, force: true });
}
