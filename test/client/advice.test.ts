import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bareDecision, type Decision } from '../../client/src/decision.ts';
import { fieldsOf } from '../../client/src/middleware/headers.ts';
import { pauseAskedBy } from '../../client/src/outgoing/advice.ts';
import fc from '../helpers/property.ts';

const NOW_MS = Date.parse('2026-03-01T12:00:00Z');
const NOW_SECONDS = NOW_MS / 1_000;

const asked = (status: number, headers: Readonly<Record<string, string>>) =>
  pauseAskedBy(new Response(null, { status, headers }), NOW_MS);

const legacyOf = (remaining: string, reset: string) => ({
  'x-ratelimit-remaining': remaining,
  'x-ratelimit-reset': reset,
});

test.each<[string, number, Readonly<Record<string, string>>, number | undefined]>([
  ['Retry-After in seconds', 429, { 'retry-after': '7' }, 7_000],
  ['Retry-After as a date', 503, { 'retry-after': 'Sun, 01 Mar 2026 12:00:09 GMT' }, 9_000],
  ['a date of RFC 850', 503, { 'retry-after': 'Sunday, 01-Mar-26 12:00:09 GMT' }, 9_000],
  ['a date of asctime', 503, { 'retry-after': 'Sun Mar  1 12:00:09 2026' }, 9_000],
  [
    'a date by the clock of the server',
    429,
    { date: 'Sun, 01 Mar 2026 13:00:00 GMT', 'retry-after': 'Sun, 01 Mar 2026 13:00:02 GMT' },
    2_000,
  ],
  ['a date in the past', 429, { 'retry-after': 'Sun, 01 Mar 2026 11:00:00 GMT' }, 0],
  ['Retry-After that is no time', 429, { 'retry-after': 'soon' }, undefined],
  ['Retry-After of a redirection', 301, { 'retry-after': '7' }, undefined],
  ['Retry-After before RateLimit', 429, { 'retry-after': '7', ratelimit: '"a";r=0;t=3' }, 7_000],
  ['a spent limit', 200, { ratelimit: '"a";r=0;t=3' }, 3_000],
  ['the longest of several', 200, { ratelimit: '"a";r=0;t=3, "b";r=0;t=9, "c";r=1;t=60' }, 9_000],
  ['a limit that is not spent', 200, { ratelimit: '"a";r=1;t=3' }, undefined],
  ['a spent limit without a time', 200, { ratelimit: '"a";r=0' }, undefined],
  [
    'a limit of concurrent requests',
    200,
    { 'ratelimit-policy': '"a";q=3;qu="concurrent-requests"', ratelimit: '"a";r=0;t=3' },
    undefined,
  ],
  ['a limit of requests', 200, { 'ratelimit-policy': '"a";q=3;w=9', ratelimit: '"a";r=0;t=3' }, 3_000],
  ['Retry-After with 403', 403, { 'retry-after': '7' }, 7_000],
  ['Retry-After of a request that passed', 200, { 'retry-after': '7' }, 7_000],
  ['Retry-After of a result that is not ready', 202, { 'retry-after': '7' }, undefined],
  ['Retry-After of two proxies', 429, { 'retry-after': '7, 9' }, 9_000],
  ['a part of a second', 429, { 'retry-after': '0.25' }, 250],
  ['a date in UTC, as Go writes it', 429, { 'retry-after': 'Sun, 01 Mar 2026 12:00:09 UTC' }, 9_000],
  ['X-RateLimit-Retry-After before a reset', 429, { 'x-ratelimit-retry-after': '3', ...legacyOf('0', '30') }, 3_000],
  ['Retry-After before X-RateLimit-Retry-After', 429, { 'retry-after': '7', 'x-ratelimit-retry-after': '3' }, 7_000],
  ['a malformed field', 200, { ratelimit: '"a;r=0;t=3' }, undefined],
  ['draft 7', 429, { ratelimit: 'limit=9, remaining=0, reset=4' }, 4_000],
  ['draft 6', 429, { 'ratelimit-limit': '9, 9;w=60', 'ratelimit-remaining': '0', 'ratelimit-reset': '4' }, 4_000],
  ['seconds until the reset', 429, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '5' }, 5_000],
  ['the time of the reset', 403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW_SECONDS + 5) }, 5_000],
  ['the same in ms', 429, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW_MS + 50) }, 50],
  ['neither of these', 429, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '99999999' }, undefined],
  ['a duration with a unit', 429, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '6m0s' }, 360_000],
  ['no duration', 429, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '6q' }, undefined],
  ['retry-after-ms before Retry-After', 429, { 'retry-after': '2', 'retry-after-ms': '1250.5' }, 1_251],
  ['retry-after-ms that is no number', 429, { 'retry-after': '2', 'retry-after-ms': 'soon' }, 2_000],
  ['x-rate-limit fields', 429, { 'x-rate-limit-remaining': '0', 'x-rate-limit-reset': String(NOW_SECONDS + 6) }, 6_000],
  [
    'the longer of OpenAI’s limits',
    429,
    {
      ...{ 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '120ms' },
      ...{ 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '1m1.5s' },
    },
    61_500,
  ],
  [
    'the spent one of Anthropic’s limits',
    429,
    {
      ...{
        'anthropic-ratelimit-requests-remaining': '9',
        'anthropic-ratelimit-requests-reset': '2026-03-01T12:09:00Z',
      },
      ...{ 'anthropic-ratelimit-tokens-remaining': '0', 'anthropic-ratelimit-tokens-reset': '2026-03-01T12:00:08Z' },
    },
    8_000,
  ],
  ['the time of the reset with a fraction', 429, legacyOf('0', `${NOW_SECONDS + 5}.25`), 5_250],
  ['the reset as a date', 429, legacyOf('0', 'Sun, 01 Mar 2026 12:00:09 UTC'), 9_000],
  ['the spent one of two limits', 429, legacyOf('4, 0', '60, 5'), 5_000],
  ['the longer of two spent limits', 429, legacyOf('0, 0', '5, 60'), 60_000],
  ['several values of one field only', 429, legacyOf('0', '5, 60'), undefined],
  ['the reset of a limit that a request spent', 200, legacyOf('0', '30'), undefined],
  ['the reset in draft 7, of a request that passed', 200, { ratelimit: 'limit=9, remaining=0, reset=4' }, undefined],
  ['remaining requests', 429, { 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': '5' }, undefined],
  ['no field at all', 429, {}, undefined],
])('a response requests a pause: %s', (_, status, headers, ms) => {
  expect(asked(status, headers)).toBe(ms);
});

