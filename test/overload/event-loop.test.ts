import { type EventLoopWatch, watchEventLoop } from '../../src/overload/event-loop.ts';
import { eventually } from '../helpers/until.ts';

let watch: EventLoopWatch | undefined;
afterEach(() => {
  watch?.close();
  jest.useRealTimers();
});

/** A clock on which each check is 10 ms plus the lag after the previous one. */
function busyClock() {
  const clock = { nowMs: 0, busyMs: 0, checks: 0 };
  const nowMs = () => {
    clock.checks++;
    clock.nowMs += 10 + clock.busyMs;
    return clock.nowMs;
  };
  return { clock, nowMs };
}

/** A watch while calls are in flight. */
function watchAwake(lateMs: number, nowMs: () => number): EventLoopWatch {
  const opened = watchEventLoop({ lateMs, isBusy: () => true, nowMs });
  opened.wake();
  return opened;
}

/** Waits for this many checks. */
async function checks(clock: { readonly checks: number }, times: number): Promise<void> {
  const target = clock.checks + times;
  await eventually(() => clock.checks >= target);
}

test('the share shrinks with each late check from the third in a row on, and grows while checks are on time', async () => {
  const { clock, nowMs } = busyClock();
  watch = watchAwake(50, nowMs);
  await checks(clock, 3);
  expect(watch.share()).toBe(1);
  clock.busyMs = 51;
  await checks(clock, 2);
  expect(watch.share()).toBe(1);
  await checks(clock, 1);
  expect(watch.share()).toBeCloseTo(0.7);
  await checks(clock, 1);
  expect(watch.share()).toBeCloseTo(0.49);
  clock.busyMs = 49;
  await checks(clock, 2);
  expect(watch.share()).toBeCloseTo(0.53);
  await checks(clock, 40);
  expect(watch.share()).toBe(1);
});

test('one or two late checks change nothing', async () => {
  const { clock, nowMs } = busyClock();
  watch = watchAwake(50, nowMs);
  for (let time = 0; time < 3; time++) {
    clock.busyMs = 1_000;
    await checks(clock, 2);
    clock.busyMs = 0;
    await checks(clock, 1);
  }
  expect(watch.share()).toBe(1);
});

test('a lag of 0 admits all calls, and checks nothing', () => {
  jest.useFakeTimers();
  const { clock, nowMs } = busyClock();
  watch = watchEventLoop({ lateMs: 0, isBusy: () => true, nowMs });
  watch.wake();
  expect(jest.getTimerCount()).toBe(0);
  expect([watch.share(), clock.checks]).toEqual([1, 0]);
});

describe('the timer of the checks', () => {
  let callsInFlight: number;
  let lagMs: number;
  beforeEach(() => {
    jest.useFakeTimers();
    callsInFlight = 0;
    lagMs = 0;
    let checks = 0;
    const nowMs = () => checks++ * (10 + lagMs);
    watch = watchEventLoop({ lateMs: 50, isBusy: () => callsInFlight > 0, nowMs });
  });
  const check = (times = 1) => jest.advanceTimersByTime(times * 10);

  test('does not run before the first call', () => {
    expect(jest.getTimerCount()).toBe(0);
  });

  test('the timer stops at the second check after the last call', () => {
    watch?.wake();
    expect(jest.getTimerCount()).toBe(1);
    check();
    watch?.wake();
    check();
    expect(jest.getTimerCount()).toBe(1);
    check();
    expect(jest.getTimerCount()).toBe(0);
    watch?.wake();
    expect(jest.getTimerCount()).toBe(1);
  });

  test('the timer runs while a call is in flight', () => {
    callsInFlight = 1;
    watch?.wake();
    check(10);
    expect(jest.getTimerCount()).toBe(1);
    callsInFlight = 0;
    check();
    expect(jest.getTimerCount()).toBe(0);
  });

  test('the timer runs until the share is 1 again', () => {
    lagMs = 51;
    callsInFlight = 1;
    watch?.wake();
    check(4);
    expect(watch?.share()).toBeLessThan(1);
    lagMs = 0;
    callsInFlight = 0;
    check(10);
    expect([watch?.share() === 1, jest.getTimerCount()]).toEqual([false, 1]);
    check(30);
    expect([watch?.share(), jest.getTimerCount()]).toEqual([1, 0]);
  });
});
