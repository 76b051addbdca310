import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { watchStore } from '../../../src/engine/backends/store-watch.ts';
import { eventually } from '../../helpers/until.ts';

test('a store that has never answered is down for its own reason, not because it is unchecked', async () => {
  const memory = createMemoryBackend(Date.now, { maxCounters: 10, maxBytes: 1_000_000 });
  const backend: Backend = { ...memory, run: (all) => all.map(() => ({ code: 'UNAVAILABLE', reason: 'it is out' })) };
  const options = {
    keys: createCounterKeys(''),
    clock: Date.now,
    stopwatch: () => () => 1,
  };
  const watch = watchStore({ backends: [backend], ...options });
  expect(watch.state()).toMatchObject({ isUp: false, reason: 'not checked yet' });
  await eventually(() => watch.state().reason !== 'not checked yet');
  expect(watch.state()).toMatchObject({ isUp: false, reason: 'it is out', lastSuccessAtMs: undefined });
  watch.close();
});
