import type { Decider } from '../../engine/decide/decide.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { type FollowedCandidate, followCandidate } from './followed.ts';

/** The figures of the candidate, with at most `keys` keys of each rule. */
export interface CandidateQuestion {
  readonly keys: number;
  /** Only this rule. */
  readonly rule?: string | undefined;
}

/** Tries the candidate on the answers of this process, while there is one. */
export const openCandidate: OpenDeciderPart = ({ core, decider }, settings, context) => {
  let followed: FollowedCandidate | undefined;
  return {
    ...(!core.store.memory && { decider: withTimes(decider, () => followed?.isTried() === true) }),
    asked: ({ keys, rule }: CandidateQuestion) => followed?.report(keys, rule),
    start({ observer, isBehind }) {
      followed = followCandidate({
        ...core.rules,
        split: settings.counters.split,
        observer,
        openTrial: async () => (await import('./open-trial.ts')).openTrial(settings, { ...core, isBehind }, context),
        onError: (error) => context.log.error({ err: error }, 'the candidate cannot be tried'),
      });
    },
    close: () => followed?.close(),
  };
};

/** Has stores with a clock of their own report the time of each charge, at which the candidate decides as well. */
const withTimes = (decider: Decider, isTried: () => boolean): Decider => ({
  ...decider,
  ledger: {
    debit: (debits, how) => decider.ledger.debit(debits, isTried() ? { ...how, receipts: true } : how),
    recall: (debits, spend) => decider.ledger.recall?.(debits, spend),
  },
});
