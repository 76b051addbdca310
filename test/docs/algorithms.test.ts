import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Decision, NEVER_MS, type Spend, spends } from '../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { Limit } from '../../src/engine/holds/limits.ts';
import { operationOf } from '../helpers/operations.ts';
import { loadText } from '../helpers/rules.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/algorithms.md', import.meta.url)), 'utf8');
const yamlBlocks = Array.from(page.matchAll(/^```yaml\n(.*?)^```/gms), ([, text = '']) => text);

/** The time, the hits, their outcome, the time until a retry, the delay, and whether they are in the soft part. */
type Row = readonly [
  at: string,
  hits: number,
  code: Decision['code'],
  retryAfterMs: number,
  delayMs?: number,
  soft?: boolean,
];

interface Example {
  /** A summary of the passage. */
  readonly says: string;
  /** The `rate_limit`, as in a rule file. */
  readonly limit: string;
  /** In order of time. Rows with the same time are sent in one call. */
  readonly rows: readonly Row[];
}

const times = (count: number, row: Row): readonly Row[] => Array.from({ length: count }, () => row);

const fixed5 = '{ unit: minute, requests_per_unit: 5 }';
const log2 = '{ unit: minute, requests_per_unit: 2, algorithm: sliding_window_log }';
const logText =
  'Sliding log, 2 a minute: 1:00:01 passes, 1:00:30 passes, 1:00:50 refused, 1:01:40 passes; then 1:01:45 passes if refused hits do not count, and is refused with count_denied: true, since the timestamp of 1:00:50 was kept.';
const counter7 = '{ unit: minute, requests_per_unit: 7, algorithm: sliding_window_counter }';
const counterText =
  'Sliding counter, 7 a minute: 5 in the previous minute, 3 in this one, 30 % in: 3 + 5 × 0.7 = 6.5: with rounding: down 6, so one more passes and the next not; with up 7, so none passes. Carry-over seen from the next window: 5 in the previous, 2 more pass at its very start.';
const counterError =
  'of 5 a minute, five at 0:59 and five from 1:00.001 to 1:48.001 pass, 2 × the limit within 60 s; with `rounding: up` one less';
const bucketText =
  'Token bucket, capacity 4, refill 4 a minute in one go: four pass, the fifth waits for the minute; with continuous refill it waits 15 s.';