test('no header field causes an error, or a negative or infinite pause', () => {
  const names = [
    'retry-after',
    'retry-after-ms',
    'ratelimit',
    'ratelimit-policy',
    'ratelimit-reset',
    'x-ratelimit-reset',
    'date',
  ];
  const value = fc.oneof(
    fc.stringMatching(/^[ -~]{0,20}$/),
    fc.stringMatching(/^"[a-z]";r=0;t=-?\d{0,16}$/),
    fc.stringMatching(/^\d{1,17}(\.\d{1,9})?(, \d{1,17})?$/),
    fc.stringMatching(/^(\d{1,9}(ms|[dhms])){1,4}$/),
  );
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), value), (fields) => {
      const headers = { 'x-ratelimit-remaining': '0', 'ratelimit-remaining': '0', ...fields };
      const ms = asked(429, headers) ?? 0;
      expect(Number.isFinite(ms) && ms >= 0).toBe(true);
    }),
  );
});

test.each(['ietf', 'legacy', 'both'] as const)('the fields of our own middlewares are understood: %s', (style) => {
  const state = { rule: 'demo.user', name: 'a', limit: 5, windowMs: 60_000, remaining: 0, resetMs: 4_000 };
  const descriptor = { ok: false, ...state, retryAfterMs: 4_000 };
  const decision: Decision = { ...bareDecision(false, 'backend'), ...descriptor, descriptors: [descriptor] };
  const fields = fieldsOf(decision, style).filter(([name]) => name !== 'Retry-After');
  expect(asked(429, Object.fromEntries(fields))).toBe(4_000);
});

const page = readFileSync(fileURLToPath(new URL('../../docs/good-client.md', import.meta.url)), 'utf8');
const rows = page
  .slice(page.indexOf('A response can request a pause'), page.indexOf('Everything else is ignored'))
  .split('\n')
  .filter((line) => /^\| `/.test(line))
  .map((line) => line.split('|').map((cell) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, code = '']) => code)));

test('docs/good-client.md lists exactly the fields that are read', () => {
  const read = new Set<string>();
  for (const status of [200, 429]) {
    const get = (name: string) => {
      read.add(name);
      return name === 'ratelimit' ? '"a";r=0' : null;
    };
    pauseAskedBy({ status, headers: { get } } as unknown as Response, NOW_MS); // it reads nothing else of a response
  }
  read.delete('date');
  expect(rows.flatMap(([, names = []]) => names.map((name) => name.toLowerCase())).sort()).toEqual([...read].sort());
});

test('each example in docs/good-client.md causes the pause beside it', () => {
  expect(rows.length).toBeGreaterThan(5);
  for (const [, , , examples = [], [seconds] = []] of rows) {
    const fields = examples.map((line) => line.split(/: (.*)/).slice(0, 2) as [string, string]); // name and value
    expect([examples, asked(429, Object.fromEntries(fields))]).toEqual([
      examples,
      Number.parseFloat(`${seconds}`) * 1_000,
    ]);
  }
});
