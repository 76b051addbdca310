import { decodeRequest, encodeAnswer } from '../../../src/edge/wire/codec.ts';
import type { WireDescriptor, WireRequestLimit } from '../../../src/edge/wire/wire.ts';
import { MAX_COUNT, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { type Answer, InvalidRequest, type Verdict } from '../../../src/engine/decide/decide.ts';
import { fromStruct } from '../../../src/protobuf/struct.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { ruleOf } from '../../helpers/rules.ts';

const descriptor = (fields: Partial<WireDescriptor> = {}): WireDescriptor => ({
  entries: [{ key: 'user', value: 'alice' }],
  limit: null,
  hits_addend: null,
  is_negative_hits: false,
  ...fields,
});

const decode = (fields: Partial<WireDescriptor>, hits_addend = 0) =>
  decodeRequest({ domain: 'demo', descriptors: [descriptor(fields)], hits_addend }).descriptors[0];

test('a request keeps its domain and its entries, in order', () => {
  const entries = [
    { key: 'user', value: '' },
    { key: '', value: 'alice' },
    { key: '__proto__', value: 'constructor' },
  ];
  const descriptors = [descriptor({ entries }), descriptor({ entries: [] })];
  expect(decodeRequest({ domain: 'demo', descriptors, hits_addend: 0 })).toEqual({
    domain: 'demo',
    descriptors: [
      { entries, requestLimit: undefined, hits: 1 },
      { entries: [], requestLimit: undefined, hits: 1 },
    ],
  });
});

test.each<[string, number, number | undefined, boolean, number]>([
  ['one by default', 0, undefined, false, 1],
  ['set by the request', 5, undefined, false, 5],
  ['set by the descriptor', 0, 7, false, 7],
  ['set differently by the descriptor', 5, 7, false, 7],
  ['0 in the descriptor: a peek', 5, 0, false, 0],
  ['the descriptor says none, and back', 5, 0, true, 0],
  ['refunded by the descriptor', 5, 7, true, -7],
  ['refunded by the descriptor, with the number of the request', 5, undefined, true, -5],
  ['refunded by the descriptor, one by default', 0, undefined, true, -1],
  ['the largest number in a request', 0xffff_ffff, undefined, false, 0xffff_ffff],
  ['more than can be counted', 0, 2 ** 64, false, MAX_COUNT],
  ['more than can be counted, refunded', 0, 2 ** 60, true, -MAX_COUNT],
])('hits are decoded: %s', (_, requestHits, value, is_negative_hits, hits) => {
  const hits_addend = value === undefined ? null : { value };
  expect(decode({ hits_addend, is_negative_hits }, requestHits)?.hits).toBe(hits);
});

test('a request that is too large for its reader throws InvalidRequest', () => {
  const request = { domain: '', descriptors: [], hits_addend: 0, problem: 'descriptors must have at most 256' };
  expect(() => decodeRequest(request)).toThrow(new InvalidRequest('descriptors must have at most 256'));
});

describe('a limit in the request', () => {
  const requestLimit = (fields: Partial<WireRequestLimit>) =>
    decode({ limit: { requests_per_unit: 10, unit: 1, unit_multiplier: null, ...fields } })?.requestLimit;

  test.each([
    [1, 'SECOND'],
    [2, 'MINUTE'],
    [3, 'HOUR'],
    [4, 'DAY'],
    [5, 'MONTH'],
    [6, 'YEAR'],
    [7, 'WEEK'], // a number without a name in the request's enum
  ] as const)('with unit %d is per %s', (number, unit) => {
    expect(requestLimit({ unit: number })).toEqual({
      limit: {
        limit: {
          algorithm: 'fixed_window',
          alignment: 'epoch',
          counter: `fixed_window.2|${unitMs[unit]}`,
          soft: 0,
          requestsPerUnit: 10,
          windowMs: unitMs[unit],
        },
        label: { name: '', unit, unitMultiplier: 1 },
        policy: {},
      },
    });
  });

  test.each([
    [30, 1, 30_000],
    [1, 2, 60_000],
    [100, 6, 100 * unitMs.YEAR],
  ])('with multiplier %d of unit %d is per %d ms', (value, unit, windowMs) => {
    expect(requestLimit({ unit, unit_multiplier: { value } })).toMatchObject({
      limit: { limit: { windowMs }, label: { unitMultiplier: value } },
    });
  });

  test.each([0, 8, 99, -1])('with unit %d is invalid', (unit) => {
    expect(requestLimit({ unit })).toEqual({
      problem: `descriptors[0].limit.unit must be a unit from SECOND (1) to WEEK (7), got ${unit}`,
    });
  });

  test.each([
    [0, 1, '0 × SECOND'],
    [101, 6, '101 × YEAR'],
    [0xffff_ffff, 1, '4294967295 × SECOND'],
    [0xffff_ffff, 6, '4294967295 × YEAR'],
  ])('with multiplier %d of unit %d is invalid', (value, unit, got) => {
    expect(requestLimit({ unit, unit_multiplier: { value } })).toEqual({
      problem: `descriptors[0].limit.unit_multiplier must make a window of 1 unit to 100 years, got ${got}`,
    });
  });
});

describe('an answer', () => {
  const rule = ruleOf({ path: 'demo.user' });
  const limit = fixedWindowOf(10);
  const label = { name: '', unit: 'MINUTE', unitMultiplier: 1 } as const;

  const limited = (
    fields: Partial<Extract<Verdict, { kind: 'limited' }>['decision']> = {},
  ): Extract<Verdict, { kind: 'limited' }> => ({
    kind: 'limited',
    rule,
    levels: rule.levels,
    found: { entries: [] },
    limit,
    label,
    policy: {},
    hits: 1,
    code: 'OK',
    decision: {
      code: 'OK',
      hitsBefore: 3,
      limitRemaining: 6,
      durationUntilResetMs: 37_000,
      retryAfterMs: 0,
      delayMs: 0,
      soft: false,
      ...fields,
    },
  });
  const status = (verdict: Verdict) =>
    encodeAnswer({ overallCode: 'OK', verdicts: [verdict], shadowed: false, delayMs: 0 }, [], undefined).statuses[0];

  const current_limit = { name: '', requests_per_unit: 10, unit: 2 };
  const duration_until_reset = { seconds: 37, nanos: 0 };

  test.each<[string, Verdict, object]>([
    ['no domain', { kind: 'no_domain' }, { code: 1, limit_remaining: 0 }],
    ['no rule', { kind: 'no_rule' }, { code: 1, limit_remaining: 0 }],
    ['unlimited', { kind: 'unlimited', rule }, { code: 1, limit_remaining: 4_294_967_295 }],
    ['within the limit', limited(), { code: 1, current_limit, limit_remaining: 6, duration_until_reset }],
    [
      'over the limit',
      { ...limited({ code: 'OVER_LIMIT', limitRemaining: 0 }), code: 'OVER_LIMIT' },
      { code: 2, current_limit, limit_remaining: 0, duration_until_reset },
    ],
    [
      'over the limit, in shadow mode',
      limited({ code: 'OVER_LIMIT', limitRemaining: 0 }),
      { code: 1, current_limit, limit_remaining: 0, duration_until_reset },
    ],
    [
      'a limit with a name and a window of several units',
      { ...limited(), label: { ...label, name: 'per-user', unitMultiplier: 30 } },
      {
        code: 1,
        current_limit: { ...current_limit, name: 'per-user', unit_multiplier: { value: 30 } },
        limit_remaining: 6,
        duration_until_reset,
      },
    ],
    [
      'of a bucket that holds more than its rate no more remaining than the limit that is shown beside it',
      limited({ limitRemaining: 2 ** 40 }),
      { code: 1, current_limit, limit_remaining: 10, duration_until_reset },
    ],
  ])('%s', (_, verdict, expected) => {
    expect(status(verdict)).toEqual(expected);
  });

  test.each([
    [1, 1],
    [999, 1],
    [1_000, 1],
    [1_001, 2],
    [36_000.5, 37],
    [60_000, 60],
    [1e15, 315_576_000_000], // the longest duration that protobuf allows
  ])('with %d ms until the reset has %d seconds, rounded up', (durationUntilResetMs, seconds) => {
    expect(status(limited({ durationUntilResetMs }))?.duration_until_reset).toEqual({ seconds, nanos: 0 });
  });

  test('has one status per descriptor in order, the overall code and the headers', () => {
    const answer: Answer = {
      overallCode: 'OVER_LIMIT',
      verdicts: [{ kind: 'no_rule' }, limited(), { kind: 'unlimited', rule }],
      shadowed: false,
      delayMs: 0,
    };
    const headers = [{ key: 'RateLimit-Limit', value: '10' }];
    const encoded = encodeAnswer(answer, headers, undefined);
    expect(encoded).toMatchObject({ overall_code: 2, response_headers_to_add: headers });
    expect(encoded.statuses.map(({ limit_remaining }) => limit_remaining)).toEqual([0, 6, 4_294_967_295]);
  });

  test('is OK in global shadow mode even if its statuses are not', () => {
    const over: Verdict = { ...limited({ code: 'OVER_LIMIT' }), code: 'OVER_LIMIT' };
    const encoded = encodeAnswer({ overallCode: 'OK', verdicts: [over], shadowed: true, delayMs: 0 }, [], undefined);
    expect([encoded.overall_code, encoded.statuses[0]?.code]).toEqual([1, 2]);
  });

  test('has its dynamic metadata', () => {
    const answer: Answer = { overallCode: 'OK', verdicts: [limited()], shadowed: false, delayMs: 0 };
    const { dynamic_metadata } = encodeAnswer(answer, [], { rule: 'demo.user', list: [1, null] });
    expect(dynamic_metadata && fromStruct(dynamic_metadata)).toEqual({ rule: 'demo.user', list: [1, null] });
    expect(encodeAnswer(answer, [], undefined).dynamic_metadata).toBeUndefined();
  });

  test('shows a limit without a unit as UNKNOWN', () => {
    const odd: Verdict = { ...limited(), label: { ...label, unit: 'UNKNOWN' } };
    expect(status(odd)).toMatchObject({ current_limit: { requests_per_unit: 10, unit: 0 } });
    expect(status(odd)?.current_limit).not.toHaveProperty('unit_multiplier');
  });
});