const examples: readonly Example[] = [
  {
    says: bucketText,
    limit: '{ unit: minute, requests_per_unit: 4, algorithm: token_bucket, refill: interval }',
    rows: [
      ...times(4, ['0:00:20', 1, 'OK', 0]),
      ['0:00:20', 1, 'OVER_LIMIT', 40_000],
      ['0:00:59.999', 1, 'OVER_LIMIT', 1],
      ['0:01:00', 1, 'OK', 0],
    ],
  },
  {
    says: bucketText,
    limit: '{ unit: minute, requests_per_unit: 4, algorithm: token_bucket }',
    rows: [
      ...times(4, ['0:00:20', 1, 'OK', 0]),
      ['0:00:20', 1, 'OVER_LIMIT', 15_000],
      ['0:00:34.999', 1, 'OVER_LIMIT', 1],
      ['0:00:35', 1, 'OK', 0],
    ],
  },
  {
    says: 'Fixed window 5 a minute: five in the last half minute and five in the next pass: ten within 60 s.',
    limit: fixed5,
    rows: [
      ...times(5, ['0:00:30', 1, 'OK', 0]),
      ...times(5, ['0:01:29.999', 1, 'OK', 0]),
      ['0:01:29.999', 1, 'OVER_LIMIT', 30_001],
    ],
  },
  {
    says: logText,
    limit: log2,
    rows: [
      ['1:00:01', 1, 'OK', 0],
      ['1:00:30', 1, 'OK', 0],
      ['1:00:50', 1, 'OVER_LIMIT', 11_000],
      ['1:01:40', 1, 'OK', 0],
      ['1:01:45', 1, 'OK', 0],
    ],
  },
  {
    says: logText,
    limit: '{ unit: minute, requests_per_unit: 2, algorithm: sliding_window_log, count_denied: true }',
    rows: [
      ['1:00:01', 1, 'OK', 0],
      ['1:00:30', 1, 'OK', 0],
      ['1:00:50', 1, 'OVER_LIMIT', 40_000],
      ['1:01:40', 1, 'OK', 0],
      ['1:01:45', 1, 'OVER_LIMIT', 55_000],
    ],
  },
  {
    says: counterText,
    limit: counter7,
    rows: [
      ['0:00:30', 5, 'OK', 0],
      ['0:01:15', 3, 'OK', 0],
      ['0:01:18', 1, 'OK', 0],
      ['0:01:18', 1, 'OVER_LIMIT', 6_001],
    ],
  },
  {
    says: counterText,
    limit: '{ unit: minute, requests_per_unit: 7, algorithm: sliding_window_counter, rounding: up }',
    rows: [
      ['0:00:30', 5, 'OK', 0],
      ['0:01:15', 3, 'OK', 0],
      ['0:01:18', 1, 'OVER_LIMIT', 6_000],
    ],
  },
  {
    says: counterText,
    limit: counter7,
    rows: [
      ['0:00:30', 5, 'OK', 0],
      ...times(2, ['0:01:00', 1, 'OK', 0]),
      ['0:01:00', 1, 'OVER_LIMIT', 1], // 4.99… of the five hits are rounded down to 4
    ],
  },
  {
    says: counterError,
    limit: '{ unit: minute, requests_per_unit: 5, algorithm: sliding_window_counter }',
    rows: [
      ['0:00:59', 5, 'OK', 0],
      ['0:01:00', 1, 'OVER_LIMIT', 1],
      ['0:01:00.001', 1, 'OK', 0],
      ['0:01:00.001', 1, 'OVER_LIMIT', 12_000],
      ['0:01:12.001', 1, 'OK', 0],
      ['0:01:24.001', 1, 'OK', 0],
      ['0:01:36.001', 1, 'OK', 0],
      ['0:01:48.001', 1, 'OK', 0],
    ],
  },
  {
    says: counterError,
    limit: '{ unit: minute, requests_per_unit: 5, algorithm: sliding_window_counter, rounding: up }',
    rows: [
      ['0:00:59', 5, 'OK', 0],
      ['0:01:00', 1, 'OVER_LIMIT', 12_000],
      ['0:01:12', 1, 'OK', 0],
      ['0:01:24', 1, 'OK', 0],
      ['0:01:36', 1, 'OK', 0],
      ['0:01:48', 1, 'OK', 0],
      ['0:01:48', 1, 'OVER_LIMIT', 12_000],
    ],
  },
  {
    says: 'Buckets, 10 a second in ten parts of 100 ms: 3, 2 and 4 in the first three parts, two more in the fourth: the tenth passes, the eleventh is refused; from 1,100 ms on three more pass.',
    limit: '{ unit: second, requests_per_unit: 10, algorithm: sliding_window_buckets, buckets: 10 }',
    rows: [
      ...times(3, ['0:00:00', 1, 'OK', 0]),
      ...times(2, ['0:00:00.150', 1, 'OK', 0]),
      ...times(4, ['0:00:00.299', 1, 'OK', 0]),
      ['0:00:00.300', 1, 'OK', 0],
      ['0:00:00.300', 1, 'OVER_LIMIT', 800],
      ['0:00:01.099', 1, 'OVER_LIMIT', 1],
      ...times(3, ['0:00:01.100', 1, 'OK', 0]),
      ['0:00:01.100', 1, 'OVER_LIMIT', 100],
    ],
  },
  {
    says: 'of 5 a minute in 6 parts, five at 0:50 count until 2:00, where an exact window would forget them at 1:50',
    limit: '{ unit: minute, requests_per_unit: 5, algorithm: sliding_window_buckets, buckets: 6 }',
    rows: [
      ['0:00:50', 5, 'OK', 0],
      ['0:01:50', 1, 'OVER_LIMIT', 10_000],
      ['0:02:00', 5, 'OK', 0],
    ],
  },
  {
    says: 'of 5 a minute, five at 0:00 and one each at 0:12, 0:24, 0:36 and 0:48',
    limit: '{ unit: minute, requests_per_unit: 5, algorithm: token_bucket }',
    rows: [
      ['0:00:00', 5, 'OK', 0],
      ['0:00:00', 1, 'OVER_LIMIT', 12_000],
      ['0:00:12', 1, 'OK', 0],
      ['0:00:24', 1, 'OK', 0],
      ['0:00:36', 1, 'OK', 0],
      ['0:00:48', 1, 'OK', 0],
      ['0:00:48', 1, 'OVER_LIMIT', 12_000],
    ],
  },
  {
    says: '5 a minute is one every 12 s',
    limit: '{ unit: minute, requests_per_unit: 5, algorithm: leaky_bucket }',
    rows: [
      ['0:00:00', 1, 'OK', 0],
      ['0:00:11.999', 1, 'OVER_LIMIT', 1],
      ['0:00:12', 1, 'OK', 0],
      ['0:00:12', 2, 'OVER_LIMIT', NEVER_MS],
    ],
  },
  {
    says: 'Leaky bucket, one every 100 ms, burst 1, max_delay: 300ms: of five at once, one passes now, three after 100, 200, 300 ms, one is refused.',
    limit: '{ unit: second, requests_per_unit: 10, algorithm: leaky_bucket, burst: 1, max_delay: 300ms }',
    rows: [
      ['0:00:00', 1, 'OK', 0, 0],
      ['0:00:00', 1, 'OK', 0, 100],
      ['0:00:00', 1, 'OK', 0, 200],
      ['0:00:00', 1, 'OK', 0, 300],
      ['0:00:00', 1, 'OVER_LIMIT', 100],
      ['0:00:00', 2, 'OVER_LIMIT', NEVER_MS],
    ],
  },
  {
    says: 'Five pass, the sixth and the seventh pass flagged, the eighth is refused.',
    limit: '{ unit: minute, requests_per_unit: 5, soft: 2 }',
    rows: [
      ...times(5, ['0:00:30', 1, 'OK', 0]),
      ...times(2, ['0:00:30', 1, 'OK', 0, 0, true]),
      ['0:00:30', 1, 'OVER_LIMIT', 30_000],
    ],
  },
  {
    says: 'refused only when the count is already above the limit, as in envoyproxy/ratelimit. At 5 of 5 a peek says OK, 0 remaining',
    limit: fixed5,
    rows: [
      ['0:00:30', 5, 'OK', 0],
      ['0:00:30', 0, 'OK', 0],
      ['0:00:30', 1, 'OVER_LIMIT', 30_000],
      ['0:00:30', 0, 'OVER_LIMIT', 30_000],
      ['0:00:30', 6, 'OVER_LIMIT', NEVER_MS],
    ],
  },
  {
    says: 'The sliding log and the sliding buckets refund their newest hits first',
    limit: log2,
    rows: [
      ['0:00:01', 1, 'OK', 0],
      ['0:00:30', 1, 'OK', 0],
      ['0:00:31', 0, 'OVER_LIMIT', 30_000],
      ['0:00:31', -1, 'OK', 0],
      ['0:00:31', 0, 'OK', 0],
      ['0:00:32', 1, 'OK', 0],
      ['0:00:33', 2, 'OVER_LIMIT', 59_000],
    ],
  },
  {
    says: 'Allocation, 150: 148 are taken, 2 more pass, the next is refused; after 30 came back, 30 pass.',
    limit: '{ algorithm: allocation, requests_per_unit: 150 }',
    rows: [
      ['0:00:00', 148, 'OK', 0],
      ['0:00:01', 2, 'OK', 0],
      ['0:00:02', 1, 'OVER_LIMIT', NEVER_MS],
      ['8760:00:00', 1, 'OVER_LIMIT', NEVER_MS],
      ['8760:00:00', -30, 'OK', 0],
      ['8760:00:01', 30, 'OK', 0],
      ['8760:00:02', 1, 'OVER_LIMIT', NEVER_MS],
    ],
  },
];

