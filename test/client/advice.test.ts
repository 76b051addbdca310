import { bareDecision, type Decision } from '../../client/src/decision.ts';
import { fieldsOf } from '../../client/src/middleware/headers.ts';
import { pauseAskedBy } from '../../client/src/outgoing/advice.ts';
import fc from '../helpers/property.ts';

const NOW_MS = Date.parse('2026-03-01T12:00:00Z');
const NOW_SECONDS = NOW_MS / 1_000;

const asked = (status: number, headers: Readonly<Record<string, string>>) =>
  pauseAskedBy(new Response(null, { status, headers }), NOW_MS);

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
  ['a malformed field', 200, { ratelimit: '"a;r=0;t=3' }, undefined],
  ['draft 7', 200, { ratelimit: 'limit=9, remaining=0, reset=4' }, 4_000],
  ['draft 6', 200, { 'ratelimit-limit': '9, 9;w=60', 'ratelimit-remaining': '0', 'ratelimit-reset': '4' }, 4_000],
  ['seconds until the reset', 200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '5' }, 5_000],
  ['the time of the reset', 403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW_SECONDS + 5) }, 5_000],
  ['the same in ms', 200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW_MS + 50) }, 50],
  [
    'the same with decimals',
    200,
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': `${NOW_SECONDS + 5}.25` },
    5_250,
  ],
  ['seconds with decimals', 200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '0.6089' }, 609],
  [
    'two filters, the second limit spent',
    200,
    { 'x-ratelimit-remaining': '2, 0', 'x-ratelimit-reset': '10, 30' },
    30_000,
  ],
  [
    'two filters, the first limit spent',
    200,
    { 'x-ratelimit-remaining': '0, 5', 'x-ratelimit-reset': '10, 30' },
    10_000,
  ],
  ['two filters, none spent', 200, { 'x-ratelimit-remaining': '2, 5', 'x-ratelimit-reset': '10, 30' }, undefined],
  [
    'a limit of 0, by a middleware that only delays',
    200,
    { 'x-ratelimit-limit': '0', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '9' },
    undefined,
  ],
  [
    'the spent one of two filters of Envoy',
    200,
    {
      'x-ratelimit-limit': '3, 3;w=60, 10, 10;w=60',
      'x-ratelimit-remaining': '0, 5',
      'x-ratelimit-reset': '10, 30',
    },
    10_000,
  ],
  ['draft 6 by two filters', 200, { 'ratelimit-remaining': '0,0', 'ratelimit-reset': '4,6' }, 6_000],
  ['neither of these', 200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '99999999' }, undefined],
  ['a duration with a unit', 200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '6m0s' }, 360_000],
  ['no duration', 200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '6q' }, undefined],
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
    200,
    {
      ...{
        'anthropic-ratelimit-requests-remaining': '9',
        'anthropic-ratelimit-requests-reset': '2026-03-01T12:09:00Z',
      },
      ...{ 'anthropic-ratelimit-tokens-remaining': '0', 'anthropic-ratelimit-tokens-reset': '2026-03-01T12:00:08Z' },
    },
    8_000,
  ],
  ['remaining requests', 200, { 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': '5' }, undefined],
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
