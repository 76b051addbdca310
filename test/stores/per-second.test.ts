import { unitMs } from '../../src/algorithms/limit.ts';
import type { CounterKey } from '../../src/stores/key.ts';
import { createPerSecondStore } from '../../src/stores/per-second.ts';
import type { Hit, Store, StoreState } from '../../src/stores/store.ts';
import { fixedWindowOf, tokenBucketOf } from '../helpers/limits.ts';

/** A store that answers with its own name, in any order of time. */
function named(name: string, current: StoreState = { ready: true }) {
  const asked: string[][] = [];
  const store: Store & { closed: boolean } = {
    closed: false,
    atomic: 'request',
    async apply(hits) {
      asked.push(hits.map(({ key }) => key));
      if (name === 'others') await new Promise(setImmediate); // the second to answer
      return hits.map(({ key }) => ({ code: 'UNAVAILABLE', reason: `${name} ${key}` }));
    },
    state: () => current,
    async close() {
      store.closed = true;
    },
  };
  return { store, asked };
}

const second = { ...fixedWindowOf(5, unitMs.SECOND), unit: 'SECOND', unitMultiplier: 1 } as const;
const on = (key: string, limit: Hit['limit']): Hit => ({ key: key as CounterKey, limit, hits: 1, blocks: true });

test('limits by the second go to their own store, all others to the other, and the answers come back in order', async () => {
  const [perSecond, others] = [named('seconds'), named('others')];
  const store = createPerSecondStore({ perSecond: perSecond.store, others: others.store });
  const answers = await store.apply(
    [
      on('a', fixedWindowOf(5, unitMs.MINUTE)),
      on('b', second),
      on('c', { ...second, unitMultiplier: 30, windowMs: 30_000 }),
      on('d', { ...tokenBucketOf(5, unitMs.SECOND), unit: 'SECOND', unitMultiplier: 1 }),
      on('e', { ...second, unit: 'UNKNOWN', windowMs: 1_500 }),
    ],
    { spend: 'each', timeoutMs: 1_000 },
  );
  expect(answers.map((answer) => 'reason' in answer && answer.reason)).toEqual([
    'others a',
    'seconds b',
    'others c',
    'seconds d',
    'others e',
  ]);
  expect([perSecond.asked, others.asked]).toEqual([[['b', 'd']], [['a', 'c', 'e']]]);
});

test('a store that has nothing to do is not asked', async () => {
  const [perSecond, others] = [named('seconds'), named('others')];
  const store = createPerSecondStore({ perSecond: perSecond.store, others: others.store });
  await store.apply([on('b', second)], { spend: 'each', timeoutMs: 1_000 });
  expect(others.asked).toEqual([]);
});

test('is ready when both are, closes both, and is one step for no more than a counter', async () => {
  const away = { ready: false, reason: 'away' } as const;
  const [perSecond, others] = [named('seconds'), named('others')];
  const store = createPerSecondStore({ perSecond: perSecond.store, others: others.store });
  expect(store.state()).toEqual({ ready: true });
  expect(store.atomic).toBe('counter');
  const half = createPerSecondStore({ perSecond: perSecond.store, others: named('others', away).store });
  expect(half.state()).toEqual(away);
  await store.close();
  expect([perSecond.store.closed, others.store.closed]).toEqual([true, true]);
});
