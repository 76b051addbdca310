import { countInstances } from '../../../src/engine/backends/instances.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { backendThat, manualTimers } from '../../helpers/ledger.ts';

test('counts the processes that use a store, without those that have not renewed for 15 seconds', async () => {
  const clock = fakeClock();
  const backend = createMemoryBackend(clock, { maxCounters: 10 });
  const start = (holder: number) => {
    const timers = manualTimers();
    return { timers, ...countInstances({ backend, keys: createCounterKeys(''), holder, every: timers.every }) };
  };
  const [one, two, three] = [start(1), start(2), start(3)];
  await one.timers.runOnce();
  expect(one.count()).toBe(3);
  for (let at = 0; at < 5; at++) {
    clock.advance(5_000);
    await one.timers.runOnce();
    await two.timers.runOnce();
  }
  expect([one.count(), two.count(), three.count()]).toEqual([2, 2, 3]);
});

test('does not forget processes when the store has lost its counters', async () => {
  const clock = fakeClock();
  let backend = createMemoryBackend(clock, { maxCounters: 10 });
  const store = backendThat((operations, how) => backend.run(operations, how));
  const start = (holder: number) => {
    const timers = manualTimers();
    return { timers, ...countInstances({ backend: store, keys: createCounterKeys(''), holder, every: timers.every }) };
  };
  const processes = [start(1), start(2), start(3)];
  for (let round = 0; round < 3; round++) {
    for (const { timers, count } of processes) {
      await timers.runOnce();
      if (round > 0) expect(count()).toBe(3);
    }
    if (round === 0) backend = createMemoryBackend(clock, { maxCounters: 10 });
  }
});

test('keeps the last number while the store does not answer, at first 1, and tries again soon', async () => {
  jest.useFakeTimers();
  try {
    const clock = fakeClock();
    const store = createMemoryBackend(clock, { maxCounters: 10 });
    let isAway = true;
    const backend = backendThat((operations, how) =>
      isAway ? operations.map(() => ({ code: 'UNAVAILABLE', reason: 'away' })) : store.run(operations, how),
    );
    const every = () => () => {};
    countInstances({ backend: store, keys: createCounterKeys(''), holder: 1, every }).close();
    const late = countInstances({ backend, keys: createCounterKeys(''), holder: 2, every });
    await jest.advanceTimersByTimeAsync(1_000);
    expect(late.count()).toBe(1);
    isAway = false;
    await jest.advanceTimersByTimeAsync(500);
    expect([late.count(), jest.getTimerCount()]).toEqual([2, 0]);
    late.close();
  } finally {
    jest.useRealTimers();
  }
});
