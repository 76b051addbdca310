import '../../helpers/realm.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { type Decider, decide } from '../../../src/engine/decide/decide.ts';
import { createDecisionLog } from '../../../src/parts/decision-log/decision-log.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { overridesFor } from '../../helpers/overrides.ts';
import { rulesFrom } from '../../helpers/rules.ts';

type DecisionLogOptions = Parameters<typeof createDecisionLog>[0];

const rules = rulesFrom(`
domain: shop
descriptors:
  - key: user
    rate_limits:
      - { unit: day, requests_per_unit: 2 }
      - { unit: hour, requests_per_unit: 1, shadow_mode: true }
  - { key: free, rate_limit: { name: base, unit: day, requests_per_unit: 5 } }
  - { key: paid, rate_limit: { unit: day, requests_per_unit: 9, replaces: [{ name: base }] } }
`);

const request = (domain: string, ...keys: readonly string[]): WireRequest => ({
  domain,
  descriptors: keys.map((key) => ({
    ...{ entries: [{ key, value: 'a' }], limit: null, hits_addend: null, is_negative_hits: false },
  })),
  hits_addend: 0,
});

/** Logs `times` equal requests. @returns the written lines */
async function logged(
  wire: WireRequest,
  times: number,
  options: Partial<DecisionLogOptions>,
  decider: Decider = deciderOf(rules),
) {
  const lines: string[] = [];
  const decisions: object[] = [];
  let dropped = 0;
  const log = createDecisionLog({
    rules: () => rules,
    counters: ownCounters(createCounterKeys('')),
    debug: { debug: (line: string) => void lines.push(line) } as unknown as DecisionLogOptions['debug'], // the only method that it uses
    decisions: 'all',
    log: (decision) => void decisions.push(decision),
    maxPerSecond: 100,
    onDropped: (count) => {
      dropped += count;
    },
    monotonicMs: () => 0,
    random: () => 0.5,
    ...options,
  });
  const descriptors = wire.descriptors.map(({ entries }) => ({ entries, requestLimit: undefined, hits: 1 }));
  for (let sent = 0; sent < times; sent++) {
    const answer = await decide({ domain: wire.domain, descriptors }, decider, 1_000);
    log?.(wire, answer);
  }
  return { lines, decisions, dropped, isOff: log === undefined };
}

test('nothing is called if neither decisions nor debug lines are enabled', async () => {
  expect((await logged(request('shop', 'user'), 1, { decisions: 'off', debug: undefined })).isOff).toBe(true);
});

test('a limit in shadow mode is named if it would have refused', async () => {
  const { lines, decisions } = await logged(request('shop', 'user'), 2, {});
  expect(lines[0]).not.toContain('shadow_mode');
  expect(lines[1]).toMatch(/: OK, 1 hit, 0 remaining; 1 per hour would refuse, but for shadow_mode$/);
  const would_refuse = [{ descriptor: 0, rule: 'shop.user', limit: '1 per hour', reason: 'shadow' }];
  expect(decisions[1]).toMatchObject({ code: 'OK', would_refuse, descriptors: [{ limit: '2 per day' }] });
  expect(decisions[0]).not.toHaveProperty('would_refuse');
});

test('the key is that of the counter, also of an override whose rule has one counter for several values', async () => {
  const tree = rulesFrom(`
domain: shop
descriptors:
  - { key: user, value: a*, share_threshold: true, rate_limit: { unit: day, requests_per_unit: 5 } }
`);
  const { entries } = request('shop', 'user').descriptors[0] ?? { entries: [] };
  const keys: string[] = [];
  const { ledger, ...others } = deciderOf(tree, { overrides: overridesFor('shop', entries) });
  const debit: Decider['ledger']['debit'] = (debits, how) => {
    keys.push(...debits.map(({ key }) => key));
    return ledger.debit(debits, how);
  };
  const options = { rules: () => tree };
  const { lines, decisions } = await logged(request('shop', 'user'), 1, options, { ...others, ledger: { debit } });
  expect(decisions).toMatchObject([{ descriptors: [{ key: keys[0], limit: '1 per minute' }] }]);
  expect(lines[0]).toContain(`key ${keys[0]}: OK`);
});

test('a descriptor that an override exempts is told from one of an unlimited rule', async () => {
  const overrides = overridesFor('shop', [{ key: 'free', value: 'a' }], { kind: 'exempt' });
  const { lines } = await logged(request('shop', 'free'), 1, {}, deciderOf(rules, { overrides }));
  expect(lines[0]).toMatch(/: descriptor is exempt by an override from rule shop\.free \(rules\.yaml:\d+\)$/);
});

test('a replaced rule is marked, and an unknown domain is logged with the existing ones', async () => {
  const { lines } = await logged(request('shop', 'free', 'paid'), 1, {});
  expect(lines[0]).toMatch(
    /no limits applied: rule shop\.free \(rules\.yaml:\d+\), which another rule of the request replaces$/,
  );
  const { decisions } = await logged(request('nope', 'user'), 1, {});
  expect(decisions).toMatchObject([
    { descriptors: [{ none: "no rules have the domain 'nope'; the nearest is 'shop'" }] },
  ]);
});

test.each([
  ['refused', 3, 1],
  ['all', 3, 3],
  [0.4, 3, 0],
  [0.6, 3, 3],
] as const)('the setting %s, for %d requests with the last one refused, logs %d', async (decisions, times, count) => {
  expect((await logged(request('shop', 'user'), times, { decisions })).decisions).toHaveLength(count);
});

test('decisions beyond the limit per second are dropped and counted', async () => {
  const { decisions, dropped } = await logged(request('shop', 'user'), 5, { maxPerSecond: 2 });
  expect([decisions.length, dropped]).toEqual([2, 3]);
  let nowMs = 0;
  const later = await logged(request('shop', 'user'), 5, { maxPerSecond: 2, monotonicMs: () => (nowMs += 500) });
  expect(later.dropped).toBe(0); // two in each second
});
