import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { adaptiveOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import { childOf, randomsOf, type SlotLeaf, sharedSlotsOf, slotOf } from '../../helpers/shares.ts';
import { fluidRates } from './fluid.ts';

const HOLD_MS = 400;

/** A child, and how many requests it would have in flight if it could. */
interface Client extends SlotLeaf {
  readonly wants: number;
}

/** Slots in memory, and clients whose requests take 400 ms on average and are sent again 20 ms after a refusal. */
function createHall(slots: number, seed: number) {
  const clock = fakeClock();
  const store = createMemoryBackend(clock, { maxCounters: 10 });
  const random = randomsOf(seed);
  const [key, whole] = ['slots' as CounterKey, sharedSlotsOf(slots, 5_000)];
  const held = new Map<number, { readonly client: Client; readonly untilMs: number }>();
  let lastHolder = 10_000;
  const run = (client: Client, holder: number, hits: number) => {
    const replies = store.run([slotOf(key, whole, client, { holder, hits })], { spend: 'each', timeoutMs: 1_000 });
    if (!Array.isArray(replies)) throw new TypeError('memory answers at once');
    return replies[0];
  };
  const slotsOf = (client: Client): number => [...held.values()].filter((hold) => hold.client === client).length;
  const take = (client: Client): boolean => {
    const holder = ++lastHolder;
    const isTaken = run(client, holder, 1).code === 'OK';
    if (isTaken) held.set(holder, { client, untilMs: clock() + HOLD_MS * (0.5 + random()) });
    expect(held.size).toBeLessThanOrEqual(slots);
    return isTaken;
  };
  return {
    slotsOf,
    take,
    /** @returns the mean number of slots of each client */
    run(clients: readonly Client[], ms: number): readonly number[] {
      const sums = clients.map(() => 0);
      for (let elapsed = 0; elapsed < ms; elapsed += 20) {
        clock.advance(20);
        for (const [holder, { client, untilMs }] of held) {
          if (untilMs > clock()) continue;
          held.delete(holder);
          run(client, holder, -1);
        }
        const first = Math.floor(random() * clients.length);
        for (let turn = 0; turn < clients.length; turn++) {
          const client = clients[(first + turn) % clients.length] as Client; // in range
          while (slotsOf(client) < client.wants && take(client));
        }
        for (const [at, client] of clients.entries()) sums[at] = (sums[at] ?? 0) + slotsOf(client);
      }
      return sums.map((sum) => sum / (ms / 20));
    },
  };
}

const anyClients = fc.array(
  fc.record({
    reserve: fc.constantFrom<number>(0, 0, 4, 8),
    weight: fc.integer({ min: 1, max: 4 }),
    ceiling: fc.constantFrom<number>(0, 0, 12),
    wants: fc.integer({ min: 1, max: 50 }),
  }),
  { minLength: 2, maxLength: 5 },
);

test('children have the slots that max-min fairness gives them, also after demand has moved, and never one too many', () => {
  fc.assert(
    fc.property(anyClients, anyClients, fc.integer(), (some, others, seed) => {
      const slots = 40;
      const hall = createHall(slots, seed);
      for (const now of [some, others]) {
        const clients = now.map(
          ({ reserve, weight, ceiling, wants }, at): Client => ({
            children: [at + 1],
            path: [childOf({ reserve, weight, ceiling })],
            wants,
          }),
        );
        hall.run(clients, 3_000);
        const held = hall.run(clients, 3_000);
        const fair = fluidRates(
          slots - 2, // a twentieth is left to children that come next
          now.map(({ wants, ceiling, ...own }) => ({
            ...own,
            ceiling: ceiling || Number.POSITIVE_INFINITY,
            demand: wants,
            children: [],
          })),
        );
        // an active child keeps what it does not use of its reservation, and one that was refused a slot for a second
        const kept = now.reduce((sum, { reserve, wants }) => sum + 1 + Math.max(reserve - wants, 0), 0);
        for (const [at, share] of fair.entries())
          expect(Math.abs((held[at] ?? 0) - share)).toBeLessThan(1 + kept + 0.05 * share);
      }
    }),
    { numRuns: 20, endOnFailure: true },
  );
});

test('a lone child has all slots but one, and lends them until the other comes back, which has its reservation within one hold', () => {
  const hall = createHall(10, 1);
  const [own, other] = [
    { children: [1], path: [childOf({ reserve: 4 })], wants: 10 },
    { children: [2], path: [childOf()], wants: 10 },
  ] as const;
  hall.run([other], 1_000);
  expect(hall.slotsOf(other)).toBe(9);
  expect(hall.take({ children: [3], path: [childOf()], wants: 1 })).toBe(true);
  hall.run([other, own], 1.5 * HOLD_MS + 20);
  expect(hall.slotsOf(own)).toBeGreaterThanOrEqual(4);
  hall.run([own], 3_000);
  expect(hall.slotsOf(own)).toBe(9);
});

test('weights of teams hold inside an organisation that another one competes with', () => {
  const hall = createHall(100, 1);
  const team = (org: number, id: number, weight: number): Client => ({
    children: [org, 10 * org + id],
    path: [childOf({ key: 'org' }), childOf({ key: 'team', weight })],
    wants: 100,
  });
  const clients = [team(1, 1, 4), team(1, 2, 1), team(2, 1, 1)];
  hall.run(clients, 4_000);
  const [heavy = 0, light = 0, other = 0] = hall.run(clients, 6_000);
  expect(Math.abs(heavy - 38)).toBeLessThan(4);
  expect(Math.abs(light - 9.5)).toBeLessThan(3);
  expect(Math.abs(other - 47.5)).toBeLessThan(4);
});

test('lower priorities leave slots to higher ones, which use all of them if the lower ones cannot', () => {
  const hall = createHall(20, 1);
  const leaf = (id: number, threshold: number, wants: number): Client => ({
    children: [id],
    path: [childOf()],
    threshold,
    wants,
  });
  const [sheddable, ordinary, critical] = [leaf(1, 60, 30), leaf(2, 85, 30), leaf(3, 100, 20)];
  hall.run([sheddable], 1_000);
  expect(hall.slotsOf(sheddable)).toBe(12);
  hall.run([sheddable, ordinary], 3_000);
  expect(hall.slotsOf(sheddable) + hall.slotsOf(ordinary)).toBe(17);
  hall.run([sheddable, ordinary, critical], 3_000);
  expect(hall.slotsOf(critical)).toBeGreaterThanOrEqual(17);
});

test('an adaptive limit does not grow because of calls that only a ceiling refuses', () => {
  const clock = fakeClock();
  const store = createMemoryBackend(clock, { maxCounters: 10 });
  const whole = adaptiveOf(100, 30_000, { path: [], min: 10, adaptMs: 200 });
  const leaf = { children: [1], path: [childOf({ ceiling: 20 })] }; // 2 of 10 slots
  const run = (holder: number, hits: number, status?: number) => {
    const slot = { ...slotOf('adaptive' as CounterKey, whole, leaf, { holder, hits }), status };
    const replies = store.run([slot], { spend: 'each', timeoutMs: 1_000 });
    if (!Array.isArray(replies)) throw new TypeError('memory answers at once');
    return replies[0];
  };
  for (let turn = 0; turn < 200; turn++) {
    const [one, other, third] = [3 * turn + 10, 3 * turn + 11, 3 * turn + 12];
    expect([run(one, 1).code, run(other, 1).code]).toEqual(['OK', 'OK']);
    expect(run(third, 1)).toMatchObject({ code: 'OVER_LIMIT', share: { reason: 'ceiling' } });
    clock.advance(10);
    run(one, -1, 200);
    run(other, -1, 200);
  }
  expect(run(1, 0).holds?.adapted).toMatchObject({ limit: 10, move: 'unused' });
});
