import type { Decision } from '../algorithms/limit.ts';
import type { Hit, Store, Unavailable } from './store.ts';

/** Two stores as one: limits by the second, whose counters are many and short-lived, have their own. */
export function createPerSecondStore({
  perSecond,
  others,
}: {
  readonly perSecond: Store;
  readonly others: Store;
}): Store {
  const both = [perSecond, others];
  return {
    atomic: 'counter',
    async apply(hits, how) {
      const storeOf = (hit: Hit): Store => (isBySecond(hit) ? perSecond : others);
      const parts = both.map((store) => hits.filter((hit) => storeOf(hit) === store));
      const answers = await Promise.all(both.map((store, at) => ask(store, parts[at] ?? [], how)));
      const next = answers.map((list) => list.values());
      return hits.flatMap((hit): (Decision | Unavailable)[] => {
        const answer = next[both.indexOf(storeOf(hit))]?.next();
        return answer?.done === false ? [answer.value] : [];
      });
    },
    state() {
      const states = both.map((store) => store.state());
      return states.find(({ ready }) => !ready) ?? { ready: true };
    },
    async close() {
      await Promise.all(both.map((store) => store.close()));
    },
  };
}

const ask: (store: Store, hits: readonly Hit[], how: Parameters<Store['apply']>[1]) => ReturnType<Store['apply']> =
  async (store, hits, how) => (hits.length > 0 ? store.apply(hits, how) : []);

const isBySecond = ({ limit }: Hit): boolean => limit.unit === 'SECOND' && limit.unitMultiplier === 1;
