import type { JsonObject } from '../../../src/base/json.ts';
import { createDynamicMetadata } from '../../../src/edge/rls/metadata.ts';
import { decodeRequest } from '../../../src/edge/wire/codec.ts';
import type { WireDescriptor, WireRequest } from '../../../src/edge/wire/wire.ts';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { type Answer, decide, type Verdict } from '../../../src/engine/decide/decide.ts';
import { BLOCK_COUNTER } from '../../../src/engine/decide/overrides.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { fixedWindowOf, labelOf } from '../../helpers/limits.ts';
import { ruleOf, rulesFrom } from '../../helpers/rules.ts';

type Limited = Extract<Verdict, { kind: 'limited' }>;

const rule = ruleOf({ path: 'demo.user' });
const limit = fixedWindowOf(10, unitMs.MINUTE);
const label = labelOf(limit, { unit: 'MINUTE' });

function limited(decision: Partial<Limited['decision']> = {}): Limited {
  const plain = { hitsBefore: 3, limitRemaining: 6, durationUntilResetMs: 1, retryAfterMs: 0, delayMs: 0, soft: false };
  const decided = { code: 'OK', ...plain, ...decision } as const;
  return {
    kind: 'limited',
    rule,
    levels: rule.levels,
    found: { entries: [] },
    limit,
    label,
    policy: {},
    hits: 1,
    code: decided.code,
    decision: decided,
  };
}

const request: WireRequest = { domain: 'demo', descriptors: [], hits_addend: 0 };
const answer: Answer = { overallCode: 'OK', verdicts: [], shadowed: false, delayMs: 0 };

describe('dynamic metadata under `weir`', () => {
  const delayed = (decision: Partial<Extract<Verdict, { kind: 'limited' }>['decision']>, path: string): Verdict => ({
    ...limited(decision),
    rule: { ...rule, path },
  });
  const metadataOf = (verdicts: readonly Verdict[], delayMs = 0) => {
    return createDynamicMetadata({ ofRequest: false })(request, { ...answer, verdicts, delayMs });
  };

  test('is absent if the fields of the API are enough', () => {
    expect(metadataOf([limited()])).toBeUndefined();
  });

  test.each<[string, Verdict, object]>([
    ['that it passed on the soft part', limited({ soft: true }), { soft: true }],
    [
      'the window that no unit describes',
      { ...limited(), limit: { ...limit, windowMs: 1_500 }, label: { ...label, unit: 'UNKNOWN' } },
      { window_ms: 1_500 },
    ],
  ])('has %s', (_, verdict, facts) => {
    expect(metadataOf([verdict])).toEqual({ weir: { statuses: [{ index: 0, rule: 'demo.user', ...facts }] } });
  });

  test('has each status with further facts, by index, and the longest delay', () => {
    const verdicts: Verdict[] = [
      { kind: 'no_rule' },
      delayed({ delayMs: 100 }, 'demo.user'),
      limited(),
      { kind: 'unlimited', rule },
      delayed({ delayMs: 200, soft: true }, 'demo.path'),
    ];
    expect(metadataOf(verdicts, 200)).toEqual({
      weir: {
        delay_ms: 200,
        statuses: [
          { index: 1, rule: 'demo.user', delay_ms: 100 },
          { index: 4, rule: 'demo.path', delay_ms: 200, soft: true },
        ],
      },
    });
  });

  test('has no delay of a request that was not delayed', () => {
    expect(metadataOf([delayed({ delayMs: 100 }, 'demo.user')], 0)).toBeUndefined();
  });
});

test('dynamic metadata has the delay by a limit that its status does not show', async () => {
  const rules = rulesFrom(`
domain: demo
descriptors:
  - key: user
    rate_limits:
      - { unit: day, requests_per_unit: 2 }
      - { algorithm: leaky_bucket, unit: second, requests_per_unit: 5, max_delay: 1s }
`);
  const decider = deciderOf(rules);
  const descriptors = [{ entries: [{ key: 'user', value: 'a' }], requestLimit: undefined, hits: 1 }];
  await decide({ domain: 'demo', descriptors }, decider, 5_000);
  const held = await decide({ domain: 'demo', descriptors }, decider, 5_000);
  expect(held).toMatchObject({ delayMs: 200, verdicts: [{ limit: { requestsPerUnit: 2 }, decision: { delayMs: 0 } }] });
  expect(createDynamicMetadata({ ofRequest: false })(request, held)).toEqual({ weir: { delay_ms: 200 } });
});

