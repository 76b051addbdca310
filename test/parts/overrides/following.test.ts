import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { memoryRecords } from '../../../src/engine/backends/records.ts';
import { Overrides, overrideKey, type StandingOverride } from '../../../src/engine/decide/overrides.ts';
import { openOverrides } from '../../../src/parts/overrides/open.ts';

const LASTS_MS = 10_000;

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** Opens overrides over a kind of store. @returns how often their records have been read since the last call */
async function opened(kind: 'memory' | 'redis') {
  const records = memoryRecords();
  const all = jest.spyOn(records, 'all');
  const overrides = new Overrides(Date.now, (unit) => unitMs[unit]);
  const options = { overrides, clock: Date.now, hash: undefined, ask: async () => [] };
  const context = {
    ...{ records, hasOwnRecords: false, overrides: [], log: { error: () => {} } },
    background: { add: () => ({ run: (work: () => Promise<unknown>) => work() }) },
  };
  const { close } = await openOverrides(options as never, { counters: { store: { kind } } } as never, context as never); // what it uses
  const readsIn = async (ms: number): Promise<number> => {
    all.mockClear();
    await jest.advanceTimersByTimeAsync(ms);
    return all.mock.calls.length;
  };
  return { records, overrides, readsIn, close: () => void close?.() };
}

test('overrides that other instances may set are always read', async () => {
  const { readsIn, close } = await opened('redis');
  expect([await readsIn(5_000), await readsIn(5_000)]).toEqual([10, 10]);
  close();
  expect(await readsIn(5_000)).toBe(0);
});

test('overrides of one instance are read once, and then while there are some', async () => {
  const { records, overrides, readsIn } = await opened('memory');
  expect([(await readsIn(5_000)) > 0, await readsIn(5_000)]).toEqual([true, 0]);
  const one: StandingOverride = {
    ...{ domain: 'd', entries: [], effect: { kind: 'block' }, by: '', reason: '' },
    untilMs: Date.now() + LASTS_MS,
  };
  await records.put('overrides', overrideKey(one), JSON.stringify(one));
  overrides.replace([one]);
  expect(await readsIn(LASTS_MS / 2)).toBe(10);
  await readsIn(LASTS_MS);
  expect([overrides.size, await readsIn(5_000)]).toEqual([0, 0]);
});
