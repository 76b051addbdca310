import type { Spend } from '../../../src/engine/algorithms/limit.ts';
import type { Operation, Replies } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Answer, type Decider, decide, type RequestDescriptor } from '../../../src/engine/decide/decide.ts';
import { Overrides } from '../../../src/engine/decide/overrides.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import type { RequestLimit } from '../../../src/engine/rules/match/match.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { backendThat, ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, ruleLimitOf } from '../../helpers/limits.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const DOMAIN = 'shop';

/** A domain with the nodes of this YAML. */
const shop = (nodes: string): string => `domain: ${DOMAIN}\ndescriptors:\n${nodes}`;

function deciderFor(yaml: string, changes: Partial<Decider> = {}): Decider {
  const rules = rulesFrom(yaml);
  return deciderOf(rules, changes);
}

interface Extra {
  readonly hits?: number;
  readonly requestLimit?: RequestLimit;
}

/** `user=alice,path=/a` are two entries; a text without `=` has an empty value. */
function descriptor(text: string, { hits = 1, requestLimit }: Extra = {}): RequestDescriptor {
  const entries = text.split(',').map((entry) => {
    const [key = '', value = ''] = entry.split('=');
    return { key, value };
  });
  return { entries, requestLimit, hits };
}

/** Decides descriptors written as `user=alice`, or made with `descriptor`. */
const ask = async (decider: Decider, ...descriptors: readonly (string | RequestDescriptor)[]): Promise<Answer> =>
  decide(
    { domain: DOMAIN, descriptors: descriptors.map((one) => (typeof one === 'string' ? descriptor(one) : one)) },
    decider,
    1_000,
  );

/** An answer in short: each descriptor's code and what remains, or why it has none. */
const shown = ({ verdicts }: Answer): string[] =>
  verdicts.map((verdict) =>
    verdict.kind === 'limited' ? `${verdict.code} ${verdict.decision.limitRemaining}` : verdict.kind,
  );

/** A store that gives every hit the same answer, and records its calls. */
function stubStore(answer: Replies[number]) {
  const calls: { hits: readonly Operation[]; spend: Spend; timeoutMs: number }[] = [];
  const store = backendThat((hits, { spend, timeoutMs }) => {
    calls.push({ hits, spend, timeoutMs });
    return hits.map(() => answer);
  });
  return { store, calls };
}

const PASSED = {
  code: 'OK',
  hitsBefore: 0,
  limitRemaining: 1,
  durationUntilResetMs: 1_000,
  retryAfterMs: 0,
  delayMs: 0,
  soft: false,
} as const;

describe('a decision', () => {
  const rules = shop(`
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: path, value: /slow, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: host, rate_limit: { unlimited: true } }
  - { key: bare }`);

  test('answers the descriptors in order', async () => {
    const answer = await ask(deciderFor(rules), 'other=1', 'path=/slow', 'host=a', 'user=alice', 'bare=1', 'path=/');
    expect(shown(answer)).toEqual(['no_rule', 'OK 0', 'unlimited', 'OK 1', 'no_rule', 'no_rule']);
    expect(answer).toMatchObject({ overallCode: 'OK', shadowed: false });
  });

  test('is over the limit if one descriptor is', async () => {
    const decider = deciderFor(rules);
    await ask(decider, 'path=/slow');
    const answer = await ask(decider, 'user=alice', 'path=/slow');
    expect(shown(answer)).toEqual(['OK 1', 'OVER_LIMIT 0']);
    expect(answer.overallCode).toBe('OVER_LIMIT');
  });

  test('counts each descriptor by its own entries and hits', async () => {
    const decider = deciderFor(rules);
    const answer = await ask(decider, descriptor('user=alice', { hits: 2 }), 'user=bob', 'user=alice');
    expect(shown(answer)).toEqual(['OK 0', 'OK 1', 'OVER_LIMIT 0']);
    expect(answer.verdicts).toMatchObject([{ hits: 2 }, { hits: 1 }, { hits: 1, decision: { hitsBefore: 2 } }]);
  });

  test('names the rule and the limit that applied', async () => {
    const answer = await ask(deciderFor(rules), 'path=/slow');
    expect(answer.verdicts).toMatchObject([
      { rule: { path: 'shop.path_/slow' }, limit: { requestsPerUnit: 1 }, label: { unit: 'HOUR' } },
    ]);
  });

  test('is OK for a domain without rules', async () => {
    const { store, calls } = stubStore(PASSED);
    const request = { domain: 'elsewhere', descriptors: [descriptor('user=alice'), descriptor('path=/slow')] };
    const answer = await decide(request, deciderFor(rules, { ledger: ledgerOf(store) }), 1_000);
    expect(shown(answer)).toEqual(['no_domain', 'no_domain']);
    expect(answer.overallCode).toBe('OK');
    expect(calls).toEqual([]);
  });
});

