import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

interface Counter {
  readonly windowMs: number;
  readonly domain: string;
  readonly entries: readonly { readonly key: string; readonly value: string }[];
}

const keyOf = ({ windowMs, domain, entries }: Counter, prefix = ''): string =>
  createCounterKeys(prefix)(fixedWindowOf(1, windowMs), domain, entries);

const counter = (domain: string, ...entries: (readonly [key: string, value: string])[]): Counter => ({
  windowMs: unitMs.MINUTE,
  domain,
  entries: entries.map(([key, value]) => ({ key, value })),
});

describe('a counter key', () => {
  test('names the algorithm, the window and each text with its length', () => {
    expect(keyOf(counter('checkout', ['user', 'alice']))).toBe('fixed_window.2|60000|8:checkout|4:user|5:alice');
  });

  test('begins with the prefix', () => {
    expect(keyOf(counter('d', ['k', '']), 'weir:')).toBe('weir:fixed_window.2|60000|1:d|1:k|0:');
  });

  test('does not depend on the numbers of the limit', () => {
    const counterKeys = createCounterKeys('');
    const limit = fixedWindowOf(1);
    expect(counterKeys({ ...limit, requestsPerUnit: 2, soft: 1 }, 'd', [])).toBe(counterKeys(limit, 'd', []));
  });

  test.each<[Counter, Counter]>([
    [counter('d', ['a_b', 'c']), counter('d', ['a', 'b_c'])],
    [counter('a', ['b', 'c'], ['d', 'e']), counter('a_b', ['c', 'd_e'])],
    [counter('d', ['a', 'b'], ['c', 'd']), counter('d', ['a', 'b|1:c|1:d'])],
    [counter('d', ['a', 'b']), counter('d|1:a|1:b')],
    [counter('d', ['a', '']), counter('d', ['', 'a'])],
    [counter('d', ['', '']), counter('d')],
    [counter('d', ['a', 'b'], ['c', 'd']), counter('d', ['c', 'd'], ['a', 'b'])],
    [counter('d', ['1', '1:1']), counter('d', ['1:1', '1'])],
    [counter('d'), { ...counter('d'), windowMs: unitMs.HOUR }],
  ])('of %j differs from that of %j', (one, other) => {
    expect(keyOf(one)).not.toBe(keyOf(other));
  });

  test('is unique for each counter', () => {
    const anyText = fc.oneof(
      fc.string({ unit: fc.constantFrom('1', '2', ':', '|', '_', 'a'), maxLength: 6 }), // the characters of keys
      fc.string({ unit: 'binary', maxLength: 6 }),
    );
    const anyCounter: fc.Arbitrary<Counter> = fc.record({
      windowMs: fc.constantFrom(1_000, 10_000, 60_000),
      domain: anyText,
      entries: fc.array(fc.record({ key: anyText, value: anyText }), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.uniqueArray(anyCounter, { selector: (one) => JSON.stringify(one), maxLength: 40 }), (counters) => {
        expect(new Set(counters.map((one) => keyOf(one))).size).toBe(counters.length);
      }),
      { numRuns: 500 },
    );
  });
});

test('a key has a maximum length, however long its texts are', () => {
  const long = 'x'.repeat(16_384);
  const texts = [long, `${long}y`, `y${long}`];
  const keys = texts.map((value) => createCounterKeys('prefix:')(fixedWindowOf(5), 'demo', [{ key: 'user', value }]));
  expect(new Set(keys).size).toBe(texts.length);
  for (const key of keys) expect(key).toMatch(/^prefix:fixed_window\.2\|\d+\|#[\w-]{43}$/);
});
