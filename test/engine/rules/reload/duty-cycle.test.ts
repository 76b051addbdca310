import { checkpoint } from '../../../../src/engine/rules/read/checkpoint.ts';
import {
  besideRequests,
  DutyCycle,
  MAX_SLEEP_MS,
  MAX_TOTAL_SLEEP_MS,
  MAX_WORK_MS,
  SLEEP_RATIO,
} from '../../../../src/engine/rules/reload/duty-cycle.ts';

/** A clock that only work and sleeps advance. */
function fakeTime() {
  let nowMs = 1_000;
  const sleeps: number[] = [];
  const sleep = (ms: number): void => {
    sleeps.push(ms);
    nowMs += ms;
  };
  const work = (ms: number): void => {
    nowMs += ms;
  };
  return { sleeps, work, parts: { nowMs: () => nowMs, sleep } };
}

test('a job sleeps after each piece of work, and not earlier', () => {
  const { sleeps, work, parts } = fakeTime();
  const cycle = new DutyCycle(parts);
  const steps = 100;
  for (let step = 0; step < steps; step++) {
    work(MAX_WORK_MS / 4);
    cycle.checkpoint();
  }
  expect(sleeps).toEqual(Array.from({ length: steps / 4 }, () => MAX_WORK_MS * SLEEP_RATIO));
});

test('a job that could not be interrupted sleeps for longer, up to a limit', () => {
  const { sleeps, work, parts } = fakeTime();
  const cycle = new DutyCycle(parts);
  for (const ms of [3, 1_000]) {
    work(ms);
    cycle.checkpoint();
  }
  expect(sleeps).toEqual([3 * SLEEP_RATIO, MAX_SLEEP_MS]);
});

test('a job that has slept long enough continues without sleeps', () => {
  const { sleeps, work, parts } = fakeTime();
  const cycle = new DutyCycle(parts);
  for (let step = 0; step < 3 * (MAX_TOTAL_SLEEP_MS / MAX_SLEEP_MS); step++) {
    work(MAX_SLEEP_MS);
    cycle.checkpoint();
  }
  expect(sleeps.reduce((sum, ms) => sum + ms)).toBe(MAX_TOTAL_SLEEP_MS);
});

test('checkpoints sleep only during a job that runs beside requests, even if it fails', () => {
  const { sleeps, work, parts } = fakeTime();
  const step = (): void => {
    work(MAX_WORK_MS);
    checkpoint();
  };
  step();
  expect(sleeps).toEqual([]);
  expect(
    besideRequests(() => {
      step();
      return 'done';
    }, parts),
  ).toBe('done');
  const failing = (): void => {
    step();
    throw new Error('no rules');
  };
  expect(() => besideRequests(failing, parts)).toThrow('no rules');
  expect(sleeps).toHaveLength(2);
  step();
  expect(sleeps).toHaveLength(2);
});

test('a sleep blocks the process, until its time is over', () => {
  const wait = jest.spyOn(Atomics, 'wait');
  const endMs = performance.now() + 60_000;
  besideRequests(() => {
    while (wait.mock.calls.length === 0 && performance.now() < endMs) checkpoint();
  });
  expect(wait.mock.results).toEqual([{ type: 'return', value: 'timed-out' }]);
  wait.mockRestore();
});
