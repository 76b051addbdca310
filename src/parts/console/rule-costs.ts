import type { RuleCounts } from '../../operate/observe/rule-counts.ts';
import type { RuleCost } from './answers.ts';

const STEPS_OF_A_MINUTE = 60;

type Cost = Pick<RuleCounts, 'storeOperations' | 'storeMs' | 'storeBytes'>;
const NONE: Cost = { storeOperations: 0, storeMs: 0, storeBytes: 0 };

/** What each rule cost the store in the last whole minute. */
export class RuleCosts {
  #sums: ReadonlyMap<string, Cost> = new Map();
  #steps = 0;
  last: readonly RuleCost[] = [];

  /** To be called once a second. */
  gather(rules: Iterable<RuleCounts>): void {
    if (this.#steps++ % STEPS_OF_A_MINUTE !== 0) return;
    const sums = new Map<string, Cost>();
    for (const { domain, rule, named, storeOperations, storeMs, storeBytes } of rules) {
      if (named !== 'by_rule') continue;
      const { storeOperations: operations, storeMs: ms, storeBytes: bytes } = sums.get(`${domain}.${rule}`) ?? NONE;
      sums.set(`${domain}.${rule}`, {
        storeOperations: operations + storeOperations,
        storeMs: ms + storeMs,
        storeBytes: bytes + storeBytes,
      });
    }
    this.last = Array.from(sums, ([rule, now]) => {
      const before = this.#sums.get(rule) ?? NONE;
      return {
        rule,
        operations: now.storeOperations - before.storeOperations,
        ms: Math.round(now.storeMs - before.storeMs),
        bytes: now.storeBytes - before.storeBytes,
      };
    })
      .filter(({ operations }) => operations > 0)
      .sort((one, other) => other.ms - one.ms);
    this.#sums = sums;
  }
}