describe('shadow mode', () => {
  const rules = shop(`
  - { key: shadow, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: rule, rate_limit: { unit: minute, requests_per_unit: 1 } }`);

  test('counts hits of a rule, and answers OK over its limit', async () => {
    const decider = deciderFor(rules);
    expect(shown(await ask(decider, 'shadow=1'))).toEqual(['OK 0']);
    const over = await ask(decider, 'shadow=1', 'rule=1');
    expect(over).toMatchObject({ overallCode: 'OK', shadowed: false });
    expect(over.verdicts).toMatchObject([
      { code: 'OK', decision: { code: 'OVER_LIMIT', hitsBefore: 1 } },
      { code: 'OK', decision: { code: 'OK' } },
    ]);
  });

  test('does not apply to other rules', async () => {
    const decider = deciderFor(rules);
    await ask(decider, 'rule=1');
    expect(await ask(decider, 'shadow=1', 'rule=1')).toMatchObject({ overallCode: 'OVER_LIMIT', shadowed: false });
  });

  test('changes only the overall code if set globally, and is reported', async () => {
    const decider = deciderFor(rules, { shadowMode: true });
    expect(await ask(decider, 'rule=1')).toMatchObject({ overallCode: 'OK', shadowed: false });
    const over = await ask(decider, 'rule=1');
    expect(over).toMatchObject({ overallCode: 'OK', shadowed: true });
    expect(shown(over)).toEqual(['OVER_LIMIT 0']);
  });
});

describe('quota rules', () => {
  const rules = shop(`
  - { key: spent_quota, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: shadow_quota, quota_mode: true, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: spent, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: healthy, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: free, rate_limit: { unlimited: true } }`);

  test.each([
    // the request, then the overall code: with quotas set by rules, and with every rule as a quota
    { asked: 'spent_quota quota', ordinarily: 'OK', quotaMode: 'OK' },
    { asked: 'quota spent_quota', ordinarily: 'OK', quotaMode: 'OK' },
    { asked: 'spent_quota spent_quota', ordinarily: 'OVER_LIMIT', quotaMode: 'OVER_LIMIT' },
    { asked: 'spent_quota', ordinarily: 'OVER_LIMIT', quotaMode: 'OVER_LIMIT' },
    { asked: 'spent_quota healthy', ordinarily: 'OVER_LIMIT', quotaMode: 'OK' },
    { asked: 'spent_quota unmatched', ordinarily: 'OVER_LIMIT', quotaMode: 'OK' },
    { asked: 'spent_quota free', ordinarily: 'OVER_LIMIT', quotaMode: 'OVER_LIMIT' },
    { asked: 'spent_quota shadow_quota', ordinarily: 'OK', quotaMode: 'OK' },
    { asked: 'spent quota', ordinarily: 'OVER_LIMIT', quotaMode: 'OK' },
    { asked: 'spent quota spent_quota', ordinarily: 'OVER_LIMIT', quotaMode: 'OK' },
    { asked: 'spent spent', ordinarily: 'OVER_LIMIT', quotaMode: 'OVER_LIMIT' },
    { asked: 'spent unmatched', ordinarily: 'OVER_LIMIT', quotaMode: 'OK' },
    { asked: 'quota healthy', ordinarily: 'OK', quotaMode: 'OK' },
    { asked: 'unmatched', ordinarily: 'OK', quotaMode: 'OK' },
    { asked: 'free', ordinarily: 'OK', quotaMode: 'OK' },
  ])('make $asked $ordinarily, and $quotaMode in quota mode', async ({ asked, ordinarily, quotaMode }) => {
    const descriptors = asked.split(' ');
    expect((await ask(deciderFor(rules), ...descriptors)).overallCode).toBe(ordinarily);
    expect((await ask(deciderFor(rules, { quotaMode: true }), ...descriptors)).overallCode).toBe(quotaMode);
  });

  test('are answered OVER_LIMIT each, even if the request passes', async () => {
    const answer = await ask(deciderFor(rules), 'spent_quota', 'quota');
    expect(shown(answer)).toEqual(['OVER_LIMIT 0', 'OK 8']);
  });
});

