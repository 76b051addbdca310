import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Item, type List, parseList } from 'structured-headers';
import { decodeRequest } from '../../../src/edge/wire/codec.ts';
import { type Decision, NEVER_MS, unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Answer, Verdict } from '../../../src/engine/decide/decide.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { algorithmFor, type Limit } from '../../../src/engine/holds/limits.ts';
import type { Rule } from '../../../src/engine/rules/match/tree.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import {
  anyLimit,
  fixedWindowOf,
  inFlightOf,
  leakyBucketOf,
  ruleLimitOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import { ruleOf, rulesFrom } from '../../helpers/rules.ts';

const place = { file: 'rules.yaml', line: 1 };
const NOW_MS = fakeClock()();

/** The decision on `hits` hits on a new counter after `before` hits. */
function decisionOf(limit: Limit, before: number, hits: number): Decision {
  const { step, describe } = algorithmFor(limit);
  const counted = before > 0 ? step(limit, undefined, NOW_MS, before, true).state : undefined;
  const { accepted, state, report } = step(limit, counted, NOW_MS, hits, true);
  return describe(limit, report ?? state, NOW_MS, { hits, accepted, charged: true });
}

/** A verdict with these limits of one rule; the first is shown. */
function verdictOf(rule: Rule, decisions: readonly Decision[], shadow = false): Verdict {
  const policy = shadow ? { shadow: true as const } : {};
  const applied = rule.limits.map((one, at) => ({
    ...one,
    policy,
    decision: decisions[at] as Decision, // one for each limit
  }));
  const [shown] = applied;
  if (!shown) return { kind: 'no_rule' };
  const code = shadow ? 'OK' : shown.decision.code;
  const several = applied.length > 1 ? applied : undefined;
  return {
    kind: 'limited',
    rule,
    levels: rule.levels,
    found: { entries: [] },
    ...shown,
    hits: 1,
    code,
    applied: several,
  };
}

const answerOf = (verdicts: readonly Verdict[]): Answer => {
  const isRefused = verdicts.some((verdict) => verdict.kind === 'limited' && verdict.code === 'OVER_LIMIT');
  return { overallCode: isRefused ? 'OVER_LIMIT' : 'OK', verdicts, shadowed: false, delayMs: 0 };
};

const { headers: ietfHeaders } = extrasOf({ ietf: true, soft: '' });

/** Both header fields of an answer; empty without headers. */
const fieldsOf = (answer: Answer): Readonly<Record<string, string>> =>
  Object.fromEntries(ietfHeaders(answer).map(({ key, value }) => [key, value]));

const one = (limit: Limit, hits = 1, changes: Partial<Rule> = {}) => {
  const rule = ruleOf({ path: 'demo.user', place, limits: [ruleLimitOf(limit)], ...changes });
  return fieldsOf(answerOf([verdictOf(rule, [decisionOf(limit, 0, hits)])]));
};

