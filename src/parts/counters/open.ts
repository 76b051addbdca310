import type { CounterKey } from '../../engine/backends/key.ts';
import { settle } from '../../operate/admin/problem.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import type { CountedDescriptor, CounterChange, ListQuery } from './named-counters.ts';

export type CounterQuestion =
  | ({ readonly kind: 'read' } & CountedDescriptor)
  /** Change every counter of the descriptor. */
  | ({ readonly kind: 'change'; readonly change: CounterChange } & CountedDescriptor)
  /** A page of all counters. */
  | { readonly kind: 'list'; readonly query: ListQuery }
  /** These counters have been reset. */
  | { readonly kind: 'forget'; readonly keys: readonly CounterKey[] }
  /** These counters may have room again. */
  | { readonly kind: 'recheck'; readonly keys: readonly CounterKey[] };

/** Reads and changes the counters of the store of this process. */
export const openCounterQuestions: OpenDeciderPart = ({ core: { decider, store } }) => ({
  async asked(question: CounterQuestion): Promise<object | undefined> {
    const counters = await import('./named-counters.ts'); // loaded at the first question
    switch (question.kind) {
      case 'read':
        return settle(counters.readCounters(question, decider));
      case 'change':
        return settle(counters.changeCounters(question, question.change, decider));
      case 'list':
        return settle(counters.listCounters(question.query, decider));
      case 'forget':
        for (const key of question.keys) store.ledger.forgetLocally(key);
        return undefined;
      case 'recheck':
        for (const key of question.keys) store.ledger.recheck(key);
        return undefined;
    }
  },
});