describe('replaces', () => {
  const rules = shop(`
  - { key: base, rate_limit: { name: base, unit: minute, requests_per_unit: 5 } }
  - { key: better, rate_limit: { replaces: [{ name: base }], unit: minute, requests_per_unit: 9 } }
`);

  test('does not count the limits that it replaces', async () => {
    const decider = deciderFor(rules);
    expect(shown(await ask(decider, descriptor('base', { hits: 5 }), 'better'))).toEqual(['no_rule', 'OK 8']);
    expect(shown(await ask(decider, 'base'))).toEqual(['OK 4']);
  });
});

describe('a request limit', () => {
  const rules = shop(`
  - { key: user, quota_mode: true, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: free, rate_limit: { unlimited: true } }`);
  const perMinute = { limit: ruleLimitOf(fixedWindowOf(2, 60_000)) };
  const perHour = { limit: ruleLimitOf(fixedWindowOf(10, 3_600_000)) };
  const invalid = { problem: 'descriptors[0].limit.unit must be a unit, got 0' };

  test.each(['user=alice', 'user=alice,path=/', 'free=1', 'unmatched=1'])(
    'is used instead of the rule of %s',
    async (text) => {
      const decider = deciderFor(rules);
      expect(shown(await ask(decider, descriptor(text, { requestLimit: perMinute, hits: 2 })))).toEqual(['OK 0']);
      const answer = await ask(decider, descriptor(text, { requestLimit: perMinute }));
      expect(shown(answer)).toEqual(['OVER_LIMIT 0']);
      expect(answer.overallCode).toBe('OVER_LIMIT');
    },
  );

  test('shares a counter with the rule of the same window, and not with other windows', async () => {
    const decider = deciderFor(rules);
    expect(shown(await ask(decider, 'user=alice'))).toEqual(['OK 4']);
    expect(shown(await ask(decider, descriptor('user=alice', { requestLimit: perHour })))).toEqual(['OK 9']);
    expect(shown(await ask(decider, descriptor('user=alice', { requestLimit: perMinute })))).toEqual(['OK 0']);
    expect(shown(await ask(decider, 'user=alice'))).toEqual(['OK 2']);
    expect(shown(await ask(decider, descriptor('user=alice', { requestLimit: perHour })))).toEqual(['OK 8']);
  });

  test('is ignored in a domain without rules, even if it is invalid', async () => {
    const descriptors = [
      descriptor('user=alice', { requestLimit: perMinute }),
      descriptor('user=alice', { requestLimit: invalid }),
    ];
    const answer = await decide({ domain: 'elsewhere', descriptors }, deciderFor(rules), 1_000);
    expect(shown(answer)).toEqual(['no_domain', 'no_domain']);
  });

  test('that is invalid is refused if the domain has rules, before anything is counted', async () => {
    const { store, calls } = stubStore(PASSED);
    const asked = ask(
      deciderFor(rules, { ledger: ledgerOf(store) }),
      'user=alice',
      descriptor('user=bob', { requestLimit: invalid }),
    );
    await expect(asked).rejects.toMatchObject({ name: 'InvalidRequest', message: invalid.problem });
    expect(calls).toEqual([]);
  });
});

