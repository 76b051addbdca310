import { every } from '../../base/clock.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { SLOT_MS } from '../lab/sketches/rotating-top.ts';
import type { TopQuestion } from '../lab/sketches/rule-top.ts';
import { TopKeys } from './top-keys.ts';

/** Counts the busiest descriptors that this process answers, in tables of at most this size. */
export const openTop =
  (maxBytes: number): OpenDeciderPart =>
  () => {
    const top = new TopKeys(maxBytes);
    return {
      answered: (_, answer) => top.answered(answer),
      asked: (question: TopQuestion) =>
        question.kind === 'clients' ? top.refused(question) : top.lists(question.by, question),
      close: every(SLOT_MS, () => top.rotate()),
    };
  };
