import { createDetail } from '../../../src/edge/rls/detail.ts';
import { createAnswerKnown } from '../../../src/edge/rls/service.ts';
import { responseToJson } from '../../../src/edge/wire/json.ts';
import { NEVER_MS, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Answer, decide, type Verdict } from '../../../src/engine/decide/decide.ts';
import { fromStruct } from '../../../src/protobuf/struct.ts';
import { callerWith } from '../../helpers/caller.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, labelOf } from '../../helpers/limits.ts';
import { ruleOf, rulesFrom } from '../../helpers/rules.ts';

type Limited = Extract<Verdict, { kind: 'limited' }>;

const limit = fixedWindowOf(10, unitMs.MINUTE);

function limited(path: string, decision: Partial<Limited['decision']> = {}, changes: Partial<Limited> = {}): Limited {
  const plain = {
    hitsBefore: 3,
    limitRemaining: 6,
    durationUntilResetMs: 21_500,
    retryAfterMs: 0,
    delayMs: 0,
    soft: false,
  };
  const decided = { code: 'OK', ...plain, ...decision } as const;
  const rule = ruleOf({ path });
  const shown = { rule, levels: rule.levels, limit, label: labelOf(limit, { unit: 'MINUTE' }), policy: {}, hits: 1 };
  return { kind: 'limited', found: { entries: [] }, ...shown, code: decided.code, decision: decided, ...changes };
}

const refused = (path: string, retryAfterMs: number, changes: Partial<Limited> = {}): Limited =>
  limited(path, { code: 'OVER_LIMIT', limitRemaining: 0, retryAfterMs }, changes);

const detail = (verdicts: readonly Verdict[], changes: Partial<Answer> = {}) =>
  fromStruct(createDetail({ overallCode: 'OK', verdicts, shadowed: false, delayMs: 0, ...changes }));

test('the detail has the numbers of the limit in milliseconds, and where the hits were counted', () => {
  const facts = {
    limit: 10,
    remaining: 6,
    retry_after_ms: 0,
    reset_ms: 21_500,
    unspent_ms: 21_500,
    delay_ms: 0,
    source: 'backend',
  };
  expect(detail([limited('demo.user')])).toEqual({
    ...{ rule: 'demo.user', ...facts },
    descriptors: [{ rule: 'demo.user', ...facts }],
  });
});

test('the detail has one item for each descriptor, with the reason if no rule applies', () => {
  const verdicts: Verdict[] = [
    { kind: 'no_rule' },
    { kind: 'unlimited', rule: ruleOf({ path: 'demo.free' }) },
    limited('demo.user', { fromLease: true }),
    { kind: 'no_domain' },
  ];
  expect(detail(verdicts)).toMatchObject({
    rule: 'demo.user',
    source: 'lease',
    descriptors: [
      { reason: 'no_rule' },
      { rule: 'demo.free' },
      { rule: 'demo.user', source: 'lease' },
      { reason: 'no_domain' },
    ],
  });
  expect(detail([{ kind: 'no_rule' }])).toEqual({ delay_ms: 0, descriptors: [{ reason: 'no_rule' }] });
});

test.each<[string, readonly Verdict[]]>([
  ['with the fewest hits left', [limited('d.a'), limited('d.decides', { limitRemaining: 2 }), limited('d.b')]],
  [
    'that comes first of those with as few hits left',
    [limited('d.decides', { limitRemaining: 2 }), limited('d.a', { limitRemaining: 2 })],
  ],
  ['that refused', [limited('d.a', { limitRemaining: 0 }), refused('d.decides', 500)]],
  [
    'that refused for the longest time',
    [refused('d.a', 500), refused('d.decides', 40_000), refused('d.b', 3_000), limited('d.c')],
  ],
  ['that can never pass', [refused('d.a', 500), refused('d.decides', NEVER_MS)]],
  [
    'that refuses on its own, before a quota',
    [refused('d.a', 40_000, { policy: { quota: true } }), refused('d.decides', 500)],
  ],
  [
    'that may refuse, before one in shadow mode',
    [
      limited('d.a', { code: 'OVER_LIMIT', limitRemaining: 0 }, { policy: { shadow: true }, code: 'OK' }),
      limited('d.decides'),
    ],
  ],
])('the detail describes the limit %s', (_, verdicts) => {
  expect(detail(verdicts)).toMatchObject({ rule: 'd.decides' });
  expect(detail(verdicts).descriptors).toHaveLength(verdicts.length);
});

