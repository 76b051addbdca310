import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { withReceipts } from '../lab/record/receipts.ts';
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
    // the candidate decides at the same time
    ...(!core.store.memory && { decider: withReceipts(decider, () => followed?.isTried() === true) }),
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
