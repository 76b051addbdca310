import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLoopWatch, watchEventLoop } from '../../src/serve/event-loop.ts';

let watch: EventLoopWatch | undefined;
afterEach(() => watch?.close());

/** A clock by which this process has been busy for so long, whenever it is looked. */
function busyClock() {
  const clock = { nowMs: 0, busyMs: 0 };
  return { clock, nowMs: () => (clock.nowMs += 10 + clock.busyMs) };
}

/** So many looks later. */
async function looks(clock: { readonly nowMs: number; readonly busyMs: number }, times: number): Promise<void> {
  const atMs = clock.nowMs + times * (10 + clock.busyMs);
  while (clock.nowMs < atMs) await sleep(1);
}

test('it is behind when it is late three times in a row, and no longer when it is once in time', async () => {
  const { clock, nowMs } = busyClock();
  watch = watchEventLoop(50, nowMs);
  await looks(clock, 5);
  expect(watch.isBehind()).toBe(false);
  clock.busyMs = 51;
  await looks(clock, 2);
  expect(watch.isBehind()).toBe(false);
  await looks(clock, 1);
  expect(watch.isBehind()).toBe(true);
  clock.busyMs = 49;
  await looks(clock, 1);
  expect(watch.isBehind()).toBe(false);
});

test('0: it never is', async () => {
  const { clock, nowMs } = busyClock();
  clock.busyMs = 1_000_000;
  watch = watchEventLoop(0, nowMs);
  await looks(clock, 5);
  expect(watch.isBehind()).toBe(false);
});
