import { every } from '../../base/clock.ts';
import { counted } from '../../base/texts.ts';
import { countProblems, formatProblem } from '../../engine/rules/read/problem.ts';
import { plainPath } from '../../engine/rules/reload/files.ts';
import { checkRuleFiles } from '../../engine/rules/reload/load.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { CandidateSources } from '../../serve/control/part.ts';
import type { ProcessContext } from '../../serve/parts/process-context.ts';
import type { Settings } from '../../settings/settings.ts';
import { type BookFacts, CandidateBook } from './book.ts';

/** How often files are polled for changes. */
const POLL_INTERVAL_MS = 1_000;

/** Opens the book that loads candidates. The service starts without waiting for one. */
export function openCandidateBook(
  { candidate: { path }, mergeDomains }: Settings['rules'],
  { store, overlay, replicas }: CandidateSources,
  { clock, log }: ProcessContext,
): CandidateBook {
  const book = new CandidateBook({
    clock,
    every,
    pollIntervalMs: POLL_INTERVAL_MS,
    onState: (facts) => logCandidate(facts, log),
    check: (files, over) => checkRuleFiles(files, { mergeDomains, store, overlay: over, replicas: replicas?.count }),
    source: path === undefined ? undefined : plainPath(path),
    overlay: () => overlay?.files ?? [],
  });
  overlay?.onChange(() => book.checkAgain());
  return book;
}

/** Maximum number of a candidate's problems that are logged. */
const MAX_CANDIDATE_PROBLEMS = 20;

function logCandidate({ state, ruleCount, domains, hash, problems }: BookFacts, log: Logger): void {
  if (state === 'on')
    log.info(`trying a candidate: ${counted(ruleCount, 'rule')} of ${counted(domains.length, 'domain')}, hash ${hash}`);
  if (state === 'off') log.info('no candidate is active');
  if (state !== 'wrong') return;
  for (const problem of problems.slice(0, MAX_CANDIDATE_PROBLEMS)) log.error(formatProblem(problem));
  log.error(`the candidate is invalid and not tried: ${counted(countProblems(problems), 'problem')} (see above)`);
}
