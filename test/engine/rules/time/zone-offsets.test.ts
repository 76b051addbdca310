import { IANAZone } from 'luxon';
import { wallClock } from '../../../../src/engine/rules/time/zone-time.ts';
import fc from '../../../helpers/property.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MINUTE_MS = 60_000;

afterEach(() => jest.restoreAllMocks());

/** Replaces the offsets of all zones: their clocks are moved at times, each with the offset from then on, in minutes. */
const moveAt = (...moves: readonly (readonly [atMs: number, offset: number])[]) =>
  jest.spyOn(IANAZone.prototype, 'offset').mockImplementation((ms) => moves.findLast(([atMs]) => atMs <= ms)?.[1] ?? 0);

test('every clock change of a day is found, in order', () => {
  const [first, second, midnight] = [DAY_MS + 1, DAY_MS + 5 * HOUR_MS, 2 * DAY_MS];
  moveAt([first, 60], [second, 90], [midnight, 30]);
  const { nextMove, at } = wallClock('Etc/GMT+1');
  expect(nextMove(0, 3 * DAY_MS)).toBe(first);
  expect(nextMove(first - 1, first)).toBe(first);
  expect(nextMove(first, 3 * DAY_MS)).toBe(second);
  expect(nextMove(first, second - 1)).toBeUndefined();
  expect(nextMove(second, 3 * DAY_MS)).toBe(midnight);
  expect(nextMove(midnight, 9 * DAY_MS)).toBeUndefined();
  expect(
    [0, first - 1, first, second - 1, second, midnight - 1, midnight, 9 * DAY_MS].map((ms) => at(ms) - ms),
  ).toEqual([0, 0, 60, 60, 90, 90, 30, 30].map((minutes) => minutes * MINUTE_MS));
});

test('a day is looked up once, and again only after many others', () => {
  const asked = moveAt();
  const { nextMove } = wallClock('Etc/GMT+2');
  const questionsFor = (fromDay: number, toDay: number): number => {
    asked.mockClear();
    nextMove(fromDay * DAY_MS, toDay * DAY_MS);
    return asked.mock.calls.length;
  };
  expect(questionsFor(0, 7)).toBe(16);
  expect(questionsFor(0, 7)).toBe(0);
  expect(questionsFor(1, 8)).toBe(2);
  questionsFor(1_000, 9_000);
  expect(questionsFor(0, 7)).toBe(16);
});

test('agrees with a scan of every hour of the calendar', () => {
  const zones = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Africa/Casablanca', 'Pacific/Apia'];
  const anyTime = fc.integer({ min: Date.UTC(1970, 0, 1), max: Date.UTC(2037, 0, 1) });
  fc.assert(
    fc.property(fc.constantFrom(...zones), anyTime, fc.integer({ min: 1, max: 40 * 24 }), (name, fromMs, hours) => {
      const zone = IANAZone.create(name);
      const { nextMove, at: wallAt } = wallClock(name);
      const offsetMs = (ms: number): number => wallAt(ms) - ms;
      const before = zone.offset(fromMs);
      let at = 1;
      while (at <= hours && zone.offset(fromMs + at * HOUR_MS) === before) at++;
      const moveMs = nextMove(fromMs, fromMs + hours * HOUR_MS);
      if (at > hours) return expect(moveMs).toBeUndefined();
      expect(Math.ceil(((moveMs ?? 0) - fromMs) / HOUR_MS)).toBe(at);
      expect(zone.offset((moveMs ?? 0) - 1)).toBe(before);
      expect(offsetMs((moveMs ?? 0) - 1)).toBe(before * MINUTE_MS);
      expect(offsetMs(moveMs ?? 0)).toBe(zone.offset(moveMs ?? 0) * MINUTE_MS);
    }),
    { numRuns: 60 },
  );
});