test('an unlimited rule lets everything pass and counts nothing', async () => {
  const { store, calls } = stubStore(PASSED);
  const decider = deciderFor(shop('  - { key: free, rate_limit: { unlimited: true } }'), { ledger: ledgerOf(store) });
  const answer = await ask(decider, descriptor('free=1', { hits: 1_000_000 }));
  expect(answer).toMatchObject({ overallCode: 'OK', verdicts: [{ kind: 'unlimited', rule: { path: 'shop.free' } }] });
  expect(calls).toEqual([]);
});

test('values that share a threshold share a counter, also above a rule', async () => {
  const rules = shop(`
  - key: tenant
    value: 'eu-*'
    share_threshold: true
    descriptors:
      - { key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }`);
  const asked = ['tenant=eu-1,user=a', 'tenant=eu-2,user=a', 'tenant=eu-2,user=b'];
  expect(shown(await ask(deciderFor(rules), ...asked))).toEqual(['OK 4', 'OK 3', 'OK 4']);
});

describe('a request that cannot be decided', () => {
  const rules = shop('  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }');
  const noRules = { rules: () => undefined };

  test.each([
    { domain: '', asked: [], name: 'InvalidRequest', message: 'rate limit domain must not be empty' },
    { domain: DOMAIN, asked: [], name: 'InvalidRequest', message: 'rate limit descriptor list must not be empty' },
    { domain: DOMAIN, asked: ['user'], name: 'RulesNotLoaded', message: 'no rate limit configuration loaded' },
  ])('fails with the first reason: $message', async ({ domain, asked, name, message }) => {
    const request = { domain, descriptors: asked.map((text) => descriptor(text)) };
    const decided = async () => decide(request, deciderFor(rules, noRules), 1_000);
    await expect(decided()).rejects.toMatchObject({ name, message });
  });

  test('is not one with an empty descriptor, which matches nothing', async () => {
    expect(shown(await ask(deciderFor(rules), { entries: [], requestLimit: undefined, hits: 1 }))).toEqual(['no_rule']);
  });

  test('fails if one of its counters is unavailable', async () => {
    const store = backendThat(async () => [PASSED, { code: 'UNAVAILABLE', reason: 'gone' }]);
    await expect(
      ask(deciderFor(rules, { ledger: ledgerOf(store) }), 'user=a', descriptor('user=b', { hits: 3 })),
    ).rejects.toMatchObject({
      ...{ name: 'StoreUnavailable', message: 'gone' },
      domain: DOMAIN,
      matched: [
        { found: { kind: 'limited', levels: ['user'] }, hits: 1 },
        { found: { kind: 'limited', levels: ['user'] }, hits: 3 },
      ],
    });
  });
});

describe('the store', () => {
  const rules = shop('  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }');

  test("has the time that remains of the caller's deadline", async () => {
    const { store, calls } = stubStore(PASSED);
    const decider = deciderFor(rules, { ledger: ledgerOf(store), storeBudget: (callerMs) => callerMs / 2 });
    await decide({ domain: DOMAIN, descriptors: [descriptor('user=alice')] }, decider, 300);
    expect(calls).toMatchObject([{ timeoutMs: 150 }]);
  });

  test('is called once per request, with the descriptors that a limit applies to', async () => {
    const { store, calls } = stubStore(PASSED);
    const decider = deciderFor(rules, { ledger: ledgerOf(store), counters: ownCounters(createCounterKeys('weir:')) });
    await ask(decider, 'user=a', 'other=1', descriptor('user=b', { hits: -3 }));
    expect(calls).toMatchObject([
      {
        hits: [
          { key: 'weir:fixed_window.2|60000|4:shop|4:user|1:a', hits: 1 },
          { key: 'weir:fixed_window.2|60000|4:shop|4:user|1:b', kind: 'give_back', hits: 3 },
        ],
      },
    ]);
    expect(calls[0]?.hits).toHaveLength(2);
  });
});

