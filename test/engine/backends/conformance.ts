import { randomUUID } from 'node:crypto';
import type { Clock } from '../../../src/base/clock.ts';
import { NEVER_MS, type Spend, unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, Operation, Reply, RequestOperation } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { fixedWindowOf, limitsOfEach, penaltyOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';

const TIMEOUT_MS = 10_000;

/** The clock's initial time, and the time left in that hour. */
const NOW_MS = 1_700_000_000_000;
const HOUR_LEFT_MS = unitMs.HOUR - (NOW_MS % unitMs.HOUR);

/**
 * The behaviour that every store must have.
 *
 * @param create   creates a store that is ready and uses this clock, for all tests; the suite closes it
 * @param without  an algorithm that the store lacks
 */
export function backendConformance(
  name: string,
  create: (clock: Clock) => Backend | Promise<Backend>,
  { atomic = 'request', without }: { readonly atomic?: Backend['atomic']; readonly without?: Limit['algorithm'] } = {},
): void {
  /** Stores that update each counter separately promise nothing about all counters of a request. */
  const testOfSets =
    atomic === 'request' ? test : (Object.assign(() => {}, { each: () => () => {} }) as unknown as typeof test); // the part that is used here
  const limitsOf = (hits: number, windowMs: number) =>
    limitsOfEach(hits, windowMs).filter(({ algorithm }) => algorithm !== without);

  describe(`${name}, as every store,`, () => {
    const clock = fakeClock(NOW_MS);
    let store: Backend;
    let counterKeys: ReturnType<typeof createCounterKeys>;

    beforeAll(async () => {
      store = await create(clock);
    });
    beforeEach(() => {
      clock.set(NOW_MS);
      counterKeys = createCounterKeys(`${randomUUID()}:`);
    });
    afterAll(() => store.close());

    const on = (counter: string, limit: Limit, hits: number, blocks = true): RequestOperation => {
      return operationOf(
        { key: counterKeys(limit, 'domain', [{ key: 'counter', value: counter }]) },
        limit,
        hits,
        blocks,
      );
    };
    const hit = (counter: string, hits: number, requestsPerHour = 20): RequestOperation =>
      on(counter, fixedWindowOf(requestsPerHour, unitMs.HOUR), hits);
    const applyAs = (spend: Spend, ...hits: RequestOperation[]) => store.run(hits, { spend, timeoutMs: TIMEOUT_MS });
    const apply = (...hits: RequestOperation[]) => applyAs('each', ...hits);

    test('is ready, and says what its steps are', () => {
      expect(store.health()).toEqual({ ready: true });
      expect(store.atomic).toBe(atomic);
    });

    test('decides like the algorithm, in the order of the hits', async () => {
      const first = await apply(hit('a', 2, 20), hit('b', 1, 0), hit('c', 5, 3), hit('d', 5, 5));
      const common = { hitsBefore: 0, durationUntilResetMs: HOUR_LEFT_MS, delayMs: 0, soft: false };
      expect(first).toEqual([
        { ...common, code: 'OK', limitRemaining: 18, retryAfterMs: 0 },
        { ...common, code: 'OVER_LIMIT', limitRemaining: 0, retryAfterMs: NEVER_MS },
        { ...common, code: 'OVER_LIMIT', limitRemaining: 0, retryAfterMs: NEVER_MS },
        { ...common, code: 'OK', limitRemaining: 0, retryAfterMs: 0, repeatAfterMs: HOUR_LEFT_MS },
      ]);
      const second = await apply(hit('d', 1, 5), hit('a', 1, 20));
      expect(second).toMatchObject([
        { code: 'OVER_LIMIT', hitsBefore: 5, limitRemaining: 0, retryAfterMs: HOUR_LEFT_MS },
        { code: 'OK', hitsBefore: 2, limitRemaining: 17, retryAfterMs: 0 },
      ]);
    });

    test('counts the first hit of a repeated key before its second one', async () => {
      const decisions = await apply(hit('a', 15), hit('b', 1), hit('a', 5), hit('a', 1));
      expect(decisions).toMatchObject([
        { code: 'OK', hitsBefore: 0 },
        { code: 'OK', hitsBefore: 0 },
        { code: 'OK', hitsBefore: 15 },
        { code: 'OVER_LIMIT', hitsBefore: 20 },
      ]);
      expect(await apply(hit('a', 0))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 21 }]);
    });

    test('spends nothing with 0 hits, and refunds with negative ones', async () => {
      const spent = async (hits: number) => {
        const [decision] = await apply(hit('a', hits));
        return decision;
      };
      expect(await spent(5)).toMatchObject({ code: 'OK', limitRemaining: 15 });
      expect(await spent(0)).toMatchObject({ code: 'OK', limitRemaining: 15 });
      expect(await spent(-2)).toMatchObject({ code: 'OK', limitRemaining: 17 });
      expect(await spent(-9)).toMatchObject({ code: 'OK', limitRemaining: 20 });
      expect(await spent(20)).toMatchObject({ code: 'OK', limitRemaining: 0 });
    });

    test('blocks a counter in the step that exceeds its limit, until the block ends', async () => {
      const hour = fixedWindowOf(2, unitMs.HOUR);
      const limit = penaltyOf(hour, { blockMs: 2 * unitMs.HOUR, longestMs: 2 * unitMs.HOUR });
      const spend = async (hits = 1) => (await apply(on('a', limit, hits)))[0];
      expect(await apply(...Array.from({ length: 4 }, () => on('a', limit, 1)))).toMatchObject([
        { code: 'OK', limitRemaining: 1 },
        { code: 'OK', limitRemaining: 0 },
        { code: 'OVER_LIMIT', retryAfterMs: 2 * unitMs.HOUR, penalty: { isBegun: true } },
        { code: 'OVER_LIMIT', retryAfterMs: 2 * unitMs.HOUR },
      ]);
      clock.advance(unitMs.HOUR);
      expect(await spend()).toMatchObject({ code: 'OVER_LIMIT', hitsBefore: 0, retryAfterMs: unitMs.HOUR });
      expect(await spend(0)).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: unitMs.HOUR });
      expect(await spend(-1)).toMatchObject({ code: 'OK' }); // hits given back end no block
      expect(await spend()).toMatchObject({ code: 'OVER_LIMIT', penalty: { leftMs: unitMs.HOUR, isBegun: false } });
      clock.advance(unitMs.HOUR);
      expect(await spend()).toMatchObject({ code: 'OK', limitRemaining: 1 });
      await store.run([{ ...on('b', limit, 2), kind: 'charge' }], { spend: 'each', timeoutMs: TIMEOUT_MS });
      expect(await apply(on('b', limit, 1))).toMatchObject([{ code: 'OVER_LIMIT', retryAfterMs: 2 * unitMs.HOUR }]);
      await store.run([{ ...on('b', limit, 0), kind: 'forget' }], { spend: 'each', timeoutMs: TIMEOUT_MS });
      expect(await apply(on('b', limit, 1))).toMatchObject([{ code: 'OK', limitRemaining: 1 }]);
    });

    test('starts a new window exactly when its clock reaches it', async () => {
      await apply(hit('a', 20));
      clock.advance(HOUR_LEFT_MS - 1);
      expect(await apply(hit('a', 1))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 20, durationUntilResetMs: 1 }]);
      clock.advance(1);
      for (const hitsBefore of [0, 1, 2]) {
        const turned = { code: 'OK', hitsBefore, durationUntilResetMs: unitMs.HOUR };
        expect(await apply(hit('a', 1))).toMatchObject([turned]);
      }
    });

    test('accepts 1,000 hits in one call', async () => {
      const hits = Array.from({ length: 1_000 }, (_, at) => hit(String(at % 800), 1)); // the first 200 counters twice
      const decisions = await apply(...hits);
      const spentBefore = decisions.map((decision) => 'hitsBefore' in decision && decision.hitsBefore);
      expect(spentBefore).toEqual(Array.from({ length: 1_000 }, (_, at) => (at < 800 ? 0 : 1)));
    });

    test('accepts a call without hits', async () => {
      expect(await apply()).toEqual([]);
    });

    test('keeps spent hits when the number of a limit changes', async () => {
      await apply(hit('a', 7, 20));
      expect(await apply(hit('a', 1, 5))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 7 }]);
      expect(await apply(hit('a', 1, 10))).toMatchObject([{ code: 'OK', hitsBefore: 8, limitRemaining: 1 }]);
    });

    describe.each([...limitsOf(10, unitMs.HOUR).entries()].map(([at, limit]) => ({ at, name: nameOf(limit) })))(
      'with $name',
      ({ at }) => {
        const ofLimit = (hits: number): RequestOperation =>
          on('a', limitsOf(10, unitMs.HOUR)[at] ?? fixedWindowOf(10), hits);
        const runOne = async (operation: Operation): Promise<Reply | undefined> =>
          (await store.run([operation], { spend: 'each', timeoutMs: TIMEOUT_MS }))[0];
        /** The hits that the counter has. */
        const stands = async (): Promise<number | undefined> => {
          const reply = await runOne(ofLimit(0));
          return reply && 'hitsBefore' in reply ? reply.hitsBefore : undefined;
        };
        const chargedAtMsOf = async (hits: number): Promise<number> => {
          const how = { spend: 'each', timeoutMs: TIMEOUT_MS, receipts: true } as const;
          const [reply] = await store.run([ofLimit(hits)], how);
          if (reply?.code !== 'OK' || reply.chargedAtMs === undefined) throw new Error('expected a receipt');
          return reply.chargedAtMs;
        };

        test('charges hits that have already passed, even beyond the limit', async () => {
          await apply(ofLimit(8));
          await runOne({ ...ofLimit(1), kind: 'charge' });
          expect(await stands()).toBe(9);
          await runOne({ ...ofLimit(5), kind: 'charge' });
          expect(await stands()).toBeGreaterThanOrEqual(10); // some algorithms keep no more than the limit
          expect(await apply(ofLimit(1))).toMatchObject([{ code: 'OVER_LIMIT' }]);
        });

        test('refunds the hits of a charge, and never more', async () => {
          const chargedAtMs = await chargedAtMsOf(4);
          await apply(ofLimit(3));
          await runOne({ ...ofLimit(4), kind: 'refund', chargedAtMs });
          expect(await stands()).toBe(3);
        });

        test('refunds nothing to a later window', async () => {
          const chargedAtMs = await chargedAtMsOf(4);
          clock.advance(2 * unitMs.HOUR);
          await apply(ofLimit(3));
          await runOne({ ...ofLimit(4), kind: 'refund', chargedAtMs });
          expect(await stands()).toBe(3);
        });

        test('forgets a counter, which restores its whole limit and invalidates earlier receipts', async () => {
          const chargedAtMs = await chargedAtMsOf(10);
          await runOne({ ...ofLimit(0), kind: 'forget' });
          expect(await stands()).toBe(0);
          clock.advance(1);
          expect(await apply(ofLimit(10))).toMatchObject([{ code: 'OK' }]);
          await runOne({ ...ofLimit(10), kind: 'refund', chargedAtMs });
          expect(await stands()).toBe(10);
        });
      },
    );

    test.each([
      { what: 'texts of any script', texts: ['', ' ', '\0', '\n', 'ü', 'u\u0308', '用户', '🦀', '🦀🦀'] },
      { what: 'texts that look like keys', texts: ['|', ':', '1:a', '|1:a', '|1:a|', '1:a|1:b', '_', '{a}', '*'] },
      { what: 'long texts', texts: ['a'.repeat(16_383), 'a'.repeat(16_384), `${'a'.repeat(16_383)}b`] },
    ])('counts separately by $what', async ({ texts }) => {
      await apply(...texts.map((text, at) => hit(text, at + 1)));
      const looks = await apply(...texts.map((text) => hit(text, 0)));
      expect(looks).toMatchObject(texts.map((_, at) => ({ hitsBefore: at + 1 })));
    });

    describe.each([...limitsOf(5, 10 * unitMs.DAY).entries()].map(([at, limit]) => ({ at, name: nameOf(limit) })))(
      'of $name',
      ({ at }) => {
        const limit = (hits: number) => limitsOf(hits, 10 * unitMs.DAY)[at] ?? fixedWindowOf(hits);
        /** The decisions of a peek at the counters. */
        const seen = (...counters: readonly (readonly [string, number])[]) =>
          apply(...counters.map(([counter, most]) => on(counter, limit(most), 0)));

        test('admits exactly 5 of 20 concurrent calls with a limit of 5', async () => {
          const answers = await Promise.all(Array.from({ length: 20 }, () => apply(on('a', limit(5), 1))));
          expect(answers.flat().filter(({ code }) => code === 'OK')).toHaveLength(5);
        });

        test('charges every limit that passes, independently of the others', async () => {
          const set = [on('a', limit(5), 1), on('b', limit(2), 1), on('c', limit(5), 1)];
          for (let request = 0; request < 4; request++) await applyAs('each', ...set);
          expect(await seen(['a', 5], ['c', 5])).toMatchObject([{ limitRemaining: 1 }, { limitRemaining: 1 }]);
        });

        testOfSets('charges all limits or none', async () => {
          const set = [on('a', limit(5), 1), on('b', limit(2), 1), on('c', limit(5), 1)];
          const whole = [{ code: 'OK' }, { code: 'OK' }, { code: 'OK' }];
          for (let request = 0; request < 2; request++)
            expect(await applyAs('all_or_nothing', ...set)).toMatchObject(whole);
          const before = await seen(['a', 5], ['b', 2], ['c', 5]);
          expect(before).toMatchObject([{ limitRemaining: 3 }, { limitRemaining: 0 }, { limitRemaining: 3 }]);
          for (let request = 0; request < 3; request++) {
            const refused = await applyAs('all_or_nothing', ...set);
            expect(refused).toMatchObject([
              { code: 'OK', hitsBefore: 2, limitRemaining: 3, retryAfterMs: 0, delayMs: 0, soft: false },
              { code: 'OVER_LIMIT', hitsBefore: 2, limitRemaining: 0 },
              { code: 'OK', hitsBefore: 2, limitRemaining: 3, retryAfterMs: 0, delayMs: 0, soft: false },
            ]);
          }
          expect(await seen(['a', 5], ['b', 2], ['c', 5])).toEqual(before);
        });

        testOfSets('charges the limits that refuse, if they count refusals, and spares the others', async () => {
          const both = [on('a', limit(5), 1), on('b', limit(2), 1)];
          for (let request = 0; request < 4; request++) await applyAs('spare_others', ...both);
          for (let request = 0; request < 4; request++) await applyAs('each', on('alone', limit(2), 1));
          const [spared, charged, alone] = await seen(['a', 5], ['b', 2], ['alone', 2]);
          expect(spared).toMatchObject({ hitsBefore: 2, limitRemaining: 3 });
          expect(charged).toEqual(alone); // the same as after a refused request
        });

        testOfSets.each(['all_or_nothing', 'spare_others'] as const)(
          'with %s is charged despite a refusal that does not block',
          async (spend) => {
            const set = [on('a', limit(5), 1), on('b', limit(2), 1, false)];
            for (let request = 0; request < 4; request++) await applyAs(spend, ...set);
            for (let request = 0; request < 4; request++) await applyAs('each', on('alone', limit(2), 1));
            const [passed, shadow, alone] = await seen(['a', 5], ['b', 2], ['alone', 2]);
            expect(passed).toMatchObject({ limitRemaining: 1 });
            expect(shadow).toEqual(alone);
          },
        );

        testOfSets.each(['all_or_nothing', 'spare_others'] as const)(
          'with %s promises no time in the past to a key that is refused only because of its own first hit',
          async (spend) => {
            await apply(on('a', limit(5), 4));
            const [, refused] = await applyAs(spend, on('a', limit(5), 1), on('a', limit(5), 1));
            expect(refused).toMatchObject({ code: 'OVER_LIMIT' });
            expect(refused && 'retryAfterMs' in refused && refused.retryAfterMs).toBeGreaterThan(0);
          },
        );

        testOfSets.each(['all_or_nothing', 'spare_others'] as const)(
          'with %s promises no time in the past to hits that are refused after others were given back',
          async (spend) => {
            await apply(on('a', limit(5), 1));
            const [, , refused] = await applyAs(
              spend,
              on('a', limit(5), -3),
              on('a', limit(5), 3),
              on('a', limit(5), 4),
            );
            expect(refused).toMatchObject({ code: 'OVER_LIMIT' });
            expect(refused && 'retryAfterMs' in refused && refused.retryAfterMs).toBeGreaterThanOrEqual(0);
          },
        );
      },
    );

    test('begins a window with its first hit, even after all hits were refunded within one request', async () => {
      const limit = fixedWindowOf(5, unitMs.HOUR, { alignment: 'first_hit' });
      await apply(on('a', limit, 1));
      clock.advance(unitMs.MINUTE);
      const [, again] = await apply(on('a', limit, -1), on('a', limit, 1));
      expect(again).toMatchObject({ code: 'OK', durationUntilResetMs: unitMs.HOUR });
    });
  });
}

function nameOf(limit: Limit): string {
  const how =
    ('alignment' in limit && limit.alignment === 'first_hit' && ' from the first hit') ||
    ('countDenied' in limit && limit.countDenied && ' that counts refusals') ||
    ('refill' in limit && limit.refill === 'interval' && ' refilled at intervals') ||
    '';
  return `${limit.algorithm}${how}`;
}