describe('an independent parser of structured fields reads both fields', () => {
  const anyName = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.constantFrom('demo.user', 'demo.User', 'demo.user#2', 'standard', '"\\%', 'x'.repeat(500), '\ud800'),
  );
  const anyRule = fc
    .record({
      path: anyName,
      name: fc.option(anyName, { nil: '' }),
      limits: fc.array(anyLimit, { minLength: 1, maxLength: 3 }),
      isOfRequest: fc.boolean(),
    })
    .map(({ path, name, limits, isOfRequest }) =>
      ruleOf({
        path: `demo.${path}`,
        place: isOfRequest ? undefined : place,
        limits: limits.map((limit, at) => ruleLimitOf(limit, { name: at === 0 ? name : '' })),
      }),
    );
  const anyVerdict: fc.Arbitrary<Verdict> = fc.oneof(
    { weight: 1, arbitrary: fc.constantFrom<Verdict>({ kind: 'no_rule' }, { kind: 'unlimited', rule: ruleOf() }) },
    {
      weight: 9,
      arbitrary: fc.record({ rule: anyRule, before: fc.nat(20), hits: fc.nat(3), shadow: fc.boolean() }).map((any) => {
        const { rule, before, hits, shadow } = any;
        const decisions = rule.limits.map(({ limit }) => decisionOf(limit, before, hits));
        return verdictOf(rule, decisions, shadow);
      }),
    },
  );
  const { headers: retryAfter } = extrasOf({ retryAfter: ['Retry-After'], soft: '' });

  const read = (field: string): List => parseList(field);
  const isInteger = (value: unknown, least: number): boolean => Number.isInteger(value) && Number(value) >= least;

  test('with the parameters that the draft defines, a policy once, and each current value with its policy', () => {
    fc.assert(
      fc.property(fc.array(anyVerdict, { maxLength: 12 }), (verdicts) => {
        const fields = fieldsOf(answerOf(verdicts));
        const blocking = verdicts.filter((verdict) => verdict.kind === 'limited' && !verdict.policy.shadow);
        if (blocking.length === 0) return expect(fields).toEqual({});
        const policies = read(fields['RateLimit-Policy'] ?? '') as Item[]; // no inner lists, which the next line checks
        const current = read(fields.RateLimit ?? '') as Item[];
        for (const [name] of [...policies, ...current]) expect(typeof name).toBe('string');
        const names = policies.map(([name]) => String(name).toLowerCase());
        expect(new Set(names).size).toBe(names.length);
        expect(current.map(([name]) => String(name).toLowerCase())).toEqual(names);
        for (const [at, [, parameters]] of policies.entries()) {
          const { q, w, qu, ...others } = Object.fromEntries(parameters);
          expect(others).toEqual({});
          expect(isInteger(q, 0)).toBe(true);
          expect(w === undefined || (qu === undefined && isInteger(w, 1))).toBe(true); // no window: slots, allocations
          expect([undefined, 'concurrent-requests']).toContain(qu);
          const { r, t, ...more } = Object.fromEntries(current[at]?.[1] ?? []);
          expect(more).toEqual({});
          expect(isInteger(r, 0) && Number(r) <= Number(q)).toBe(true);
          expect(t === undefined || isInteger(t, 0)).toBe(true);
        }
        for (const field of Object.values(fields)) expect(field.length).toBeLessThanOrEqual(4_096);
      }),
      { numRuns: 100 },
    );
  });

  test('with times of at most Retry-After if the request is refused', () => {
    fc.assert(
      fc.property(fc.array(anyVerdict, { minLength: 1, maxLength: 6 }), (verdicts) => {
        const answer = answerOf(verdicts);
        const [header] = retryAfter(answer);
        if (!header) return;
        for (const [, parameters] of read(fieldsOf(answer).RateLimit ?? '') as Item[])
          expect(Number(parameters.get('t') ?? 0)).toBeLessThanOrEqual(Number(header.value));
      }),
    );
  });

  test('with the same policies regardless of spent hits', () => {
    fc.assert(
      fc.property(fc.array(anyRule, { minLength: 1, maxLength: 4 }), fc.nat(20), (rules, before) => {
        const policyAfter = (spent: number) =>
          fieldsOf(
            answerOf(
              rules.map((rule) =>
                verdictOf(
                  rule,
                  rule.limits.map(({ limit }) => decisionOf(limit, spent, 1)),
                ),
              ),
            ),
          )['RateLimit-Policy'];
        expect(policyAfter(before)).toBe(policyAfter(0));
      }),
    );
  });
});

test('the fields have the limit, its window, the remaining hits and the time until there are more', () => {
  expect(one(fixedWindowOf(100))).toEqual({
    'RateLimit-Policy': '"demo.user";q=100;w=60',
    RateLimit: '"demo.user";r=99;t=40',
  });
});

test.each<[string, Limit, string]>([
  ['is the end of a fixed window', fixedWindowOf(2), 'r=1;t=40'],
  ['is that of the next token', tokenBucketOf(120), 'r=119;t=1'],
  ['is at most that until a bucket is full', tokenBucketOf(1, unitMs.MINUTE, { burst: 5 }), 'r=1;t=60'],
  ['is that of the next drop that leaks', leakyBucketOf(6), 'r=0;t=10'],
  ['is until a sliding window is empty', slidingWindowLogOf(5), 'r=4;t=60'],
  ['is unknown for slots', inFlightOf(5), 'r=4'],
])('the time until there are more %s', (_, limit, expected) => {
  expect(one(limit).RateLimit).toBe(`"demo.user";${expected}`);
});

test('slots are shown as concurrent requests without a window', () => {
  expect(one(inFlightOf(5))['RateLimit-Policy']).toBe('"demo.user";q=5;qu="concurrent-requests"');
});

test('a window of less than a second, or of a part, is rounded up', () => {
  expect(one(fixedWindowOf(5, 100))['RateLimit-Policy']).toBe('"demo.user";q=5;w=1');
  expect(one(fixedWindowOf(5, 1_500))['RateLimit-Policy']).toBe('"demo.user";q=5;w=2');
});

test('a request that can never pass has no time', () => {
  expect(decisionOf(fixedWindowOf(3), 0, 5).retryAfterMs).toBe(NEVER_MS);
  expect(one(fixedWindowOf(3), 5).RateLimit).toBe('"demo.user";r=0');
});

test('after a refusal, only limits that refuse have a time', () => {
  const verdictAfter = (path: string, before: number) => {
    const limit = slidingWindowLogOf(5, unitMs.MINUTE);
    const decision = decisionOf(limit, before, 1);
    return { verdict: verdictOf(ruleOf({ path, place, limits: [ruleLimitOf(limit)] }), [decision]), decision };
  };
  const [passed, refused] = [verdictAfter('demo.user', 1), verdictAfter('demo.path', 5)];
  const answer = answerOf([passed.verdict, refused.verdict]);
  const fields = fieldsOf({ ...answer, retryAfterMs: refused.decision.retryAfterMs });
  expect(fields.RateLimit).toBe('"demo.user";r=3, "demo.path";r=0;t=60');
});