describe('several limits on a node', () => {
  const rules = shop(`
  - key: user
    rate_limits:
      - { unit: minute, requests_per_unit: 3 }
      - { unit: hour, requests_per_unit: 5 }
      - { unit: minute, requests_per_unit: 9, algorithm: sliding_window_log }`);

  /** The remaining hits of each limit, by its own counter. */
  async function left(decider: Decider): Promise<(number | undefined)[]> {
    const limits = [...(decider.rules()?.rules ?? [])][0]?.limits ?? [];
    const entries = [{ key: 'user', value: 'a' }];
    const looks = limits.map((one) => {
      return createDebit(decider.counters(one.limit, DOMAIN, entries), one, 0, true);
    });
    const decisions = await decider.ledger.debit(looks, { spend: 'each', timeoutMs: 1 });
    return decisions.map((one) => ('limitRemaining' in one ? one.limitRemaining : undefined));
  }

  test('are all sent in one call, in the order of the file', async () => {
    const { store, calls } = stubStore(PASSED);
    await ask(deciderFor(rules, { ledger: ledgerOf(store) }), descriptor('user=a', { hits: 2 }), 'user=b');
    expect(calls).toHaveLength(1);
    expect(calls[0]?.hits.map(({ key, hits }) => [key.split('|').slice(0, 2).join('|'), hits])).toEqual([
      ['fixed_window.2|60000', 2],
      ['fixed_window.2|3600000', 2],
      ['sliding_window_log|60000', 2],
      ['fixed_window.2|60000', 1],
      ['fixed_window.2|3600000', 1],
      ['sliding_window_log|60000', 1],
    ]);
  });

  test('are all charged, and the tightest is reported', async () => {
    const clock = fakeClock();
    const store = createMemoryBackend(clock, { maxCounters: 100 });
    const decider = deciderFor(rules, { ledger: ledgerOf(store) });
    expect(shown(await ask(decider, descriptor('user=a', { hits: 2 }), 'user=b'))).toEqual(['OK 1', 'OK 2']);
    expect(await left(decider)).toEqual([1, 3, 7]);
    clock.advance(60_000);
    expect(shown(await ask(decider, descriptor('user=a', { hits: 2 })))).toEqual(['OK 1']); // 1 left in both: shows the first
    clock.advance(60_000);
    const refused = await ask(decider, descriptor('user=a', { hits: 2 }));
    expect(refused).toMatchObject({ overallCode: 'OVER_LIMIT', verdicts: [{ label: { unit: 'HOUR' } }] });
  });

  test.each([
    { spend: 'each', after: [0, 0, 8] },
    { spend: 'all_or_nothing', after: [2, 4, 8] },
    { spend: 'spare_others', after: [0, 4, 8] },
  ] as const)('spend $after if one of them refuses, with $spend', async ({ spend, after }) => {
    const decider = deciderFor(rules, { spend });
    await ask(decider, 'user=a');
    const answer = await ask(decider, descriptor('user=a', { hits: 4 }));
    expect(answer).toMatchObject({
      overallCode: 'OVER_LIMIT',
      verdicts: [{ label: { unitMultiplier: 1, unit: 'MINUTE' } }],
    });
    const [minute, hour, log] = await left(decider);
    expect([minute, hour]).toEqual(after.slice(0, 2));
    expect(log).toBe(spend === 'each' ? 4 : 8);
  });

  test.each([
    ['minute', 'hour'],
    ['hour', 'minute'],
  ])('are shown by the longest wait if all refuse (%s, %s)', async (...units) => {
    const limits = units.map((unit) => `{ unit: ${unit}, requests_per_unit: 1 }`);
    const decider = deciderFor(shop(`  - { key: user, rate_limits: [${limits}] }`));
    await ask(decider, descriptor('user=a', { hits: 2 }));
    expect(await ask(decider, descriptor('user=a', { hits: 0 }))).toMatchObject({
      overallCode: 'OVER_LIMIT',
      verdicts: [{ label: { unit: 'HOUR' } }],
    });
  });
});

