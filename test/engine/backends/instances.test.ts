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
  for (let at = 0; at < 4; at++) {
    clock.advance(5_000);
    await one.timers.runOnce();
    await two.timers.runOnce();
  }
  expect([one.count(), two.count(), three.count()]).toEqual([2, 2, 3]);
});

test('keeps the last number while the store does not answer, at first 1', async () => {
  const timers = manualTimers();
  const backend = backendThat(() => [{ code: 'UNAVAILABLE', reason: 'away' }]);
  const { count } = countInstances({ backend, keys: createCounterKeys(''), holder: 1, every: timers.every });
  await timers.runOnce();
  expect(count()).toBe(1);
});
