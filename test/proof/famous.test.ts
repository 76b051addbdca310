import { readFileSync } from 'node:fs';
import { limiters } from '../../proof/famous/limiters.ts';
import { famousPage, play, ruleFile } from '../../proof/famous/page.ts';
import { loadText } from '../helpers/rules.ts';

test('the page is what the command writes', async () => {
  const page = readFileSync(new URL('../../docs/famous-limiters.md', import.meta.url), 'utf8');
  expect(await famousPage()).toBe(page);
});

test.each(limiters.map((one) => [one.file, one] as const))('%s.yaml is valid', (file, limiter) => {
  const burst = { path: 'descriptors[0].rate_limit.burst' }; // Amazon's is below its rate
  expect(loadText(ruleFile(limiter))).toMatchObject({ ok: true, warnings: file === 'amazon' ? [burst] : [] });
});

/** What the publishers of the limits promise. */
test.each<readonly [file: string, descriptors: string, hits: number, windowMs: number]>([
  ['twitter', 'user=', 300, 3 * 3_600_000],
  ['google-docs', 'project=', 3_000, 60_000],
  ['figma', 'user=', 500, 3_600_000],
  ['posts', 'user=', 2, 1_000],
  ['accounts', 'masked', 10, 86_400_000],
  ['rewards', 'device=', 5, 7 * 86_400_000],
])('%s: %s passes at most %i in each window of %i ms, and all of them', async (file, start, hits, windowMs) => {
  const limiter = limiters.find((one) => one.file === file);
  if (!limiter) throw new Error(`there is no limiter ${file}`);
  const perWindow = new Map<number, number>();
  for (const { atMs, descriptors, passed } of await play(limiter)) {
    if (!passed || !descriptors.startsWith(start)) continue;
    const window = Math.floor(atMs / windowMs);
    perWindow.set(window, (perWindow.get(window) ?? 0) + 1);
  }
  expect(Math.max(...perWindow.values())).toBe(hits);
});

test('friends never exceed 150, and a place is free again when one leaves', async () => {
  const limiter = limiters.find((one) => one.file === 'social-network');
  if (!limiter) throw new Error('there is no social network');
  let friends = 0;
  for (const { hits = 1, passed } of await play(limiter)) {
    const had = friends;
    if (passed) friends += hits;
    expect(passed).toBe(hits < 0 || had < 150);
  }
  expect(friends).toBe(150);
});
