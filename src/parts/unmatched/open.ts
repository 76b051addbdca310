import { every } from '../../base/clock.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { SLOT_MS } from '../lab/sketches/rotating-top.ts';
import { Unmatched } from './unmatched.ts';

/** Counts the descriptors that match no rule in this process. */
export const openUnmatched: OpenDeciderPart = () => {
  const unmatched = new Unmatched();
  return {
    answered: ({ domain, descriptors }, answer) =>
      unmatched.answered(domain, answer.unmet?.descriptors ?? descriptors, answer),
    asked: () => unmatched.report(),
    close: every(SLOT_MS, () => unmatched.rotate()),
  };
};
