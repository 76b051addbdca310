import { applyInParts } from './parts.ts';
import type { Hit, Store } from './store.ts';

/** Two stores as one: limits by the second, whose counters are many and short-lived, have their own. */
export function createPerSecondStore(stores: { readonly perSecond: Store; readonly others: Store }): Store {
  const both = [stores.perSecond, stores.others];
  return {
    atomic: 'counter',
    apply: (hits, how) => applyInParts(hits, how, partOf, (part) => stores[part].apply),
    state() {
      const states = both.map((store) => store.state());
      return states.find(({ ready }) => !ready) ?? { ready: true };
    },
    async close() {
      await Promise.all(both.map((store) => store.close()));
    },
  };
}

const partOf = ({ limit }: Hit): 'perSecond' | 'others' =>
  limit.unit === 'SECOND' && limit.unitMultiplier === 1 ? 'perSecond' : 'others';
