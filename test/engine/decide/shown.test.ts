import { createResponseHeaders } from '../../../src/edge/rls/headers.ts';
import { encodeAnswer } from '../../../src/edge/wire/codec.ts';
import type { Verdict } from '../../../src/engine/decide/decide.ts';
import { createEngine } from '../../../src/engine/index.ts';
import { fakeClock } from '../../helpers/clock.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** An engine with one limit, whose calls return the shown numbers of its verdict. */
async function openLimit(limit: string) {
  const clock = fakeClock();
  const text = `domain: d\ndescriptors:\n  - key: k\n    rate_limit: { ${limit} }\n`;
  const engine = await createEngine({ rules: { text }, clock });
  closing.push(() => engine.close());
  const call = async (hits = 1) => {
    const { verdicts } = await engine.decide({
      domain: 'd',
      descriptors: [{ entries: [{ key: 'k', value: 'a' }], hits }],
    });
    const verdict = verdicts[0] as Extract<Verdict, { kind: 'limited' }>; // the descriptor has a limit
    const { code, limitRemaining, durationUntilResetMs, untilUnspentMs } = verdict.decision;
    return {
      code,
      remaining: limitRemaining,
      resetMs: durationUntilResetMs,
      unspentMs: untilUnspentMs ?? durationUntilResetMs,
    };
  };
  return { clock, call };
}

const windowed = ['fixed_window', 'sliding_window_log', 'sliding_window_counter', 'sliding_window_buckets, buckets: 6'];

test.each([
  ...['token_bucket', 'leaky_bucket'].map((name) => [`algorithm: ${name}, burst: 6`, 5_000] as const),
  ...windowed.map((name) => [`algorithm: ${name}`, undefined] as const),
])('the reset of a used up limit is the time until a request can pass: %s', async (algorithm, expectedMs) => {
  const { clock, call } = await openLimit(`${algorithm}, unit: second, unit_multiplier: 30, requests_per_unit: 6`);
  for (let calls = 0; calls < 5; calls++) expect((await call()).code).toBe('OK');
  const last = await call();
  expect(last).toMatchObject({ code: 'OK', remaining: 0 });
  if (expectedMs) expect(last.resetMs).toBe(expectedMs);
  clock.advance(last.resetMs - 1);
  const refused = await call();
  expect(refused).toMatchObject({ code: 'OVER_LIMIT', resetMs: 1 });
  clock.advance(1);
  expect(await call()).toMatchObject({ code: 'OK' });
});

test('the time until the limit is unspent has its own name', async () => {
  const { call } = await openLimit('algorithm: token_bucket, unit: second, unit_multiplier: 30, requests_per_unit: 6');
  for (let calls = 0; calls < 5; calls++) await call();
  expect(await call()).toMatchObject({ resetMs: 5_000, unspentMs: 30_000 });
  expect(await call(7)).toMatchObject({ code: 'OVER_LIMIT', resetMs: 30_000 }); // it can never pass
});

test('an engine shows the numbers of a service: of a bucket larger than its rate, at most the rate', async () => {
  const { call } = await openLimit('algorithm: token_bucket, unit: day, requests_per_unit: 10, burst: 20');
  expect(await call()).toMatchObject({ code: 'OK', remaining: 10 });
});

test('an engine shows such numbers of a limit that decides beside another one', async () => {
  const strict = 'require: { keys: [customer], limit: { unit: minute, requests_per_unit: 3 } }';
  const bucket = '{ algorithm: token_bucket, unit: day, requests_per_unit: 10, burst: 20 }';
  const text = `domain: d\n${strict}\ndescriptors: [{ key: k, rate_limit: ${bucket} }]\n`;
  const engine = await createEngine({ rules: { text }, clock: fakeClock() });
  closing.push(() => engine.close());
  const { verdicts } = await engine.decide({ domain: 'd', descriptors: [{ entries: [{ key: 'k', value: 'a' }] }] });
  expect(verdicts).toMatchObject([
    { decision: { limitRemaining: 2 }, beside: { rule: { path: 'd.k' }, decision: { limitRemaining: 10 } } },
  ]);
});

test('headers and statuses have the same reset', async () => {
  const names = { limit: 'limit', remaining: 'remaining', reset: 'reset' };
  const off = {
    ofEveryDescriptor: false,
    retryAfter: [],
    soft: '',
    wouldRefuse: '',
    quotaMode: false,
    maxWaitMs: 86_400_000,
  };
  const headers = createResponseHeaders({ limits: names, ietf: true, ...off });
  const clock = fakeClock();
  const text =
    'domain: d\ndescriptors:\n  - key: k\n    rate_limit: { algorithm: token_bucket, unit: minute, requests_per_unit: 2 }\n';
  const { decide, close } = await createEngine({ rules: { text }, clock });
  closing.push(close);
  const request = { domain: 'd', descriptors: [{ entries: [{ key: 'k', value: 'a' }], hits: 2 }] };
  const answer = await decide(request);
  const values = Object.fromEntries(headers(answer).map(({ key, value }) => [key, value]));
  expect(values).toMatchObject({ reset: '60', RateLimit: '"d.k";r=0;t=60' });
  expect(encodeAnswer(answer, [], undefined).statuses[0]?.duration_until_reset?.seconds).toBe(60);
});
