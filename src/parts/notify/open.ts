import { after } from '../../base/later.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { findCounter } from '../../engine/decide/counter-key.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import { shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { DeciderPart, OpenDeciderPart } from '../../serve/decider/part.ts';
import { type Crossing, Crossings } from './crossings.ts';

/** A crossing, as operators and webhooks see it. */
export interface Notified extends Omit<Crossing, 'key'> {
  readonly domain: string;
  readonly rule: string;
  /** `user=alice`; values are hashes if `HASH_KEYS` is set. */
  readonly descriptor: string;
  /** `5 per minute`. */
  readonly limit: string;
}

/** What a process has found since it was last asked. */
export interface Found {
  readonly notified: readonly Notified[];
  readonly dropped: number;
}

/** Watches the counters of limits with `notify`. */
export const openCrossings: OpenDeciderPart = ({ core, ledger, serviceObserver }, _, { clock }): DeciderPart => {
  const crossings = new Crossings(clock);
  const { decider, hash } = core;
  const describe = ({ key, ...crossing }: Crossing): readonly Notified[] => {
    const rules = decider.rules();
    const counter = rules && findCounter(rules, key, decider);
    if (!counter) return []; // it is of no rule any more
    serviceObserver.notified(counter);
    const { domain, entries, rule, limit } = counter;
    const descriptor = descriptorText(shownEntries(entries, shownBy(true, hash)));
    return [{ ...crossing, domain, rule: rule.path, descriptor, limit: describeLimit(limit) }];
  };
  return {
    ledger: {
      atomic: ledger.atomic,
      refund: (receipt) => ledger.refund(receipt),
      ...(ledger.recall && { recall: ledger.recall.bind(ledger) }),
      debit: (debits, how) =>
        after(ledger.debit(debits, how), (entries) => {
          crossings.note(debits, entries);
          return entries;
        }),
    },
    asked: (): Found => {
      const { crossings: found, dropped } = crossings.take();
      return { notified: found.flatMap(describe), dropped };
    },
  };
};