describe('policies are named', () => {
  const named = (limits: readonly Limit[], changes: Partial<Rule> = {}, name = '') => {
    const rule = ruleOf({
      path: 'demo.user',
      place,
      limits: limits.map((limit, at) => ruleLimitOf(limit, { name: at === 0 ? name : '' })),
      ...changes,
    });
    return verdictOf(
      rule,
      limits.map((limit) => decisionOf(limit, 0, 1)),
    );
  };
  const namesIn = (...verdicts: readonly Verdict[]) =>
    (parseList(fieldsOf(answerOf(verdicts))['RateLimit-Policy'] ?? '') as Item[]).map(([name]) => name);

  test.each<[string, readonly Verdict[], readonly string[]]>([
    ['by the path of the rule', [named([fixedWindowOf(5)])], ['demo.user']],
    ['by the name of the limit', [named([fixedWindowOf(5)], {}, 'per-user')], ['per-user']],
    [
      'by the place of the limit, if the rule has several',
      [named([fixedWindowOf(5), tokenBucketOf(9, unitMs.HOUR), fixedWindowOf(2, unitMs.DAY)])],
      ['demo.user', 'demo.user#2', 'demo.user#3'],
    ],
    [
      'once for two descriptors of the same rule',
      [named([fixedWindowOf(5)]), named([fixedWindowOf(5)])],
      ['demo.user'],
    ],
    [
      'apart if their numbers differ under one name',
      [named([fixedWindowOf(5)], {}, 'standard'), named([fixedWindowOf(6)], { path: 'demo.path' }, 'Standard')],
      ['standard', 'Standard#2'],
    ],
    [
      'without what the caller sent, if the limit came with the request',
      [named([fixedWindowOf(5)], { place: undefined, path: 'demo.user_alice' })],
      ['demo#request'],
    ],
    ['in ASCII', [named([fixedWindowOf(5)], { path: 'demo.größe_"5%"' })], ['demo.gr%C3%B6%C3%9Fe_"5%25"']],
  ])('%s', (_, verdicts, names) => {
    expect(namesIn(...verdicts)).toEqual(names);
  });
});

test('two descriptors of the same rule are one item, for the one nearest to its limit', () => {
  const rule = ruleOf({ path: 'demo.user', place, limits: [ruleLimitOf(fixedWindowOf(5))] });
  const verdicts = [0, 3, 1].map((before) => verdictOf(rule, [decisionOf(fixedWindowOf(5), before, 1)]));
  expect(fieldsOf(answerOf(verdicts)).RateLimit).toBe('"demo.user";r=1;t=40');
});

test('limits in shadow mode are not shown', () => {
  const rule = ruleOf({ path: 'demo.user', place, limits: [ruleLimitOf(fixedWindowOf(5))] });
  expect(fieldsOf(answerOf([verdictOf(rule, [decisionOf(fixedWindowOf(5), 0, 1)], true)]))).toEqual({});
});

test('fields end before they are too long', () => {
  const verdicts = Array.from({ length: 200 }, (_, at) => {
    const rule = ruleOf({ path: `demo.${'x'.repeat(90)}${at}`, place, limits: [ruleLimitOf(fixedWindowOf(5))] });
    return verdictOf(rule, [decisionOf(fixedWindowOf(5), 0, 1)]);
  });
  const fields = fieldsOf(answerOf(verdicts));
  const [policies, current] = Object.values(fields).map((field) => parseList(field));
  expect(policies?.length).toBe(current?.length);
  expect(policies?.length).toBeGreaterThan(30);
  expect(policies?.length).toBeLessThan(50);
});

test('all limits of a request are shown, including several of one rule and those of several descriptors', async () => {
  const rules = rulesFrom(`
domain: demo
descriptors:
  - key: user
    rate_limits:
      - {name: burst, unit: second, requests_per_unit: 5}
      - {name: daily, unit: day, requests_per_unit: 1000, algorithm: token_bucket}
  - {key: path, value: /login, rate_limit: {unit: minute, requests_per_unit: 30}}
`);
  const request = decodeRequest({
    domain: 'demo',
    descriptors: ['user', 'path', 'other'].map((key) => ({
      ...{ entries: [{ key, value: '/login' }], limit: null, hits_addend: null, is_negative_hits: false },
    })),
    hits_addend: 1,
  });
  const fields = fieldsOf(await decide(request, deciderOf(rules, { reportsEveryLimit: true }), 1_000));
  expect(fields).toEqual({
    'RateLimit-Policy': '"burst";q=5;w=1, "daily";q=1000;w=86400, "demo.path_/login";q=30;w=60',
    RateLimit: '"burst";r=4;t=1, "daily";r=999;t=87, "demo.path_/login";r=29;t=40',
  });
  const page = readFileSync(join(__dirname, '../../../docs/headers.md'), 'utf8');
  for (const [name, value] of Object.entries(fields)) expect(page).toContain(`\n${name}: ${value}\n`);
  const tightest = fieldsOf(await decide(request, deciderOf(rules), 1_000));
  expect(tightest['RateLimit-Policy']).toBe('"burst";q=5;w=1, "demo.path_/login";q=30;w=60');
});
