import { createFileChecker, type FileCheck, type LoadOptions } from './load.ts';
import { serveThread } from './thread.ts';

/** Checks rule files in a thread of its own: the entry that `openFileChecker` runs. */
serveThread((options: LoadOptions) => {
  const check = createFileChecker(options);
  return ({ files, overlay }: FileCheck) => check(files, overlay);
});
