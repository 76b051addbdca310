import { memoryRecords } from '../../../src/engine/backends/records.ts';
import { Overrides, type StandingOverride } from '../../../src/engine/decide/overrides.ts';
import { createOverrideRecords } from '../../../src/parts/overrides/override-records.ts';

const wildcard = (value: string, reason = 'a test'): StandingOverride => ({
  ...{ domain: 'demo', entries: [{ key: 'user', value }], wildcard: true, effect: { kind: 'block' } },
  ...{ untilMs: 1, by: 'ops', reason },
});

const records = memoryRecords();
const instance = () =>
  createOverrideRecords({
    records,
    ...{ clock: () => 0, isEmpty: true, spread: async () => {}, onForeign: () => {} },
    overrides: new Overrides(
      () => 0,
      () => 60_000,
    ),
  });

test('at most 100 overrides have wildcards, also if several instances set some at once', async () => {
  const [one, other] = [instance(), instance()];
  for (let at = 0; at < 99; at++) await one.put(wildcard(`${at}-*`));
  const puts = await Promise.allSettled([one.put(wildcard('a-*')), other.put(wildcard('b-*'))]);
  const refused = puts.flatMap((put) => (put.status === 'rejected' ? [String(put.reason)] : []));
  expect(refused.length).toBeGreaterThan(0);
  for (const reason of refused) expect(reason).toContain('at most 100 overrides may have wildcards');
  expect(await one.follow()).toHaveLength(101 - refused.length);
  await other.put(wildcard('0-*', 'another reason'));
  expect((await one.follow()).find(({ entries }) => entries[0]?.value === '0-*')?.reason).toBe('another reason');
});
