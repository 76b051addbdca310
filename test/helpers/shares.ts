import type { Backend } from '../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { ChildNumbers } from '../../src/engine/holds/sharing.ts';
import { createDebit, heldBy, sharedBy } from '../../src/engine/ledger/debit.ts';
import type { AdaptiveLimit } from '../../src/parts/adaptive/estimate.ts';
import type { FairShareLimit } from '../../src/parts/fair-shares/fair-share.ts';
import type { SharedSlotsLimit } from '../../src/parts/fair-shares/shared-slots.ts';
import { fakeClock } from './clock.ts';

/** A limit that children share. By default 1,000 per second, and a bucket of as many. */
export const fairShareOf = (requestsPerUnit = 1_000, more: Partial<FairShareLimit> = {}): FairShareLimit => ({
  algorithm: 'fair_share',
  counter: 'fair_share.3|1000',
  requestsPerUnit,
  soft: 0,
  windowMs: 1_000,
  burst: requestsPerUnit,
  by: 'tenant',
  path: [],
  ...more,
});

/** Slots that children share, for at most a minute each by default. */
export const sharedSlotsOf = (
  slots: number,
  ttlMs = 60_000,
  more: Partial<SharedSlotsLimit> = {},
): SharedSlotsLimit => ({
  algorithm: 'shared_slots',
  counter: 'in_flight|share',
  requestsPerUnit: slots,
  soft: 0,
  windowMs: ttlMs,
  path: [],
  ...more,
});

/** A child without a reservation and a ceiling, of weight 1. */
export const childOf = (more: Partial<ChildNumbers> = {}): ChildNumbers => ({
  key: 'tenant',
  reserve: 0,
  weight: 1,
  ceiling: 0,
  ...more,
});

/** A leaf: the ids down to it, their numbers, and what it asks for in a second. */
export interface Leaf {
  readonly children: readonly number[];
  readonly path: readonly ChildNumbers[];
  readonly demand: number;
  readonly threshold?: number;
}

/** The spend of a leaf on a shared limit. */
export const spendOf = (key: CounterKey, whole: FairShareLimit, leaf: Leaf, hits = 1) => {
  const { children, path, threshold } = leaf;
  const limit = { ...whole, path, ...(threshold !== undefined && { threshold }) };
  return sharedBy(createDebit({ key }, { limit, policy: {} }, hits, true), { children });
};

/** A leaf that asks for slots. */
export type SlotLeaf = Omit<Leaf, 'demand'>;

/** The hits of a leaf on shared slots: 1 takes a slot, -1 releases it. */
export const slotOf = (
  key: CounterKey,
  whole: SharedSlotsLimit | AdaptiveLimit,
  { children, path, threshold }: SlotLeaf,
  { holder, hits = 1 }: { readonly holder: number; readonly hits?: number },
) => {
  const limit = { ...whole, path, ...(threshold !== undefined && { threshold }) };
  return sharedBy(heldBy(createDebit({ key }, { limit, policy: {} }, hits, true), { holder }), { children });
};

/** Numbers from 0 to 1, equal for equal seeds. */
export function randomsOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A shared limit in memory, and its leaves, whose hits arrive at random. */
export function createFleet(whole: FairShareLimit, seed = 1) {
  const clock = fakeClock();
  const store: Backend = createMemoryBackend(clock, { maxCounters: 100_000 });
  const random = randomsOf(seed);
  const key = 'shared' as CounterKey;
  const spend = (leaf: Leaf, hits = 1): boolean => {
    const replies = store.run([spendOf(key, whole, leaf, hits)], { spend: 'each', timeoutMs: 1_000 });
    if (!Array.isArray(replies)) throw new TypeError('memory answers at once');
    return replies[0].code === 'OK';
  };
  const peek = (store: Backend, leaf: Leaf, hits: number): number => {
    const replies = store.run([{ ...spendOf(key, whole, leaf, hits), kind: 'peek' }], {
      spend: 'each',
      timeoutMs: 1_000,
    });
    if (!Array.isArray(replies)) throw new TypeError('memory answers at once');
    return replies[0].retryAfterMs;
  };
  return {
    clock,
    spend,
    /** The time until hits would pass; 0 if now. */
    waitMs: (leaf: Leaf, hits: number): number => peek(store, leaf, hits),
    /** The limit after a time in which nothing arrives. */
    after: (ms: number) => ({
      waitMs(leaf: Leaf, hits: number): number {
        clock.advance(ms);
        const waitMs = peek(store, leaf, hits);
        clock.advance(-ms);
        return waitMs;
      },
    }),
    /** Lets the leaves ask for a time. @returns the hits of each that passed */
    run(leaves: readonly Leaf[], ms: number): readonly number[] {
      const passed = leaves.map(() => 0);
      for (let at = 0; at < ms; at++) {
        const first = Math.floor(random() * leaves.length);
        for (let turn = 0; turn < leaves.length; turn++) {
          const place = (first + turn) % leaves.length;
          const leaf = leaves[place] as Leaf; // in range
          for (let chance = leaf.demand / 1_000; chance > 0; chance--)
            if (random() < chance && spend(leaf)) passed[place] = (passed[place] ?? 0) + 1;
        }
        clock.advance(1);
      }
      return passed;
    },
  };
}
