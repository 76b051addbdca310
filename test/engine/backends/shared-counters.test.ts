import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { sharedCounters } from '../../../src/engine/backends/shared-counters.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { fixedWindowOf, limitsOfEach } from '../../helpers/limits.ts';

const unitLimit = (unit: keyof typeof unitMs, changes: object = {}): Limit => ({
  ...fixedWindowOf(10, unitMs[unit], changes),
});

function countersAt(nowS: number, { prefix = '', jitterMaxSeconds = 0, random = (): number => 0 } = {}) {
  const clock = fakeClock(nowS * 1000 + 999);
  return sharedCounters({ prefix, own: createCounterKeys(prefix), jitterMaxSeconds, clock, random });
}
const entries = (...pairs: readonly (readonly [string, string])[]) => pairs.map(([key, value]) => ({ key, value }));

test.each<[keyof typeof unitMs, number, string]>([
  ['SECOND', 1_234, 'domain_key_value_1234'],
  ['MINUTE', 1_234, 'domain_key_value_1200'],
  ['HOUR', 1_000_000, 'domain_key_value_997200'],
  ['DAY', 1_000_000, 'domain_key_value_950400'],
  ['WEEK', 1_000_000, 'domain_key_value_604800'],
  ['MONTH', 3_000_000, 'domain_key_value_2592000'],
  ['YEAR', 40_000_000, 'domain_key_value_31536000'],
])('a limit by the %s at %d s has the key %s', (unit, nowS, key) => {
  const counter = countersAt(nowS)(unitLimit(unit), 'domain', entries(['key', 'value']));
  expect(counter).toEqual({
    key,
    shared: { windowStartMs: Number(key.split('_').at(-1)) * 1000, ttlMs: unitMs[unit] },
  });
});

test.each([
  ['prefix:', entries(['key', '']), 'prefix:domain_key__1200'],
  ['', entries(['key2', 'value2'], ['subkey2', 'subvalue2']), 'domain_key2_value2_subkey2_subvalue2_1200'],
  ['', entries(['files', 'files/*']), 'domain_files_files/*_1200'],
  ['', entries(), 'domain_1200'],
  ['', entries(['ключ', 'a b\n']), 'domain_ключ_a b\n_1200'],
])('with the prefix %j, %j has the key %j', (prefix, parts, key) => {
  expect(countersAt(1_234, { prefix })(unitLimit('MINUTE'), 'domain', parts).key).toBe(key);
});

test('a counter is kept for its unit plus at most the jitter, in whole seconds', () => {
  const ttlMs = (random: number) =>
    countersAt(0, { jitterMaxSeconds: 300, random: () => random })(unitLimit('SECOND'), 'd', []).shared?.ttlMs;
  expect([0, 0.5, 0.999_999].map(ttlMs)).toEqual([1_000, 151_000, 300_000]);
});

test("limits that envoyproxy/ratelimit does not support have Weir's own counters", () => {
  const others: Limit[] = [
    ...limitsOfEach(5).filter(({ counter }) => counter !== `fixed_window.2|${unitMs.MINUTE}`),
    unitLimit('MINUTE', { soft: 1 }),
    { ...unitLimit('MINUTE'), windowMs: 120_000, counter: 'fixed_window.2|120000' },
    { ...unitLimit('MINUTE'), counter: 'fixed_window.2|60000#1' }, // another limit of the same node
    fixedWindowOf(5, 1_500),
  ];
  const own = ownCounters(createCounterKeys('p:'));
  const shared = countersAt(1_234, { prefix: 'p:' });
  for (const limit of others)
    expect(shared(limit, 'd', entries(['k', 'v']))).toEqual(own(limit, 'd', entries(['k', 'v'])));
});