describe('with ofRule, dynamic metadata has', () => {
  const metadataOf = (verdicts: readonly Verdict[], changes: Partial<Answer> = {}, quotaMode = false) =>
    createDynamicMetadata({ ofRequest: false, ofRule: true, quotaMode })(request, { ...answer, verdicts, ...changes });
  const perMinute = (decision: Partial<Limited['decision']> = {}): Limited => ({
    ...limited(decision),
    label: { ...label, unitMultiplier: 1 },
  });
  const refusal = { code: 'OVER_LIMIT', limitRemaining: 0, retryAfterMs: 900 } as const;

  test('the code alone if no limit applies', () => {
    expect(metadataOf([{ kind: 'no_rule' }, { kind: 'unlimited', rule }])).toEqual({ weir: { code: 'OK' } });
  });

  test('the limit with the fewest hits left of an allowed request', () => {
    const roomy = { ...perMinute({ limitRemaining: 9 }), rule: { ...rule, path: 'demo.path' } };
    expect(metadataOf([roomy, perMinute({ limitRemaining: 2 })])).toEqual({
      weir: { code: 'OK', rule: 'demo.user', limit: '10 per minute', remaining: 2 },
    });
  });

  test('the refusing limit and the wait of a refused request', () => {
    const refused = { overallCode: 'OVER_LIMIT', retryAfterMs: 900 } as const;
    expect(metadataOf([perMinute(refusal), perMinute()], refused)).toEqual({
      weir: { code: 'OVER_LIMIT', rule: 'demo.user', limit: '10 per minute', remaining: 0, retry_after_ms: 900 },
    });
  });

  test('what a blocked client exceeds, in words', () => {
    const verdict = { ...perMinute(refusal), limit: { ...limit, counter: BLOCK_COUNTER } };
    expect(metadataOf([verdict], { overallCode: 'OVER_LIMIT' })).toMatchObject({
      weir: { limit: 'blocked by an override' },
    });
  });

  test('the limit that a mode spares, beside the other facts', () => {
    const shadowed = {
      ...perMinute({ ...refusal, soft: true }),
      code: 'OK' as const,
      policy: { shadow: true as const },
    };
    const would_refuse = [{ descriptor: 0, rule: 'demo.user', limit: '10 per minute', reason: 'shadow' }];
    expect(metadataOf([shadowed])).toEqual({
      weir: {
        ...{ code: 'OK', rule: 'demo.user', limit: '10 per minute', remaining: 0, would_refuse },
        statuses: [{ index: 0, rule: 'demo.user', soft: true }],
      },
    });
    expect(createDynamicMetadata({ ofRequest: true })(request, { ...answer, verdicts: [shadowed] })).toMatchObject({
      weir: { would_refuse },
    });
    expect(createDynamicMetadata({ ofRequest: false })(request, { ...answer, verdicts: [shadowed] })).toEqual({
      weir: { statuses: expect.anything() },
    });
  });
});

describe('with ofRequest, dynamic metadata has', () => {
  const metadataOf = createDynamicMetadata({ ofRequest: true });
  const wire = (fields: Partial<WireDescriptor>): WireDescriptor => ({
    entries: [{ key: 'user', value: 'alice' }],
    limit: null,
    hits_addend: null,
    is_negative_hits: false,
    ...fields,
  });
  const of = (metadata: JsonObject | undefined, code: Limited['code'] = 'OK'): Verdict => ({
    ...limited(),
    rule: ruleOf({ metadata }),
    code,
  });

  test('domain, descriptors and hits of the request', () => {
    const descriptors = [
      wire({
        entries: [
          { key: 'user', value: '' },
          { key: 'path', value: 'a=b' },
        ],
      }),
      wire({ hits_addend: { value: 0 } }),
      wire({ limit: { requests_per_unit: 3, unit: 3, unit_multiplier: null } }),
      wire({ limit: { requests_per_unit: 3, unit: 99, unit_multiplier: null } }),
      wire({ limit: { requests_per_unit: 0, unit: 5, unit_multiplier: null } }),
      wire({ limit: { requests_per_unit: 3, unit: 7, unit_multiplier: null } }), // WEEK of responses
      wire({ limit: { requests_per_unit: 3, unit: 0, unit_multiplier: null } }),
      wire({ limit: { requests_per_unit: 0, unit: 0, unit_multiplier: null } }),
    ];
    expect(metadataOf({ ...request, descriptors, hits_addend: 5 }, answer)).toEqual({
      domain: 'demo',
      descriptors: [
        { entries: ['user=', 'path=a=b'] },
        { entries: ['user=alice'], hitsAddend: 0 },
        { entries: ['user=alice'], limit: 'requests_per_unit:3 unit:HOUR' },
        { entries: ['user=alice'], limit: 'requests_per_unit:3 unit:99' },
        { entries: ['user=alice'], limit: 'unit:MONTH' },
        { entries: ['user=alice'], limit: 'requests_per_unit:3 unit:7' },
        { entries: ['user=alice'], limit: 'requests_per_unit:3' },
        { entries: ['user=alice'], limit: '' },
      ],
      hitsAddend: 5,
    });
  });

  test('the merged metadata of the rules that let the request pass', () => {
    const verdicts: Verdict[] = [
      { kind: 'no_rule' },
      of({ plan: 'free', at: { a: 1 }, list: [1] }),
      of({ refused: true }, 'OVER_LIMIT'),
      { kind: 'unlimited', rule: ruleOf({ metadata: { unlimited: true } }) },
      of(undefined),
      of({ plan: 'paid', at: { a: 2, b: 3 }, list: [2], none: null }),
    ];
    expect(metadataOf(request, { ...answer, verdicts })).toEqual({
      domain: 'demo',
      descriptors: [],
      metadata: { plan: 'free', at: { a: 1, b: 3 }, list: [1], none: null },
    });
    expect(metadataOf(request, { ...answer, verdicts: [of({})] })).not.toHaveProperty('metadata');
  });

  test('the facts under `weir`, too', () => {
    expect(metadataOf(request, { ...answer, verdicts: [limited({ soft: true })] })).toEqual({
      domain: 'demo',
      descriptors: [],
      weir: { statuses: [{ index: 0, rule: 'demo.user', soft: true }] },
    });
  });
});

