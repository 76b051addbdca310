import { every } from '../../base/clock.ts';
import type { StoreTraits } from '../../engine/rules/compile/fit.ts';
import { countProblems, formatProblem } from '../../engine/rules/read/problem.ts';
import { plainPath } from '../../engine/rules/reload/files.ts';
import { checkRuleFiles } from '../../engine/rules/reload/load.ts';
import type { Overlay } from '../../engine/rules/reload/overlay-files.ts';
import { CandidateBook, type CandidateFacts } from '../../operate/candidate/book.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';

/** Maximum number of a candidate's problems that are logged. */
const MAX_CANDIDATE_PROBLEMS = 20;

interface CandidateLoading {
  readonly store: StoreTraits;
  /** The overlay of the current rules and of the candidate. */
  readonly overlay: Overlay | undefined;
  readonly pollIntervalMs: number;
}

/** Opens the book that loads candidates. The service starts without waiting for one. */
export function openCandidateBook(
  { candidate: { path }, mergeDomains }: Settings['rules'],
  { store, overlay, pollIntervalMs }: CandidateLoading,
  { clock, log }: ProcessContext,
): CandidateBook {
  const book = new CandidateBook({
    clock,
    every,
    pollIntervalMs,
    onState: logCandidate(log),
    check: (files, over) => checkRuleFiles(files, { mergeDomains, store, overlay: over }),
    source: path === undefined ? undefined : plainPath(path),
    overlay: () => overlay?.files ?? [],
  });
  overlay?.onChange(() => book.checkAgain());
  return book;
}

const logCandidate =
  (log: ProcessContext['log']) =>
  ({ state, ruleCount, domains, hash, problems }: CandidateFacts): void => {
    if (state === 'on') log.info(`trying a candidate: ${ruleCount} rules of ${domains.length} domains, hash ${hash}`);
    if (state === 'off') log.info('no candidate is active');
    if (state !== 'wrong') return;
    for (const problem of problems.slice(0, MAX_CANDIDATE_PROBLEMS)) log.error(formatProblem(problem));
    log.error(`the candidate is invalid and not tried: ${countProblems(problems)} problems (see above)`);
  };
