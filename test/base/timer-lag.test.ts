import { TimerLag } from '../../src/base/timer-lag.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('the largest of the last measurements is kept while they are needed', () => {
  let nowMs = 0;
  let isBusy = false;
  const lag = new TimerLag({
    intervalMs: 1_000,
    measurements: 15,
    monotonicMs: () => nowMs,
    isNeeded: () => isBusy,
  });
  const second = (lateMs = 0): void => {
    nowMs += 1_000 + lateMs;
    jest.advanceTimersByTime(1_000);
  };
  expect(lag.maxMs()).toBe(0);
  lag.wake();
  isBusy = true;
  second(300);
  for (let at = 1; at < 15; at++) second(20);
  expect(lag.maxMs()).toBe(300);
  second(20);
  expect(lag.maxMs()).toBe(20);
  isBusy = false;
  second();
  expect([lag.maxMs(), jest.getTimerCount()]).toEqual([0, 0]);
  lag.wake();
  expect(lag.maxMs()).toBe(0);
  lag.close();
});
