import { checkpoint } from '../../../../src/engine/rules/read/checkpoint.ts';
import { besideRequests } from '../../../../src/engine/rules/reload/duty-cycle.ts';

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

test('a job sleeps for twice as long as it has worked, and not before a quarter of a millisecond', () => {
  const { sleeps, work, parts } = fakeTime();
  const steps = 100;
  const job = (): void => {
    for (let step = 0; step < steps; step++) {
      work(0.25 / 4);
      checkpoint();
    }
  };
  besideRequests(job, parts);
  expect(sleeps).toEqual(Array.from({ length: steps / 4 }, () => 0.5));
});

test('a job that could not be interrupted sleeps for longer, up to 10 ms', () => {
  const { sleeps, work, parts } = fakeTime();
  const job = (): void => {
    for (const ms of [3, 1_000]) {
      work(ms);
      checkpoint();
    }
  };
  besideRequests(job, parts);
  expect(sleeps).toEqual([6, 10]);
});

test('a job that has slept for 10 seconds continues without sleeps', () => {
  const { sleeps, work, parts } = fakeTime();
  const job = (): void => {
    for (let step = 0; step < 3_000; step++) {
      work(10);
      checkpoint();
    }
  };
  besideRequests(job, parts);
  expect(sleeps.reduce((sum, ms) => sum + ms)).toBe(10_000);
});

test('checkpoints sleep only during a job that runs beside requests, even if it fails', () => {
  const { sleeps, work, parts } = fakeTime();
  const step = (): void => {
    work(0.25);
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
