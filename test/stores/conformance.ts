import { randomUUID } from 'node:crypto';
import { MAX_COUNT, NEVER_MS, unitMs } from '../../src/algorithms/limit.ts';
import type { Clock } from '../../src/clock.ts';
import { createCounterKeys } from '../../src/stores/key.ts';
import type { Hit, Store } from '../../src/stores/store.ts';
import { type FakeClock, fakeClock } from '../helpers/clock.ts';
import { fixedWindowOf } from '../helpers/limits.ts';

const TIMEOUT_MS = 10_000;

/** Where the clock stands at first, and when the hour that it stands in ends. */
const NOW_MS = 1_700_000_000_000;
const HOUR_LEFT_MS = unitMs.HOUR - (NOW_MS % unitMs.HOUR);

/**
 * What every store must do.
 *
 * @param create  makes a store that can be used at once and goes by this clock; the suite closes it
 */
export function storeConformance(name: string, create: (clock: Clock) => Store | Promise<Store>): void {
  describe(`${name}, as every store,`, () => {
    let clock: FakeClock;
    let store: Store;
    let counterKeys: ReturnType<typeof createCounterKeys>;

    beforeEach(async () => {
      clock = fakeClock(NOW_MS);
      store = await create(clock);
      counterKeys = createCounterKeys(`${randomUUID()}:`);
    });
    afterEach(() => store.close());

    const hit = (counter: string, hits: number, requestsPerHour = 20): Hit => {
      const limit = fixedWindowOf(requestsPerHour, unitMs.HOUR);
      return { key: counterKeys(limit, 'domain', [{ key: 'counter', value: counter }]), limit, hits };
    };
    const apply = (...hits: Hit[]) => store.apply(hits, { timeoutMs: TIMEOUT_MS });

    test('is ready', () => {
      expect(store.state()).toEqual({ ready: true });
    });

    test('decides as the algorithm does, in the order of the hits', async () => {
      const first = await apply(hit('a', 2, 20), hit('b', 1, 0), hit('c', 5, 3), hit('d', 5, 5));
      const common = { hitsBefore: 0, durationUntilResetMs: HOUR_LEFT_MS };
      expect(first).toEqual([
        { ...common, code: 'OK', limitRemaining: 18, retryAfterMs: 0 },
        { ...common, code: 'OVER_LIMIT', limitRemaining: 0, retryAfterMs: NEVER_MS },
        { ...common, code: 'OVER_LIMIT', limitRemaining: 0, retryAfterMs: NEVER_MS },
        { ...common, code: 'OK', limitRemaining: 0, retryAfterMs: 0 },
      ]);
      const second = await apply(hit('d', 1, 5), hit('a', 1, 20));
      expect(second).toMatchObject([
        { code: 'OVER_LIMIT', hitsBefore: 5, limitRemaining: 0, retryAfterMs: HOUR_LEFT_MS },
        { code: 'OK', hitsBefore: 2, limitRemaining: 17, retryAfterMs: 0 },
      ]);
    });

    test('lets a key that appears twice in one apply see its own first hit', async () => {
      const decisions = await apply(hit('a', 15), hit('b', 1), hit('a', 5), hit('a', 1));
      expect(decisions).toMatchObject([
        { code: 'OK', hitsBefore: 0 },
        { code: 'OK', hitsBefore: 0 },
        { code: 'OK', hitsBefore: 15 },
        { code: 'OVER_LIMIT', hitsBefore: 20 },
      ]);
      expect(await apply(hit('a', 0))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 21 }]);
    });

    test('spends nothing at 0 hits, and gives back at negative ones', async () => {
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

    test('turns the window over when its clock does, not a millisecond earlier', async () => {
      await apply(hit('a', 20));
      clock.advance(HOUR_LEFT_MS - 1);
      expect(await apply(hit('a', 1))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 20, durationUntilResetMs: 1 }]);
      clock.advance(1);
      for (const hitsBefore of [0, 1, 2]) {
        const turned = { code: 'OK', hitsBefore, durationUntilResetMs: unitMs.HOUR };
        expect(await apply(hit('a', 1))).toMatchObject([turned]);
      }
    });

    test('keeps the later window when its clock steps back', async () => {
      clock.advance(HOUR_LEFT_MS);
      await apply(hit('a', 20));
      clock.advance(-1);
      expect(await apply(hit('a', 1))).toMatchObject([
        { code: 'OVER_LIMIT', hitsBefore: 20, durationUntilResetMs: unitMs.HOUR + 1 },
      ]);
    });

    test('admits exactly 20 of 50 applies at once where the limit is 20', async () => {
      const answers = await Promise.all(Array.from({ length: 50 }, () => apply(hit('a', 1))));
      expect(answers.flat().filter(({ code }) => code === 'OK')).toHaveLength(20);
      expect(answers.flat().filter(({ code }) => code === 'OVER_LIMIT')).toHaveLength(30);
    });

    test('takes 1,000 hits in one apply', async () => {
      const hits = Array.from({ length: 1_000 }, (_, at) => hit(String(at % 800), 1)); // the first 200 counters twice
      const decisions = await apply(...hits);
      const spentBefore = decisions.map((decision) => 'hitsBefore' in decision && decision.hitsBefore);
      expect(spentBefore).toEqual(Array.from({ length: 1_000 }, (_, at) => (at < 800 ? 0 : 1)));
    });

    test('takes an apply without hits', async () => {
      expect(await apply()).toEqual([]);
    });

    test('keeps what was spent when a limit gets another number', async () => {
      await apply(hit('a', 7, 20));
      expect(await apply(hit('a', 1, 5))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 7 }]);
      expect(await apply(hit('a', 1, 10))).toMatchObject([{ code: 'OK', hitsBefore: 8, limitRemaining: 1 }]);
    });

    test('counts to the largest exact integer', async () => {
      await apply(hit('a', MAX_COUNT - 1));
      expect(await apply(hit('a', 1))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: MAX_COUNT - 1 }]);
      expect(await apply(hit('a', 1 - MAX_COUNT))).toMatchObject([{ code: 'OK', limitRemaining: 19 }]);
    });

    test.each([
      { what: 'texts of any script', texts: ['', ' ', '\0', '\n', 'ü', 'u\u0308', '用户', '🦀', '🦀🦀'] },
      { what: 'texts that look like keys', texts: ['|', ':', '1:a', '|1:a', '|1:a|', '1:a|1:b', '_', '{a}', '*'] },
      { what: 'long texts', texts: ['a'.repeat(16_383), 'a'.repeat(16_384), `${'a'.repeat(16_383)}b`] },
    ])('tells counters apart by $what', async ({ texts }) => {
      await apply(...texts.map((text, at) => hit(text, at + 1)));
      const looks = await apply(...texts.map((text) => hit(text, 0)));
      expect(looks).toMatchObject(texts.map((_, at) => ({ hitsBefore: at + 1 })));
    });
  });
}
