import type { Observer } from '../../edge/rls/service.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import { type FollowedCandidate, followCandidate } from '../../operate/candidate/followed.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ReceivedRules } from '../link/rules-messages.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { TrialSources } from './trial.ts';

/** Has stores with a clock of their own report the time of each charge, at which the candidate decides as well. */
export const withTimes = (decider: Decider, isTried: () => boolean): Decider => ({
  ...decider,
  ledger: {
    debit: (debits, how) => decider.ledger.debit(debits, isTried() ? { ...how, receipts: true } : how),
  },
});

interface CandidateSources extends TrialSources {
  /** The rules in force, and the candidate. */
  readonly rules: Pick<ReceivedRules, 'book' | 'candidate'>;
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
