import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLoopWatch, watchEventLoop } from '../../src/overload/event-loop.ts';

let watch: EventLoopWatch | undefined;
afterEach(() => watch?.close());

/** A clock by which each check is 10 ms after the previous one, plus this lag. */
function busyClock() {
  const clock = { nowMs: 0, busyMs: 0, checks: 0 };
  const nowMs = () => {
    clock.checks++;
    clock.nowMs += 10 + clock.busyMs;
    return clock.nowMs;
  };
  return { clock, nowMs };
}

/** Waits for this many checks. */
async function checks(clock: { readonly checks: number }, times: number): Promise<void> {
  const target = clock.checks + times;
  while (clock.checks < target) await sleep(1);
}

test('the share shrinks with each late check from the third in a row on, and grows while checks are on time', async () => {
  const { clock, nowMs } = busyClock();
  watch = watchEventLoop(50, nowMs);
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
  watch = watchEventLoop(50, nowMs);
  for (let time = 0; time < 3; time++) {
    clock.busyMs = 1_000;
    await checks(clock, 2);
    clock.busyMs = 0;
    await checks(clock, 1);
  }
  expect(watch.share()).toBe(1);
});

test('a lag of 0 admits all calls', async () => {
  const { clock, nowMs } = busyClock();
  clock.busyMs = 1_000_000;
  watch = watchEventLoop(0, nowMs);
  await checks(clock, 5);
  expect(watch.share()).toBe(1);
});
