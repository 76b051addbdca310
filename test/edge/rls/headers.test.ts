import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Verdict } from '../../../src/engine/decide/decide.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { ruleOf } from '../../helpers/rules.ts';

const limits = { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' };

/** A limited verdict with a distinct limit. */
function verdict(
  requestsPerUnit: number,
  limitRemaining: number,
  mode: 'enforced' | 'over' | 'shadow over' | 'quota over' = 'enforced',
): Verdict {
  const over = mode !== 'enforced';
  const shadow = mode === 'shadow over';
  return {
    kind: 'limited',
    rule: ruleOf(),
    levels: ['k'],
    found: { entries: [] },
    limit: fixedWindowOf(requestsPerUnit, unitMs.MINUTE),
    label: { name: '', unit: 'MINUTE', unitMultiplier: 1 },
    policy: { ...(shadow && { shadow }), ...(mode === 'quota over' && { quota: true }) },
    decision: {
      code: over ? 'OVER_LIMIT' : 'OK',
      hitsBefore: 0,
      limitRemaining,
      durationUntilResetMs: 57_001,
      retryAfterMs: 0,
      delayMs: 0,
      soft: false,
    },
    hits: 1,
    code: over && !shadow ? 'OVER_LIMIT' : 'OK',
  };
}

const unlimited: Verdict = {
  kind: 'unlimited',
  rule: ruleOf({ unlimited: true }),
};
const unmatched: Verdict = { kind: 'no_rule' };

const headersOf = (verdicts: readonly Verdict[], quotaMode = false) =>
  extrasOf({ limits, quotaMode }).headers({ overallCode: 'OK', verdicts, shadowed: false, delayMs: 0 });

/** The limit and its remaining hits in the headers; undefined without headers. */
const shownBy = (verdicts: readonly Verdict[], quotaMode = false) => {
  const [limit, remaining] = headersOf(verdicts, quotaMode);
  return limit && remaining && `${limit.value}, ${remaining.value}`;
};

test('limits have three headers, in this order, with the configured names', () => {
  expect(headersOf([verdict(10, 0, 'over'), unmatched])).toEqual([
    { key: 'RateLimit-Limit', value: '10' },
    { key: 'RateLimit-Remaining', value: '0' },
    { key: 'RateLimit-Reset', value: '58' }, // rounded up
  ]);
  const custom = extrasOf({ limits: { limit: 'x-l', remaining: 'x-rem', reset: 'x-res' } }).headers;
  const answer = { overallCode: 'OK', verdicts: [verdict(5, 3)], shadowed: false, delayMs: 0 } as const;
  expect(custom(answer).map(({ key }) => key)).toEqual(['x-l', 'x-rem', 'x-res']);
});

test.each<[string, readonly Verdict[], string | undefined]>([
  ['the fewest hits remaining', [verdict(10, 5), verdict(20, 3), verdict(30, 4)], '20, 3'],
  ['the first of those with as few', [verdict(10, 3), verdict(20, 3)], '10, 3'],
  ['whatever comes between', [unmatched, verdict(10, 3), unlimited, verdict(20, 2), { kind: 'no_domain' }], '20, 2'],
  ['one that refuses before one with nothing left', [verdict(10, 0), verdict(20, 0, 'over')], '20, 0'],
  ['the last one that refuses', [verdict(10, 0, 'over'), verdict(20, 0, 'over'), verdict(30, 0)], '20, 0'],
  ['one that refuses, though a later one has as few', [verdict(10, 0, 'over'), verdict(20, 0)], '10, 0'],
  ['a rule in shadow mode by its remaining hits', [verdict(10, 5), verdict(20, 0, 'shadow over')], '20, 0'],
  ['not a rule in shadow mode for its refusal', [verdict(10, 0), verdict(20, 0, 'shadow over')], '10, 0'],
  ['a quota rule by its remaining hits', [verdict(10, 5), verdict(20, 0, 'quota over')], '20, 0'],
  ['not a quota rule for its refusal', [verdict(10, 0), verdict(20, 0, 'quota over')], '10, 0'],
  ['a limit with all but one hit left', [verdict(4_294_967_295, 4_294_967_294)], '4294967295, 4294967294'],
  ['none with as many hits left as unlimited', [verdict(4_294_967_295, 4_294_967_295)], undefined],
  ['none if nothing is limited', [unmatched, unlimited, { kind: 'no_domain' }], undefined],
])('the headers describe %s', (_, verdicts, expected) => {
  expect(shownBy(verdicts)).toBe(expected);
});

test('in quota mode the headers describe the first limit without hits left', () => {
  const verdicts = [verdict(10, 0, 'over'), verdict(20, 0, 'over')];
  expect([shownBy(verdicts, false), shownBy(verdicts, true)]).toEqual(['20, 0', '10, 0']);
});

test('headers are not sent unless enabled', () => {
  const none = extrasOf().headers;
  expect(none({ overallCode: 'OK', verdicts: [verdict(10, 3)], shadowed: false, delayMs: 0 })).toEqual([]);
});

describe('the rules on whose soft part a request passed', () => {
  /** A verdict of the rule with this path, which passed on the soft part of its limit. */
  function soft(path: string): Verdict {
    const passed = verdict(10, 0);
    if (passed.kind !== 'limited') return passed;
    return { ...passed, rule: { ...passed.rule, path }, decision: { ...passed.decision, soft: true } };
  }
  const headers = (names: typeof limits | undefined, verdicts: readonly Verdict[]) =>
    extrasOf({ limits: names, soft: 'X-Soft' }).headers({
      overallCode: 'OK',
      verdicts,
      shadowed: false,
      delayMs: 0,
    });

  test('are named by one header, in order, after the others', () => {
    const verdicts = [verdict(10, 0), soft('d.user'), unlimited, unmatched, soft('d.path_/login')];
    expect(headers(limits, verdicts)).toEqual([
      { key: 'RateLimit-Limit', value: '10' },
      { key: 'RateLimit-Remaining', value: '0' },
      { key: 'RateLimit-Reset', value: '58' },
      { key: 'X-Soft', value: 'd.user, d.path_/login' },
    ]);
  });

  test('are named even if no other headers are enabled', () => {
    expect(headers(undefined, [soft('d.user')])).toEqual([{ key: 'X-Soft', value: 'd.user' }]);
  });

  test('are printable ASCII, named once, and not beyond the length of a field', () => {
    const odd = [soft('d.user_東京'), soft('d.user_a\nx: 5%'), soft('d.user_東京')];
    const value = 'd.user_%E6%9D%B1%E4%BA%AC, d.user_a%0Ax: 5%25';
    expect(headers(undefined, odd)).toEqual([{ key: 'X-Soft', value }]);
    const many = Array.from({ length: 50 }, (_, at) => soft(`${at}`.padEnd(200, 'a')));
    const [field] = headers(undefined, many);
    expect([(field?.value.length ?? 0) > 3_800, (field?.value.length ?? 0) <= 4_096]).toEqual([true, true]);
  });

  test('are not named if there are none', () => {
    expect(headers(undefined, [verdict(10, 3), unlimited])).toEqual([]);
  });
});

describe('the limits that would have refused', () => {
  const { headers } = extrasOf({ soft: '', wouldRefuse: 'X-Would-Refuse' });
  const fieldsOf = (verdicts: readonly Verdict[]) =>
    headers({ overallCode: 'OK', verdicts, shadowed: false, delayMs: 0 }).map(({ key, value }) => `${key}: ${value}`);
  const named = (one: Verdict, name: string): Verdict =>
    one.kind === 'limited' ? { ...one, rule: ruleOf({ path: name, place: { file: 'f', line: 1 } }) } : one;

  test('are named with the reason why they did not', () => {
    const verdicts = [verdict(10, 5), named(verdict(20, 0, 'shadow over'), 'd.é"'), verdict(30, 0, 'quota over')];
    expect(fieldsOf(verdicts)).toEqual(['X-Would-Refuse: "d.%C3%A9\\"";reason=shadow, "d#request";reason=quota']);
  });

  test('are named once, and not beyond the length of a field', () => {
    const twice = [verdict(20, 0, 'shadow over'), verdict(30, 0, 'shadow over')];
    expect(fieldsOf(twice)).toEqual(['X-Would-Refuse: "d#request";reason=shadow']);
    const many = Array.from({ length: 50 }, (_, at) => named(verdict(1, 0, 'shadow over'), `${at}`.padEnd(200, 'a')));
    const [field = ''] = fieldsOf(many);
    expect([field.length > 3_800, field.length <= 4_096 + 'X-Would-Refuse: '.length]).toEqual([true, true]);
  });

  test('are not named if there are none', () => {
    expect(fieldsOf([verdict(10, 3), unlimited, unmatched])).toEqual([]);
    const over = {
      overallCode: 'OVER_LIMIT',
      verdicts: [verdict(10, 0, 'over')],
      shadowed: false,
      delayMs: 0,
    } as const;
    expect(headers(over)).toEqual([]);
  });
});

test('no header asks for a wait that the timers of clients cannot express', () => {
  const yearMs = 365 * unitMs.DAY;
  const refused = verdict(10, 0, 'over');
  if (refused.kind !== 'limited') throw new Error('not limited');
  const decision = { ...refused.decision, durationUntilResetMs: yearMs, retryAfterMs: yearMs };
  const answer = {
    overallCode: 'OVER_LIMIT',
    verdicts: [{ ...refused, decision }],
    shadowed: false,
    delayMs: 0,
  } as const;
  const { headers } = extrasOf({ limits, ietf: true, retryAfter: ['Retry-After'], maxWaitMs: unitMs.DAY });
  const sent = headers({ ...answer, retryAfterMs: yearMs }).map(({ key, value }) => [key, value]);
  expect(Object.fromEntries(sent)).toMatchObject({
    RateLimit: expect.stringMatching(/;t=86400$/),
    'RateLimit-Reset': '86400',
    'Retry-After': '86400',
  });
});

describe('the Retry-After header', () => {
  const waits = (retryAfterMs: number | undefined, overallCode: 'OK' | 'OVER_LIMIT' = 'OVER_LIMIT') =>
    extrasOf({ retryAfter: ['Retry-After', 'X-RateLimit-Retry-After'] }).headers({
      overallCode,
      verdicts: [verdict(10, 0, 'over')],
      shadowed: false,
      delayMs: 0,
      retryAfterMs,
    });

  test('has each configured name, and the wait of the request, rounded up', () => {
    expect(waits(1_001)).toEqual([
      { key: 'Retry-After', value: '2' },
      { key: 'X-RateLimit-Retry-After', value: '2' },
    ]);
  });

  test('is not sent if the request passed, or could never pass', () => {
    expect(waits(undefined, 'OK')).toEqual([]);
    expect(waits(Number.POSITIVE_INFINITY)).toEqual([]);
  });
});

test('headers for every descriptor have one value per descriptor, in order', () => {
  const { headers } = extrasOf({ limits, ofEveryDescriptor: true });
  const verdicts = [verdict(10, 3), unmatched, verdict(20, 0, 'over'), unlimited, verdict(30, 9, 'shadow over')];
  const answer = { overallCode: 'OVER_LIMIT', shadowed: false, delayMs: 0 } as const;
  expect(headers({ ...answer, verdicts })).toEqual([
    { key: 'RateLimit-Limit', value: '10, 20, 30' },
    { key: 'RateLimit-Remaining', value: '3, 0, 9' },
    { key: 'RateLimit-Reset', value: '58, 58, 58' },
  ]);
  expect(headers({ ...answer, verdicts: [unmatched, unlimited] })).toEqual([]);
});
