import { watchTimerLag } from '../../../src/h2/bounds/timer-lag.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('the largest lag of the last 15 seconds is kept while there are calls', () => {
  let nowMs = 0;
  let isBusy = false;
  const lag = watchTimerLag(
    () => isBusy,
    () => nowMs,
  );
  const second = (lateMs = 0): void => {
    nowMs += 1_000 + lateMs;
    jest.advanceTimersByTime(1_000);
  };
  expect(lag.ms()).toBe(0);
  lag.wake();
  isBusy = true;
  second(300);
  for (let at = 1; at < 15; at++) second(20);
  expect(lag.ms()).toBe(300);
  second(20);
  expect(lag.ms()).toBe(20);
  isBusy = false;
  second();
  expect([lag.ms(), jest.getTimerCount()]).toEqual([0, 0]);
  lag.wake();
  expect(lag.ms()).toBe(0);
  lag.close();
});
