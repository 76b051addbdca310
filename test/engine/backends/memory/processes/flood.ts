import { createCounterKeys } from '../../../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../../../src/engine/backends/memory/backend.ts';
import { fixedWindowOf } from '../../../../helpers/limits.ts';

/**
 * Hits each of `counters` counters once, with keys of 440 characters, in a backend of a million counters and
 * `maxBytes`.
 */
const [counters = 0, maxBytes = 0] = process.argv.slice(2).map(Number);
const limit = fixedWindowOf(100);
const keys = createCounterKeys('');
const backend = createMemoryBackend(() => 1_700_000_000_000, {
  maxCounters: 1_000_000,
  ...(maxBytes > 0 && { maxBytes }),
});

async function flood(): Promise<void> {
  for (let at = 0; at < counters; at++) {
    const key = keys(limit, 'api', [{ key: 'user', value: String(at).padStart(405, 'x') }]);
    await backend.run([{ kind: 'spend', key, limit, hits: 1, blocks: true }], { spend: 'each', timeoutMs: 1 });
  }
  console.log('survived');
}
void flood();