describe('what a refused request spends', () => {
  const nodes = `
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: spent, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: shadow, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }`;

  test.each([
    { ofDomain: undefined, byDefault: 'each', spend: 'each' },
    { ofDomain: undefined, byDefault: 'spare_others', spend: 'spare_others' },
    { ofDomain: 'all_or_nothing', byDefault: 'each', spend: 'all_or_nothing' },
    { ofDomain: 'each', byDefault: 'all_or_nothing', spend: 'each' },
  ] as const)('is $spend if its domain sets $ofDomain and the service $byDefault', async (row) => {
    const { store, calls } = stubStore(PASSED);
    const yaml = row.ofDomain ? `spend: ${row.ofDomain}\n${shop(nodes)}` : shop(nodes);
    await ask(deciderFor(yaml, { ledger: ledgerOf(store), spend: row.byDefault }), 'user=a');
    expect(calls).toMatchObject([{ spend: row.spend }]);
  });

  test.each([
    { asked: 'spent', quotaMode: false, blocks: true },
    { asked: 'spent', quotaMode: true, blocks: false },
    { asked: 'shadow', quotaMode: false, blocks: false },
    { asked: 'quota', quotaMode: false, blocks: false },
  ])('is decided for $asked: $blocks, with quota mode $quotaMode', async ({ asked, quotaMode, blocks }) => {
    const { store, calls } = stubStore(PASSED);
    await ask(deciderFor(shop(nodes), { ledger: ledgerOf(store), quotaMode }), asked);
    expect(calls[0]?.hits).toMatchObject([{ blocks }]);
    const decider = deciderFor(shop(nodes), { quotaMode, spend: 'all_or_nothing' });
    await ask(decider, asked, 'user=a');
    expect(shown(await ask(decider, descriptor('user=a', { hits: 0 })))).toEqual([blocks ? 'OK 9' : 'OK 8']);
  });
});

test('global shadow mode neither blocks nor delays requests', async () => {
  const rules = shop(`
  - { key: slow, rate_limit: { algorithm: leaky_bucket, unit: second, requests_per_unit: 1, max_delay: 3s } }
  - { key: full, rate_limit: { unit: minute, requests_per_unit: 0 } }`);
  const decider = deciderFor(rules, { shadowMode: true, spend: 'all_or_nothing' });
  const patient = (...texts: string[]) =>
    decide({ domain: DOMAIN, descriptors: texts.map((text) => descriptor(text)) }, decider, 60_000);
  expect(await patient('slow', 'full')).toMatchObject({ overallCode: 'OK', shadowed: true, delayMs: 0 });
  const turn = { code: 'OK', decision: { delayMs: 1_000 } };
  expect(await patient('slow')).toMatchObject({ overallCode: 'OK', shadowed: false, delayMs: 0, verdicts: [turn] });
});

test('a rule in shadow mode does not delay requests', async () => {
  const slow = 'rate_limit: { algorithm: leaky_bucket, unit: second, requests_per_unit: 1, max_delay: 3s }';
  const decider = deciderFor(shop(`  - { key: shadow, shadow_mode: true, ${slow} }\n  - { key: slow, ${slow} }`));
  const patient = (...texts: string[]) =>
    decide({ domain: DOMAIN, descriptors: texts.map((text) => descriptor(text)) }, decider, 60_000);
  await patient('shadow', 'shadow');
  const held = await patient('shadow', 'slow');
  expect(held).toMatchObject({
    delayMs: 0,
    verdicts: [{ decision: { delayMs: 2_000 } }, { decision: { delayMs: 0 } }],
  });
  expect(await patient('shadow', 'slow')).toMatchObject({ delayMs: 1_000 });
});

test('a flagged limit is tighter than an unflagged one, regardless of the remaining hits', async () => {
  const flagged = { ...PASSED, soft: true, limitRemaining: 5 };
  const rules = shop(`
  - key: user
    rate_limits:
      - { unit: minute, requests_per_unit: 3 }
      - { unit: hour, requests_per_unit: 5, soft: 1 }`);
  const store = backendThat(() => [PASSED, flagged]);
  expect((await ask(deciderFor(rules, { ledger: ledgerOf(store) }), 'user=a')).verdicts).toMatchObject([
    { label: { unit: 'HOUR' }, decision: { soft: true } },
  ]);
});