describe('passedDescriptors', () => {
  const rules = rulesFrom(`
domain: quotas
descriptors:
  - key: backend_name
    descriptors:
      - {key: model_name_override, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: user, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: free, rate_limit: {unlimited: true}}
`);
  const wire = (entries: Readonly<Record<string, string>>, value = 1): WireDescriptor => ({
    entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
    limit: null,
    hits_addend: { value },
    is_negative_hits: false,
  });
  const first = { backend_name: 'ns/first', model_name_override: 'large' };
  const second = { backend_name: 'ns/second', model_name_override: 'large' };
  const others = [wire({ user: 'alice' }), wire({ free: '' }), wire({ other: '' })];

  /** Sends the requests to a new service, one after the other. */
  async function answersOf(
    requests: readonly (readonly WireDescriptor[])[],
    options: Partial<Parameters<typeof createDynamicMetadata>[0]> = {},
  ) {
    const decider = deciderOf(rules, options.quotaMode ? { quotaMode: true } : {});
    const metadata = createDynamicMetadata({ ofRequest: false, ofPassed: true, ...options });
    const answers = [];
    for (const descriptors of requests) {
      const wired = { domain: 'quotas', descriptors, hits_addend: 0 };
      const answer = await decide(decodeRequest(wired), decider, 1_000);
      answers.push([answer.overallCode, metadata(wired, answer)]);
    }
    return answers;
  }

  test('has the descriptors whose quotas have room', async () => {
    const both = [wire(first, 2), wire(second), ...others];
    expect(await answersOf([both, both, both, others])).toEqual([
      ['OK', { passedDescriptors: [first, second] }],
      ['OK', { passedDescriptors: [second], weir: { would_refuse: [expect.objectContaining({ descriptor: 0 })] } }],
      ['OVER_LIMIT', { passedDescriptors: [] }],
      ['OK', undefined],
    ]);
  });

  test('has those of every limit with QUOTA_MODE', async () => {
    expect(await answersOf([others], { quotaMode: true })).toEqual([
      ['OK', { passedDescriptors: [{ user: 'alice' }] }],
    ]);
  });

  test('is sent beside other metadata, only on request', async () => {
    const [[, beside] = []] = await answersOf([[wire(first)]], { ofRequest: true });
    expect(beside).toMatchObject({ domain: 'quotas', passedDescriptors: [first] });
    expect(await answersOf([[wire(first)]], { ofPassed: false })).toEqual([['OK', undefined]]);
  });
});

test('the metadata of the rules is not modified', () => {
  const metadata = { at: { a: 1 } };
  const verdicts = [{ at: { b: 2 } }, metadata, { at: { c: 3 } }].map((one): Verdict => {
    return { ...limited(), rule: ruleOf({ metadata: one }) };
  });
  createDynamicMetadata({ ofRequest: true })(request, { ...answer, verdicts });
  expect(metadata).toEqual({ at: { a: 1 } });
});
