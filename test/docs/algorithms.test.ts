import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Spend, spends } from '../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { Limit } from '../../src/engine/holds/limits.ts';
import { operationOf } from '../helpers/operations.ts';
import { loadText } from '../helpers/rules.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/algorithms.md', import.meta.url)), 'utf8');
const yamlBlocks = Array.from(page.matchAll(/^```yaml\n(.*?)^```/gms), ([, text = '']) => text);

/** A store on a clock that the test sets; test/engine/lua/compiled.test.ts shows that Redis answers the same. */
function make(): { readonly store: Backend; setClock(nowMs: number): void } {
  let nowMs = 0;
  return {
    store: createMemoryBackend(() => nowMs, { maxCounters: 1_000 }),
    setClock(toMs) {
      nowMs = toMs;
    },
  };
}

let counters = 0;
/** Hits with separate counters for each test. */
const hitsOn = (limits: readonly Limit[], hits: number, counter: string) =>
  limits.map((limit) =>
    operationOf({ key: createCounterKeys('')(limit, 'docs', [{ key: 'counter', value: counter }]) }, limit, hits, true),
  );

describe('the examples of docs/algorithms.md', () => {
  test.each([
    ['each', 3, 3, 1],
    ['all_or_nothing', 2, 2, 2],
    ['spare_others', 3, 2, 2],
  ] as const)('the spend of a refused request: %s', async (spend, minute, hour, left) => {
    const row = new RegExp(`^\\| \`${spend}\` \\| ${minute} \\| ${hour} \\| ${left} \\|$`, 'm');
    expect(page).toMatch(row);
    const limits = limitsOf(blockWith('spend: all_or_nothing'));
    const { store, setClock } = make();
    const counter = String(counters++);
    const ask = (hits: number) => store.run(hitsOn(limits, hits, counter), { spend, timeoutMs: 5_000 });
    setClock(10_000); // within a minute
    await ask(1);
    await ask(1);
    expect(await ask(1)).toMatchObject([{ code: 'OVER_LIMIT' }, { code: 'OK' }]);
    expect(await ask(0)).toMatchObject([{ hitsBefore: minute }, { hitsBefore: hour, limitRemaining: left }]);
  });

  test.each([
    ['2026-03-29T00:00+01:00', 23],
    ['2026-10-25T00:00+02:00', 25],
  ])('a day in Berlin that begins at %s has %i hours', async (midnight, hours) => {
    const [limit] = limitsOf(blockWith('timezone: Europe/Berlin'));
    if (!limit) throw new Error('expected a limit');
    const { store, setClock } = make();
    const counter = String(counters++);
    setClock(Date.parse(midnight));
    const ask = (hits: number) => store.run(hitsOn([limit], hits, counter), { spend: 'each', timeoutMs: 5_000 });
    expect(await ask(1_000)).toMatchObject([{ code: 'OK', durationUntilResetMs: hours * 3_600_000 }]);
    expect(await ask(1)).toMatchObject([{ code: 'OVER_LIMIT', retryAfterMs: hours * 3_600_000 }]);
    setClock(Date.parse(midnight) + hours * 3_600_000);
    expect(await ask(1)).toMatchObject([{ code: 'OK', retryAfterMs: 0 }]);
  });
});

describe('docs/algorithms.md', () => {
  test('names every way to spend', () => {
    for (const spend of spends satisfies readonly Spend[]) expect(page).toContain(`| \`${spend}\``);
  });

  test.each(yamlBlocks)('these rules load: %s', (text) => {
    expect(loadText(text)).toMatchObject({ ok: true, warnings: [] });
  });

  test.each([
    ['requests_per_unit: 104249991, algorithm: sliding_window_counter', true],
    ['requests_per_unit: 104249992, algorithm: sliding_window_counter', false],
    ['requests_per_unit: 990, soft: 10, algorithm: sliding_window_log', true],
    ['requests_per_unit: 990, soft: 11, algorithm: sliding_window_log', false],
    ['requests_per_unit: 5, algorithm: sliding_window_buckets, buckets: 100', true],
    ['requests_per_unit: 5, algorithm: sliding_window_buckets, buckets: 101', false],
    ['requests_per_unit: 5, algorithm: token_bucket, soft: 1, max_delay: 1s', false],
  ])('has bounds that hold: %s', (keys, ok) => {
    expect(loadText(`domain: docs\ndescriptors: [{ key: user, rate_limit: { unit: day, ${keys} } }]\n`).ok).toBe(ok);
  });
});

/** The page's rule file that contains these words. */
function blockWith(words: string): string {
  const block = yamlBlocks.find((text) => text.includes(words));
  if (block === undefined) throw new Error(`expected a yaml block with '${words}'`);
  return block;
}

/** The limits of the first rule. */
function limitsOf(text: string): readonly Limit[] {
  const loaded = loadText(text);
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  return ([...loaded.rules.rules][0]?.limits ?? []).map(({ limit }) => limit);
}