describe('a delayed request', () => {
  const rules = shop(`
  - { key: slow, rate_limit: { algorithm: leaky_bucket, unit: second, requests_per_unit: 1, max_delay: 3s } }
  - { key: fast, rate_limit: { algorithm: token_bucket, unit: second, requests_per_unit: 2, burst: 1, max_delay: 3s } }
  - { key: full, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unit: minute, requests_per_unit: 9 } }`);
  const asked = (decider: Decider, callerTimeoutMs: number, ...texts: string[]) =>
    decide({ domain: DOMAIN, descriptors: texts.map((text) => descriptor(text)) }, decider, callerTimeoutMs);

  test('waits for the longest delay of its limits', async () => {
    const decider = deciderFor(rules);
    const delays = async (...texts: string[]) => (await asked(decider, 60_000, ...texts)).delayMs;
    expect(await delays('slow', 'fast', 'free')).toBe(0);
    expect(await delays('fast', 'slow', 'free')).toBe(1_000);
    expect(await delays('slow', 'fast')).toBe(2_000);
    expect(await delays('free')).toBe(0);
    expect(await delays('fast')).toBe(1_500);
  });

  test('does not wait if another limit refuses it', async () => {
    const decider = deciderFor(rules);
    await asked(decider, 60_000, 'slow');
    const answer = await asked(decider, 60_000, 'slow', 'full');
    expect(answer).toMatchObject({ overallCode: 'OVER_LIMIT', delayMs: 0 });
  });

  test.each([
    { leftMs: 1_005, code: 'OK', delayMs: 1_000 },
    { leftMs: 1_005.9, code: 'OK', delayMs: 1_000 },
    { leftMs: 1_004.9, code: 'OVER_LIMIT', delayMs: 0 },
    { leftMs: 3, code: 'OVER_LIMIT', delayMs: 0 },
    { leftMs: Number.POSITIVE_INFINITY, code: 'OK', delayMs: 1_000 },
  ])('a second later is $code for a caller that waits $leftMs ms', async ({ leftMs, code, delayMs }) => {
    const decider = deciderFor(rules);
    await asked(decider, 60_000, 'slow');
    expect(await asked(decider, leftMs, 'slow')).toMatchObject({ overallCode: code, delayMs });
    const turns = code === 'OK' ? 2_000 : 1_000; // no turn is reserved for a caller that has gone
    expect(await asked(decider, 60_000, 'slow')).toMatchObject({ delayMs: turns });
  });
});

describe('modes of a limit', () => {
  const limits = (...written: string[]) =>
    shop(`  - key: user\n    rate_limits:\n${written.map((one) => `      - { ${one} }\n`).join('')}`);
  const DAY = 'unit: day, requests_per_unit: 2';
  const TRIAL = 'name: trial, unit: hour, requests_per_unit: 1, shadow_mode: true';
  const twice = async (decider: Decider, ...descriptors: readonly string[]) => {
    await ask(decider, ...descriptors);
    return ask(decider, ...descriptors);
  };

  test('a limit in shadow mode beside another one counts, but never refuses and is never shown', async () => {
    const decider = deciderFor(limits(TRIAL, DAY));
    const answer = await twice(decider, 'user=alice');
    expect(answer.overallCode).toBe('OK');
    expect(shown(answer)).toEqual(['OK 0']); // of the day's limit
    const [verdict] = answer.verdicts;
    const refusals = verdict?.kind === 'limited' ? verdict.shadowRefusals : undefined;
    expect(refusals).toMatchObject([{ label: { name: 'trial' }, decision: { code: 'OVER_LIMIT', hitsBefore: 1 } }]);
    expect((await ask(decider, 'user=alice')).overallCode).toBe('OVER_LIMIT'); // by the day's limit
  });

  test('a limit in shadow mode does not keep the other limits of its request from being charged, for any spend', async () => {
    const decider = deciderFor(limits(TRIAL, DAY), { spend: 'all_or_nothing' });
    expect(shown(await twice(decider, 'user=alice'))).toEqual(['OK 0']);
  });

  test("a limit's own shadow_mode and quota_mode take precedence over the node's", async () => {
    const node = '  - key: user\n    shadow_mode: true\n    quota_mode: true\n';
    const own = 'unit: day, requests_per_unit: 0, shadow_mode: false, quota_mode: false';
    const enforced = deciderFor(shop(`${node}    rate_limits: [{ ${own} }]\n`));
    expect((await ask(enforced, 'user=alice')).overallCode).toBe('OVER_LIMIT');
    const inherited = deciderFor(shop(`${node}    rate_limit: { unit: day, requests_per_unit: 0 }\n`));
    expect((await ask(inherited, 'user=alice')).overallCode).toBe('OK');
  });

  test('a quota beside an ordinary limit refuses only together with all other quotas, but the ordinary limit refuses alone', async () => {
    const quota = 'unit: hour, requests_per_unit: 1, quota_mode: true';
    const other = '  - { key: path, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }\n';
    const decider = deciderFor(limits(quota, DAY) + other);
    expect((await ask(decider, 'user=alice', 'path=a')).overallCode).toBe('OK');
    expect((await ask(decider, 'user=alice', 'path=b')).overallCode).toBe('OK'); // a quota is left
    expect((await ask(decider, 'user=alice', 'path=c')).overallCode).toBe('OVER_LIMIT'); // the day's limit is exceeded
    await ask(decider, 'user=bob', 'path=a');
    expect((await ask(decider, 'user=bob', 'path=a')).overallCode).toBe('OVER_LIMIT'); // no quota is left
  });
});

