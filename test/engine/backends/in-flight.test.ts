import { type Spend, spends } from '../../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { fixedWindowOf, inFlightOf } from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import { codesOf, newKey, STORE_TIMEOUT_MS, sharedStores, withRedis } from '../../helpers/shared-stores.ts';

const ACQUIRES = 400;

withRedis();

describe.each(Object.entries(sharedStores))('in %s', (_, open) => {
  /** Runs hits on limits as one request. */
  const request = async (
    store: Backend,
    asked: readonly (readonly [key: CounterKey, limit: Limit, hits: number, holder?: number])[],
    spend: Spend,
  ) =>
    codesOf(
      await store.run(
        asked.map(([key, limit, hits, holder = 0]) => heldBy(operationOf({ key }, limit, hits, true), holder)),
        { spend, timeoutMs: STORE_TIMEOUT_MS },
      ),
    );

  const held = async (store: Backend, key: CounterKey, limit: Limit): Promise<number | undefined> => {
    const [reply] = await store.run([operationOf({ key }, limit, 0, true)], {
      spend: 'each',
      timeoutMs: STORE_TIMEOUT_MS,
    });
    return reply && 'holds' in reply ? reply.holds?.held : undefined;
  };

  test.each(spends.flatMap((spend) => [true, false].map((hasId) => ({ spend, hasId }))))(
    `${ACQUIRES} parallel acquires get exactly the limit of 37 slots with spend: $spend, ids: $hasId`,
    async ({ spend, hasId }) => {
      const [stored, key, limit] = [open(), newKey(), inFlightOf(37)];
      const acquire = (at: number) => {
        const store = stored[at % stored.length] ?? stored[0];
        return request(store, [[key, limit, 1, hasId ? at + 1 : 0]], spend);
      };
      const all = (await Promise.all(Array.from({ length: ACQUIRES }, (_, at) => acquire(at)))).flat();
      expect(all.filter((code) => code === 'OK')).toHaveLength(37);
      expect(await held(stored[0], key, limit)).toBe(hasId ? 37 : ACQUIRES);
      for (let at = 0; at < ACQUIRES; at++) await request(stored[0], [[key, limit, -1, hasId ? at + 1 : 0]], spend);
      expect(await held(stored[0], key, limit)).toBe(0);
    },
  );

  test.each([
    { spend: 'each', hasId: true, isHeld: true },
    { spend: 'all_or_nothing', hasId: true, isHeld: false },
    { spend: 'spare_others', hasId: true, isHeld: false },
    { spend: 'each', hasId: false, isHeld: true },
    { spend: 'all_or_nothing', hasId: false, isHeld: true },
    { spend: 'spare_others', hasId: false, isHeld: true },
  ] as const)(
    'a slot is held although another limit refuses: $isHeld, with spend: $spend, ids: $hasId, and its release counts in any case',
    async ({ spend, hasId, isHeld }) => {
      const [[store], slots, window] = [open(), newKey(), newKey()];
      const [limit, other] = [inFlightOf(2), fixedWindowOf(0)];
      const both = (hits: number) =>
        request(
          store,
          [
            [slots, limit, hits, hasId ? 1 : 0],
            [window, other, 1],
          ],
          spend,
        );
      expect(await both(1)).toEqual(['OK', 'OVER_LIMIT']);
      expect(await held(store, slots, limit)).toBe(isHeld ? 1 : 0);
      expect(await both(-1)).toEqual(['OK', 'OVER_LIMIT']);
      expect(await held(store, slots, limit)).toBe(0);
    },
  );
});