/** A store on a clock that the test sets; test/engine/algorithms/twins.test.ts shows that Redis answers the same. */
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

const MIDNIGHT_MS = Date.UTC(2026, 0, 1);
const momentOf = (written: string): number => {
  const [hours = 0, minutes = 0, seconds = 0] = written.split(':').map(Number);
  return MIDNIGHT_MS + Math.round((hours * 3600 + minutes * 60 + seconds) * 1000);
};

describe('the worked examples', () => {
  test.each(examples)('$limit: $says', async ({ limit: written, rows }) => {
    const limits = limitsOf(`domain: docs\ndescriptors:\n  - key: user\n    rate_limit: ${written}\n`);
    const { store, setClock } = make();
    const counter = String(counters++);
    for (const at of new Set(rows.map(([time]) => time))) {
      const now = rows.filter(([time]) => time === at);
      setClock(momentOf(at));
      const hits = now.flatMap(([, count]) => hitsOn(limits, count, counter));
      expect({ at, decisions: await store.run(hits, { spend: 'each', timeoutMs: 5_000 }) }).toMatchObject({
        at,
        decisions: now.map(([, , code, retryAfterMs, delayMs = 0, soft = false]) => ({
          code,
          retryAfterMs,
          delayMs,
          soft,
        })),
      });
    }
  });

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
    setClock(momentOf('0:00:10'));
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