test('an override applies until its end', async () => {
  const clock = fakeClock();
  const overrides = new Overrides(clock, () => 60_000);
  const eve = descriptor('user=eve');
  overrides.replace([
    {
      domain: DOMAIN,
      entries: eve.entries,
      effect: { kind: 'block' },
      untilMs: clock() + 1_000,
      by: 'admin',
      reason: 'abuse',
    },
  ]);
  const decider = deciderFor(shop('  - {key: user, rate_limit: {unit: minute, requests_per_unit: 9}}'), {
    overrides,
    clock,
  });
  clock.advance(999);
  expect(await ask(decider, eve)).toMatchObject({ overallCode: 'OVER_LIMIT', retryAfterMs: 1 });
  clock.advance(1);
  expect(shown(await ask(decider, eve))).toEqual(['OK 8']);
});

test.each([
  ['a block', { kind: 'block' }, ['OVER_LIMIT 0', 'OK 8']],
  ['a limit', { kind: 'limit', requestsPerUnit: 3, unit: 'MINUTE' }, ['OK 2', 'OK 8']],
] as const)(
  '%s by an operator applies to a descriptor whose rule another one of the request replaces',
  async (_, effect, expected) => {
    const clock = fakeClock();
    const overrides = new Overrides(clock, () => 60_000);
    const { entries } = descriptor('user=eve');
    const nodes = `  - {key: user, rate_limit: {name: base, unit: minute, requests_per_unit: 9}}
  - {key: plan, rate_limit: {replaces: [{name: base}], unit: minute, requests_per_unit: 9}}`;
    const decider = deciderFor(shop(nodes), { overrides, clock });
    expect(shown(await ask(decider, 'user=eve', 'plan=gold'))).toEqual(['no_rule', 'OK 8']);
    overrides.replace([{ domain: DOMAIN, entries, effect, untilMs: clock() + 9_000, by: 'admin', reason: 'abuse' }]);
    expect(shown(await ask(decider, 'user=eve', 'plan=silver'))).toEqual(expected);
    expect(shown(await ask(decider, 'user=ann', 'plan=silver'))).toEqual(['no_rule', 'OK 7']);
  },
);

test('a block by an operator refuses in quota mode, beside quotas with room', async () => {
  const clock = fakeClock();
  const overrides = new Overrides(clock, () => 60_000);
  const { entries } = descriptor('user=eve');
  const untilMs = clock() + 9_000;
  overrides.replace([{ domain: DOMAIN, entries, effect: { kind: 'block' }, untilMs, by: 'admin', reason: 'abuse' }]);
  const nodes = ['user', 'path'].map((key) => `  - {key: ${key}, rate_limit: {unit: minute, requests_per_unit: 9}}`);
  const decider = deciderFor(shop(nodes.join('\n')), { overrides, clock, quotaMode: true });
  expect(await ask(decider, 'user=eve', 'path=/')).toMatchObject({ overallCode: 'OVER_LIMIT', retryAfterMs: 9_000 });
  expect((await ask(decider, 'user=ann', 'path=/')).overallCode).toBe('OK');
});
