import { CandidateBook, type CandidateFacts } from '../candidate/book.ts';
import { openFileChecker } from '../rules/book.ts';
import { plainPath } from '../rules/files.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { Overlay } from '../rules/overlay-files.ts';
import { formatProblem } from '../rules/problem.ts';
import type { Settings } from '../settings.ts';
import type { ProcessContext } from './parts.ts';
import { every } from './store.ts';

/** How often files are polled for changes. */
const POLL_INTERVAL_MS = 1_000;
/** Logged problems per load. */
const MAX_LOGGED_PROBLEMS = 20;

/** Opens what loads candidates. The service starts without waiting for one. */
export function openCandidateBook(
  { candidate: { path }, mergeDomains }: Settings['rules'],
  store: StoreTraits,
  overlay: Overlay | undefined,
  { clock, log }: ProcessContext,
): CandidateBook {
  const book = new CandidateBook({
    ...{ clock, every, pollIntervalMs: POLL_INTERVAL_MS, onState: logState(log) },
    checker: openFileChecker({ mergeDomains, store }),
    source: path === undefined ? undefined : plainPath(path),
    overlay: () => overlay?.files ?? [],
  });
  overlay?.onChange(() => void book.checkAgain());
  return book;
}

const logState =
  (log: ProcessContext['log']) =>
  ({ state, ruleCount, domains, hash, problems }: CandidateFacts): void => {
    if (state === 'on') log.info(`trying a candidate: ${ruleCount} rules of ${domains.length} domains, hash ${hash}`);
    if (state === 'off') log.info('no candidate is tried');
    if (state !== 'wrong') return;
    for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS)) log.error(formatProblem(problem));
    log.error(`the candidate is not tried: ${problems.length} problems`);
  };
