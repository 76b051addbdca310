import { createFileChecker, type FileCheck } from './load.ts';
import { serveRulesProcess } from './rules-process.ts';

/** Entry of the process that `openFileChecker` runs. */
serveRulesProcess<FileCheck>(process, (options) => {
  const check = createFileChecker(options);
  return ({ files, overlay }) => check(files, overlay);
});