test('the detail has the limits that would have refused', () => {
  const shadow = limited('d.trial', { code: 'OVER_LIMIT' }, { policy: { shadow: true }, code: 'OK' });
  const facts = detail([limited('d.user'), shadow]);
  const would_refuse = [{ descriptor: 1, rule: 'd.trial', limit: expect.stringContaining('10 per'), reason: 'shadow' }];
  expect(facts).toMatchObject({ rule: 'd.user', would_refuse });
  expect(detail([limited('d.user')])).not.toHaveProperty('would_refuse');
});

test('the wait is that of the request, those of the descriptors are of their limits alone', () => {
  const verdicts = [refused('d.k', NEVER_MS, { policy: { quota: true } }), refused('d.l', 900)];
  const of = (retryAfterMs: number) => detail(verdicts, { overallCode: 'OVER_LIMIT', retryAfterMs });
  expect(of(700)).toHaveProperty('retry_after_ms', 700);
  expect(of(NEVER_MS)).not.toHaveProperty('retry_after_ms');
  const { descriptors } = of(700);
  expect(descriptors).toMatchObject([{ rule: 'd.k' }, { rule: 'd.l', retry_after_ms: 900 }]);
  expect(descriptors).not.toMatchObject([{ retry_after_ms: expect.anything() }, {}]);
});

test('a request that passed has no wait, even if a quota or a limit in shadow mode is exceeded', () => {
  const passed = detail([refused('d.k', 43_140_000, { policy: { quota: true } }), limited('d.l')]);
  expect(passed).toMatchObject({ retry_after_ms: 0, descriptors: [{ retry_after_ms: 0 }, { retry_after_ms: 0 }] });
});

test('the delay is shown for the answer, and for each limit that may delay it', () => {
  const verdicts = [
    limited('d.a', { delayMs: 20 }),
    limited('d.b', { delayMs: 90 }, { policy: { shadow: true } }),
    limited('d.c', { delayMs: 50 }),
  ];
  const delays = [{ delay_ms: 20 }, { delay_ms: 0 }, { delay_ms: 50 }];
  expect(detail(verdicts, { delayMs: 50 })).toMatchObject({ delay_ms: 50, descriptors: delays });
  const none = verdicts.map(() => ({ delay_ms: 0 }));
  expect(detail(verdicts, { overallCode: 'OVER_LIMIT' })).toMatchObject({ delay_ms: 0, descriptors: none });
});

test('the detail is bounded for any number of descriptors and any length of names', () => {
  const { rule, descriptors } = detail(Array.from({ length: 256 }, () => limited(`d.${'x'.repeat(100_000)}`)));
  expect(rule).toHaveLength(512);
  expect(descriptors).toHaveLength(32);
});

test('a late answer that is known has the detail that its caller asked for', async () => {
  const rules = rulesFrom(
    'domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 0 } }]',
  );
  const local = { maxCounters: 10, maxBytes: 10_000, instances: () => 1 };
  const ledger = ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 10 }), { local });
  const decider = deciderOf(rules, { ledger });
  const entries = [{ key: 'user', value: 'anna' }];
  await decide({ domain: 'demo', descriptors: [{ entries, hits: 1, requestLimit: undefined }] }, decider, 1_000);
  const answerKnown = createAnswerKnown(decider, extrasOf(), { answered: () => {} });
  const wire = {
    domain: 'demo',
    descriptors: [{ entries, limit: null, hits_addend: null, is_negative_hits: false }],
    hits_addend: 1,
  };
  const response = answerKnown(wire, { ...callerWith(), needsDetail: true });
  expect(response && JSON.stringify(responseToJson(response))).toContain('"source":"refusal"');
});
