import { compare, type Launch } from '../../../proof/bench/verdict.ts';

/** A launch whose rounds are alike. */
const launch = (current: number, repeat: number, other: number, rounds = 3): Launch => ({
  current: Array(rounds).fill(current),
  repeat: Array(rounds).fill(repeat),
  other: Array(rounds).fill(other),
});

test.each([
  [10, 10, 'no slower'],
  [10.29, 10, 'no slower'],
  [10.31, 10, 'slower'],
  [5, 10, 'no slower'],
] as const)('a build of %d µs is compared with one of %d µs: %s', (current, other, verdict) => {
  const comparison = compare([launch(current, current, other)]);
  expect(comparison).toMatchObject({ currentUs: current, otherUs: other, spread: 0, allowed: 0.03, verdict });
  expect(comparison.ratio).toBeCloseTo(current / other);
});

test('the difference of a build from itself is permitted if it is more than 3 %', () => {
  expect(compare([launch(10, 11, 9.6)])).toMatchObject({ verdict: 'no slower' });
  expect(compare([launch(10, 11, 9.4)])).toMatchObject({ verdict: 'slower' });
  expect(compare([launch(10, 11, 9.6)]).allowed).toBeCloseTo(0.1);
});

test('the spread is the same whichever of the two processes costs more', () => {
  expect(compare([launch(10, 11, 10)]).spread).toBeCloseTo(0.1);
  expect(compare([launch(11, 10, 10)]).spread).toBeCloseTo(0.1);
});

test('differences of two launches in opposite directions do not cancel out', () => {
  expect(compare([launch(10, 11, 10), launch(11, 10, 10)]).spread).toBeCloseTo(0.1);
});

test('the two processes are exchanged in every launch but the first, which covers all ways to name them', () => {
  const mixed = [launch(10, 11, 10), launch(11, 10, 10), launch(10, 11, 10), launch(11, 10, 10)];
  expect(compare(mixed).spread).toBeCloseTo(compare(Array(4).fill(launch(10, 11, 10))).spread);
});

test('one launch of several in which the two processes differ much does not determine the spread', () => {
  const launches = [launch(10, 10.2, 10), launch(10, 30, 10), launch(10, 10.2, 10), launch(10, 10.2, 10)];
  expect(compare(launches).spread).toBeCloseTo(0.02);
});

test('builds are compared within rounds, so that a round that is slow for all changes nothing', () => {
  const slowing = [1, 2, 4, 8, 3];
  const times = (us: number) => slowing.map((factor) => us * factor);
  const comparison = compare([{ current: times(10), repeat: times(10), other: times(8) }]);
  expect(comparison.ratio).toBeCloseTo(1.25);
  expect(comparison.spread).toBeCloseTo(0);
});

test('a round in which one process was slow does not affect the result', () => {
  const comparison = compare([{ current: [10, 10, 90, 10, 10], repeat: Array(5).fill(10), other: Array(5).fill(10) }]);
  expect(comparison).toMatchObject({ ratio: expect.closeTo(1), spread: expect.closeTo(0), verdict: 'no slower' });
});

test('exchanging the builds inverts the ratio', () => {
  const [fast, slow] = [
    [10, 12, 11, 10],
    [13, 12, 14, 11],
  ];
  const forth = compare([{ current: slow, repeat: slow, other: fast }]).ratio;
  const back = compare([{ current: fast, repeat: fast, other: slow }]).ratio;
  expect(forth * back).toBeCloseTo(1);
});

test('rounds without CPU time, which have no ratio, are refused', () => {
  expect(() => compare([launch(0, 10, 10)])).toThrow('every round must use CPU time: raise --seconds');
  expect(() => compare([launch(10, 10, Number.NaN)])).toThrow('every round must use CPU time: raise --seconds');
});

test('launches with unpaired rounds are refused', () => {
  expect(() => compare([{ ...launch(10, 10, 10), other: [10] }])).toThrow(
    'a launch must have as many rounds of each process, got 3,3,1',
  );
  expect(() => compare([launch(10, 10, 10, 0)])).toThrow(
    'a launch must have as many rounds of each process, got 0,0,0',
  );
});
