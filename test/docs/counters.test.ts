import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { slotBytes } from '../../src/engine/backends/memory/counter-slots.ts';

const page = readFileSync(join(__dirname, '../../docs/counters.md'), 'utf8');

/** A figure in the page's tables. */
const bytesOf = (part: string): number => Number(new RegExp(`^\\| ${part} \\| (\\d+)`, 'm').exec(page)?.[1]);

test('docs/counters.md has the costs of a counter that the store charges', () => {
  const fixed = bytesOf('slot') + bytesOf('entry of the key in a `Map`') + bytesOf('key');
  expect(slotBytes(0, false)).toBe(fixed);
  expect([slotBytes(1, false), slotBytes(8, false), slotBytes(9, false)]).toEqual([fixed + 8, fixed + 8, fixed + 16]);
  expect(slotBytes(9, true)).toBe(fixed + 24);
  expect(slotBytes(30, false)).toBe(bytesOf('30 characters'));
});
