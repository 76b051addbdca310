import { type Decision, WeirUnavailable } from '../../client/src/index.ts';
import { LocalLimits } from '../../client/src/local-limits.ts';
import { Refusals, requestKey } from '../../client/src/refusals.ts';
import type { LimitRequest } from '../../client/src/wire/messages.ts';

const requestOf = (value: string, hits = 1): LimitRequest => ({
  domain: 'demo',
  descriptors: [[['user', value]]],
  hits,
});

const decisionOf = (changes: Partial<Decision> = {}): Decision => {
  const state = { rule: 'demo.user', name: undefined, limit: 2, windowMs: 1_000, remaining: 0, resetMs: 900 };
  const refused = { ...state, ok: false, retryAfterMs: 900 };
  const rest = { limited: true, because: undefined, delayMs: 0, source: 'backend', wouldRefuse: [], headers: [] };
  return { ...refused, ...rest, error: undefined, descriptors: [refused], ...changes };
};

function clock() {
  let nowMs = 5_000;
  const advance = (ms: number): void => {
    nowMs += ms;
  };
  return { now: () => nowMs, advance };
}

test('a refusal is cached until the request may pass, with the remaining time', () => {
  const { now, advance } = clock();
  const refusals = new Refusals({ maxMs: 10_000 }, now);
  const key = requestKey(requestOf('a', 2));
  const headers = [{ key: 'Retry-After', value: '1' }];
  refusals.record(key, requestOf('a', 2), decisionOf({ headers }));
  advance(300);
  expect(refusals.find(key, 2)).toMatchObject({
    ok: false,
    retryAfterMs: 600,
    resetMs: 600,
    source: 'client_refusal',
    headers: [],
  });
  expect(refusals.find(key, 3)).toMatchObject({ ok: false });
  expect(refusals.find(key, 1)).toBeUndefined(); // fewer hits may pass
  advance(600);
  expect(refusals.find(key, 2)).toBeUndefined();
  expect(refusals.size).toBe(0);
});

test('refusals are cached within the time and number of the options', () => {
  const { now, advance } = clock();
  const refusals = new Refusals({ max: 2, maxMs: 100 }, now);
  for (const value of ['a', 'b', 'c']) refusals.record(value, requestOf(value), decisionOf());
  expect(['a', 'b', 'c'].map((key) => refusals.find(key, 1) !== undefined)).toEqual([false, true, true]);
  advance(100);
  expect(refusals.find('c', 1)).toBeUndefined();
});

test.each([
  ['it may end at any time, as requests in flight do', { descriptors: [{ ...decisionOf(), windowMs: undefined }] }],
  ['the counters were away', { source: 'deny' }],
  ['its end is known only to the second', { retryAfterMs: undefined, source: undefined, resetMs: 1_000 }],
])('a refusal is not cached when %s', (_, changes) => {
  const refusals = new Refusals({}, clock().now);
  refusals.record('a', requestOf('a'), decisionOf(changes));
  expect(refusals.find('a', 1)).toBeUndefined();
});

test('requests have the same key if and only if they are the same', () => {
  const keys = [
    [[['a', 'b']]],
    [
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    [[['a', 'b']], [['c', 'd']]],
    [[['ab', '']]],
    [[['a', 'bc']], [['', 'd']]],
    [[['a', '1:b']]],
  ].map((descriptors) => requestKey({ domain: 'demo', descriptors: descriptors as never, hits: 1 }));
  expect(new Set(keys).size).toBe(keys.length);
});

describe('a client without a service', () => {
  const error = new WeirUnavailable('unavailable', 'no connection');
  const UNKNOWN = { requests: 2, windowMs: 1_000 };

  test('counts by the last limit of the same descriptors, in its windows', () => {
    const { now, advance } = clock();
    const limits = new LocalLimits(UNKNOWN, now);
    limits.record('a', requestOf('a'), decisionOf());
    const ask = () => limits.decide('a', requestOf('a'), error);
    expect([ask().ok, ask().ok, ask().ok]).toEqual([true, true, false]);
    advance(400);
    expect(ask()).toMatchObject({ ok: false, remaining: 0, resetMs: 600, retryAfterMs: 600, rule: 'demo.user' });
    advance(600);
    expect(ask()).toMatchObject({ ok: true, remaining: 1, source: 'client_local', error });
  });

  test('counts each value separately, by the limit of descriptors with the same keys', () => {
    const limits = new LocalLimits(UNKNOWN, clock().now);
    limits.record('a', requestOf('a'), decisionOf());
    for (const value of ['b', 'c'])
      expect(limits.decide(value, requestOf(value, 2), error)).toMatchObject({ ok: true, remaining: 0 });
    expect(limits.decide('b', requestOf('b'), error).ok).toBe(false);
  });

  test('allows a few requests of any cost for each key in each window before it has seen a limit', () => {
    const { now, advance } = clock();
    const limits = new LocalLimits(UNKNOWN, now);
    const ask = (key: string, hits: number) => limits.decide(key, requestOf(key, hits), error);
    expect([1_000, 0, 1, -1, 1].map((hits) => ask('a', hits).ok)).toEqual([true, true, true, true, false]);
    expect(ask('a', 1)).toMatchObject({ limit: 2, windowMs: 1_000, remaining: 0, retryAfterMs: 1_000 });
    expect(ask('b', 1).ok).toBe(true);
    advance(1_000);
    expect(ask('a', 1).ok).toBe(true);
  });

  test('allows descriptors without a limit', () => {
    const limits = new LocalLimits(UNKNOWN, clock().now);
    limits.record('a', requestOf('a'), decisionOf({ ok: true, limit: undefined, windowMs: undefined }));
    for (let calls = 0; calls < 3; calls++)
      expect(limits.decide('a', requestOf('a', 1_000), error)).toMatchObject({ ok: true, limit: undefined });
  });

  test('counts by a limit again after an exception of the same rule was unlimited', () => {
    const limits = new LocalLimits(UNKNOWN, clock().now);
    limits.record('a', requestOf('a'), decisionOf());
    limits.record('vip', requestOf('vip'), decisionOf({ ok: true, limit: undefined, windowMs: undefined }));
    expect(limits.decide('vip', requestOf('vip', 3), error).ok).toBe(true);
    expect(limits.decide('b', requestOf('b', 3), error)).toMatchObject({ ok: false, limit: 2 });
  });
});
