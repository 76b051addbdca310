import { createFileChecker, type FileCheck } from './load.ts';
import { serveRulesThread } from './rules-thread.ts';

/** Entry of the thread that `openFileChecker` runs. */
serveRulesThread<FileCheck>((options) => {
  const check = createFileChecker(options);
  return ({ files, overlay }) => check(files, overlay);
});
