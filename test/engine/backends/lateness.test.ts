import { watchLateness } from '../../../src/engine/backends/lateness.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

let nowMs: number;
/** Lets a timer of 10 ms fire, this late. */
const tick = (lateMs = 0): void => {
  nowMs += 10 + lateMs;
  jest.advanceTimersByTime(10);
};

test('the largest of the last five lags is kept while calls are in flight', () => {
  nowMs = 0;
  const lateness = watchLateness(() => nowMs);
  expect(lateness.latenessMs()).toBe(0);
  lateness.began();
  tick(60);
  for (let at = 0; at < 4; at++) tick(1);
  expect(lateness.latenessMs()).toBe(60);
  tick(2);
  expect(lateness.latenessMs()).toBe(2);
  lateness.ended();
  tick();
  expect([lateness.latenessMs(), jest.getTimerCount()]).toEqual([0, 0]);
  lateness.began();
  expect(lateness.latenessMs()).toBe(0);
  lateness.close();
});

test('the time in which the process has not run is the sum of all lags, the present one included', () => {
  nowMs = 0;
  const lateness = watchLateness(() => nowMs);
  lateness.began();
  tick(60);
  tick(5);
  expect(lateness.stoodMs).toBe(65);
  expect(lateness.stoodAtMs(nowMs + 10)).toBe(65);
  expect(lateness.stoodAtMs(nowMs + 30)).toBe(85);
  lateness.ended();
  tick();
  nowMs += 1_000; // without calls, nothing is measured
  expect(lateness.stoodAtMs(nowMs)).toBe(65);
  lateness.close();
});
