import { getHeapStatistics } from 'node:v8';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import { openStore } from '../../../src/engine/open/store.ts';
import { createLogger } from '../../../src/operate/observe/log.ts';
import { loggedCounters } from '../../../src/serve/decider/store.ts';
import { readSettings, type Settings } from '../../../src/settings/settings.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';

const log = createLogger({ level: 'fatal', format: 'text' });
const limit = fixedWindowOf(100);
const keys = createCounterKeys('');
const memoryBounds = ({ counters }: Settings) => counters.memory;

describe('counters in memory', () => {
  test('may cost a quarter of the heap limit unless a setting changes this', async () => {
    const maxBytes = Math.floor(getHeapStatistics().heap_size_limit / 4);
    expect(memoryBounds(await readSettings({}))).toEqual({ maxCounters: 1_000_000, maxBytes });
    const withWorkers = await readSettings({ WORKERS: '4', REDIS_URL: 'localhost:1' });
    expect(memoryBounds(withWorkers).maxBytes).toBe(maxBytes); // each worker has its own heap
  });

  test('may cost MEMORY_MAX_BYTES in all processes together', async () => {
    const settings = { MEMORY_MAX_BYTES: '4000003', MEMORY_MAX_COUNTERS: '7' };
    expect(memoryBounds(await readSettings(settings))).toEqual({ maxCounters: 7, maxBytes: 4_000_003 });
    const withWorkers = await readSettings({ ...settings, WORKERS: '4', REDIS_URL: 'localhost:1' });
    expect(memoryBounds(withWorkers)).toEqual({ maxCounters: 7, maxBytes: 1_000_000 });
  });

  test('are forgotten beyond MEMORY_MAX_BYTES', async () => {
    const { ledger } = await openStore(
      loggedCounters((await readSettings({ MEMORY_MAX_BYTES: '1048576' })).counters, { clock: fakeClock(), log }),
    );
    const hit = async (user: number, hits: number) => {
      const key = keys(limit, 'd', [{ key: 'user', value: String(user).padStart(400, 'x') }]);
      const [answer] = await ledger.debit([createDebit({ key }, { limit, policy: {} }, hits, true)], {
        spend: 'each',
        timeoutMs: 1,
      });
      return answer && 'hitsBefore' in answer ? answer.hitsBefore : undefined;
    };
    for (let user = 0; user < 2_500; user++) await hit(user, 1);
    let remembered = 0;
    for (let user = 2_499; user >= 0; user--) remembered += (await hit(user, 0)) ?? 0;
    await ledger.close();
    expect(remembered).toBeGreaterThan(1_000);
    expect(remembered).toBeLessThan(2_000);
  });
});
