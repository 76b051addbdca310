import { createFileChecker, type FileCheck } from './load.ts';
import { firstProblems } from './problem.ts';
import { serveRulesThread } from './rules-thread.ts';

/** Entry of the thread that `openFileChecker` runs. */
serveRulesThread<FileCheck>((options) => {
  const check = createFileChecker(options);
  return ({ files, overlay }) => {
    const checked = check(files, overlay);
    return checked.ok
      ? { ...checked, warnings: firstProblems(checked.warnings) }
      : { ...checked, problems: firstProblems(checked.problems) };
  };
});
