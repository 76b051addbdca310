import { every } from '../../base/clock.ts';
import type { Observer } from '../../edge/rls/service.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import type { StoreTraits } from '../../engine/rules/compile/fit.ts';
import { countProblems, formatProblem } from '../../engine/rules/read/problem.ts';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import { plainPath } from '../../engine/rules/reload/files.ts';
import { checkRuleFiles } from '../../engine/rules/reload/load.ts';
import type { Overlay } from '../../engine/rules/reload/overlay-files.ts';
import { CandidateBook, type CandidateFacts } from '../../operate/candidate/book.ts';
import type { CandidateFeed } from '../../operate/candidate/feed.ts';
import { type FollowedCandidate, followCandidate } from '../../operate/candidate/followed.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { TrialSources } from './trial.ts';

/** The most problems of a candidate that are logged. */
const MAX_CANDIDATE_PROBLEMS = 20;

interface CandidateLoading {
  readonly store: StoreTraits;
  /** The overlay of the rules in force and of the candidate. */
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
    ...{ clock, every, pollIntervalMs, onState: logCandidate(log) },
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
    if (state === 'off') log.info('no candidate is tried');
    if (state !== 'wrong') return;
    for (const problem of problems.slice(0, MAX_CANDIDATE_PROBLEMS)) log.error(formatProblem(problem));
    log.error(`the candidate is not tried: ${countProblems(problems)} problems`);
  };

/** Has stores with a clock of their own report the time of each charge, at which the candidate decides as well. */
export const withTimes = (decider: Decider, isTried: () => boolean): Decider => ({
  ...decider,
  ledger: {
    debit: (debits, how) => decider.ledger.debit(debits, isTried() ? { ...how, receipts: true } : how),
  },
});

interface CandidateSources extends TrialSources {
  /** The rules in force, and the candidate. */
  readonly rules: { readonly book: RuleBook; readonly candidate: CandidateFeed };
  /** Notified of the answers. */
  readonly observer: Observer;
}

/** Tries the candidate on the answers that the observer receives, while there is one. */
export const openCandidate = (
  settings: Pick<Settings, 'counters' | 'candidate'>,
  sources: CandidateSources,
  context: ProcessContext,
): FollowedCandidate =>
  followCandidate({
    ...{ ...sources.rules, split: settings.counters.split, observer: sources.observer },
    openTrial: async () => (await import('./trial.ts')).openTrial(settings, sources, context),
    onError: (error) => context.log.error({ err: error }, 'the candidate cannot be tried'),
  });
