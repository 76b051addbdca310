import { parseList } from 'structured-headers';
import type { Decision, DescriptorDecision } from '../../client/src/index.ts';
import { fieldsOf, violatedPolicies } from '../../client/src/middleware/headers.ts';
import fc from '../helpers/property.ts';

const count = fc.integer({ min: 0, max: 0xffff_ffff });
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const name = optional(fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }));

const states = fc.record({
  ok: fc.boolean(),
  rule: name,
  name,
  limit: optional(count),
  windowMs: optional(fc.integer({ min: 1, max: 100 * 365 * 86_400_000 })),
  remaining: optional(count),
  resetMs: optional(count),
  retryAfterMs: optional(count),
});

const decisionOf = (descriptors: readonly DescriptorDecision[], changes: Partial<Decision> = {}): Decision => ({
  ok: descriptors.every(({ ok }) => ok),
  limited: true,
  because: undefined,
  rule: undefined,
  name: undefined,
  limit: undefined,
  windowMs: undefined,
  remaining: undefined,
  resetMs: undefined,
  retryAfterMs: undefined,
  ...descriptors.find(({ ok }) => !ok),
  delayMs: 0,
  source: 'backend',
  descriptors,
  wouldRefuse: [],
  headers: [],
  error: undefined,
  ...changes,
});

test('RateLimit and RateLimit-Policy are structured fields that describe the same limits', () => {
  fc.assert(
    fc.property(fc.array(states, { maxLength: 4 }), (descriptors) => {
      const fields = new Map(fieldsOf(decisionOf(descriptors), 'ietf'));
      const limited = descriptors.filter(({ limit }) => limit !== undefined);
      expect(fields.has('RateLimit')).toBe(limited.length > 0);
      const policies = parseList(fields.get('RateLimit-Policy') ?? '');
      const current = parseList(fields.get('RateLimit') ?? '');
      expect(policies.length).toBeLessThanOrEqual(limited.length);
      for (const [at, [, parameters]] of policies.entries()) {
        const own = limited.filter(({ limit }) => limit === parameters.get('q'));
        expect(own.map(({ remaining }) => remaining ?? 0)).toContain(current[at]?.[1].get('r'));
      }
      expect(new Set(policies.map(([, parameters]) => parameters.get('q')))).toEqual(
        new Set(limited.map(({ limit }) => limit)),
      );
      const names = policies.map(([item]) => item);
      expect(current.map(([item]) => item)).toEqual(names);
      expect(new Set(names).size).toBe(names.length);
      for (const [, parameters] of policies) expect(parameters.get('w') ?? 1).toBeGreaterThan(0);
    }),
  );
});

test('a refusal names its limits, and its wait is at least that of the field', () => {
  const limits = { rule: 'demo.user', limit: 5, windowMs: 60_000, remaining: 0, resetMs: 30_000 };
  const refused = { ...limits, ok: false, name: 'per-user', retryAfterMs: 12_001 };
  const passed = { ...limits, ok: true, name: undefined, remaining: 7, retryAfterMs: undefined };
  const decision = decisionOf([refused, passed]);
  expect(fieldsOf(decision, 'both')).toEqual([
    ['RateLimit-Policy', '"per-user";q=5;w=60, "demo.user";q=5;w=60'],
    ['RateLimit', '"per-user";r=0;t=13, "demo.user";r=7'],
    ['X-RateLimit-Limit', '5'],
    ['X-RateLimit-Remaining', '0'],
    ['X-RateLimit-Reset', '30'],
    ['Retry-After', '13'],
  ]);
  expect(violatedPolicies(decision)).toEqual(['per-user']);
});

test('descriptors with the same policy are one item, and different policies have different names', () => {
  const state = { ok: true, name: 'free', rule: 'demo.user', limit: 5, windowMs: 60_000, resetMs: 30_000 };
  const descriptors = [
    { ...state, remaining: 4, retryAfterMs: undefined },
    { ...state, remaining: 2, retryAfterMs: undefined },
    { ...state, rule: 'demo.ä%', limit: 9, remaining: 3, retryAfterMs: undefined },
    { ...state, name: undefined, rule: 'demo.ä%', remaining: 1, retryAfterMs: undefined },
  ];
  expect(fieldsOf(decisionOf(descriptors), 'ietf')).toEqual([
    ['RateLimit-Policy', '"free";q=5;w=60, "free#2";q=9;w=60, "demo.%C3%A4%25";q=5;w=60'],
    ['RateLimit', '"free";r=2;t=30, "free#2";r=3;t=30, "demo.%C3%A4%25";r=1;t=30'],
  ]);
});

test("headers of the service replace the client's own, unless a response cannot have them", () => {
  const limits = { ok: true, rule: 'demo.user', name: undefined, limit: 5, windowMs: 60_000, remaining: 4 };
  const state = { ...limits, resetMs: 30_000, retryAfterMs: undefined };
  const headers = [
    { key: 'RateLimit', value: '"a";r=4' },
    { key: 'x-ratelimit-limit', value: '5' },
    { key: 'x-soft', value: 'demo.\u0442' },
    { key: 'not a name', value: 'x' },
  ];
  expect(fieldsOf(decisionOf([state], { headers }), 'both')).toEqual([
    ['RateLimit', '"a";r=4'],
    ['x-ratelimit-limit', '5'],
  ]);
});

test('no field asks for a wait that the timers of clients cannot express', () => {
  const yearMs = 365 * 86_400_000;
  const limits = { rule: 'demo.user', name: undefined, limit: 5, windowMs: yearMs, remaining: 0 };
  const fields = fieldsOf(decisionOf([{ ...limits, ok: false, resetMs: yearMs, retryAfterMs: yearMs }]), 'both');
  const seconds = String(24 * 86_400);
  expect(Object.fromEntries(fields)).toMatchObject({
    RateLimit: `"demo.user";r=0;t=${seconds}`,
    'X-RateLimit-Reset': seconds,
    'Retry-After': seconds,
  });
});
