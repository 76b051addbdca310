import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const page = (name: string): string => readFileSync(join(__dirname, '../../docs', name), 'utf8');
const sizing = page('scaling.md');

test.each([
  ['one hot key', 'Redis, one hot key'],
  ['100,000 keys', 'Redis, 100000 keys'],
  ['100,000 keys, two descriptors a request', 'Redis, two descriptors'],
  ['64 connections with one call at a time', 'Redis, 64 connections of one call'],
  ['a key over its limit, with `LOCAL_CACHE_SIZE_IN_BYTES`', 'Redis, a key over its limit, deny cache'],
])('the cost of %s is the measured one', (shown, measured) => {
  const row = page('results/bench.md')
    .split('\n')
    .find((line) => line.startsWith(`| ${measured} | Weir (h2) |`));
  const [, , , cpu, ofRedis] = row?.split(' | ') ?? [];
  expect([cpu, ofRedis]).toEqual([expect.stringMatching(/^[\d.]+$/), expect.stringMatching(/^[\d.]+$/)]);
  expect(sizing).toContain(`| ${shown} | ${cpu} µs | ${Number(ofRedis) > 0 ? `${ofRedis} µs` : '0'} |`);
});

test('the bytes of a counter are the measured ones', () => {
  const algorithms = page('algorithms.md');
  for (const [measured, shown] of [
    ['121 in memory, 161 in Redis', '| 161 |'],
    ['121 in memory, 161 in Redis', '| 121 |'],
    ['1798 and 1942 with 100', '| 1,942; 245 |'],
    ['288 in memory and 245 in Redis', '| 1,942; 245 |'],
  ] as const) {
    expect(algorithms).toContain(measured);
    expect(sizing).toContain(shown);
  }
});
