import '../../helpers/realm.ts';
import { TooCostly } from '../../../src/base/request-work.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { createDecisionLog } from '../../../src/parts/decision-log/decision-log.ts';
import { explain } from '../../../src/parts/explain/explain.ts';
import { findRules } from '../../../src/parts/find/methods.ts';
import { countedRules } from '../../helpers/counted-rules.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { almostMatching, MAX_MATCH_UNITS, patternRules } from '../../helpers/patterns.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { mostStepsInATurn } from '../../helpers/turns.ts';

const VALUES = 2_000;
const DESCRIPTORS = 64;

const rules = rulesFrom(
  `domain: shop\ndescriptors:\n${Array.from(
    { length: VALUES },
    (_, at) => `  - {key: user, value: customer-number-${at}, rate_limit: {unit: hour, requests_per_unit: 10}}\n`,
  ).join('')}`,
);

/** Descriptors that match no rule. */
const unmatched: WireRequest = {
  domain: 'shop',
  descriptors: Array.from({ length: DESCRIPTORS }, (_, at) => ({
    ...{ entries: [{ key: 'user', value: `custamor-nunber-${at}` }], limit: null, hits_addend: null },
    is_negative_hits: false,
  })),
  hits_addend: 0,
};

test('the rules nearest to many descriptors are found with the work of one search', () => {
  let visited = 0;
  const { found } = findRules(
    countedRules(rules, () => visited++),
    unmatched,
    () => {},
  );
  expect(found[0]?.explanation).toContain('the nearest is shop.user_customer-number-');
  expect(found).toHaveLength(DESCRIPTORS);
  expect(visited).toBeLessThanOrEqual(2_000 + DESCRIPTORS);
});

describe('the search of Find for patterns', () => {
  const searched = rulesFrom(`domain: shop\ndescriptors:\n${patternRules(100)}`);
  let units: number;
  const find = (...entries: readonly (readonly [key: string, value: string])[]) => {
    units = 0;
    const sent = entries.map(([key, value]) => ({ key, value }));
    const descriptor = { entries: sent, limit: null, hits_addend: null, is_negative_hits: false };
    const request = { domain: 'shop', descriptors: [descriptor], hits_addend: 0 };
    return findRules(searched, request, (more) => {
      units += more;
    });
  };

  test('is charged to the turn of the call', () => {
    expect(find(['path', almostMatching(100)]).found[0]?.explanation).toContain('has no rule for the value');
    expect(units).toBeGreaterThan(99);
  });

  test('refuses the call if it costs too much', () => {
    expect(() => find(['path', almostMatching(1_000)])).toThrow(TooCostly);
    expect(units).toBeLessThanOrEqual(MAX_MATCH_UNITS);
  });

  test('tries other orders of the entries only as long as it does not cost too much', () => {
    const others = ['a', 'b', 'c', 'd'].map((key) => [key, ''] as const);
    const { found } = find(['path', almostMatching(200)], ...others);
    expect(found[0]?.explanation).toContain('has no rule for the value');
    expect(units).toBeGreaterThan(MAX_MATCH_UNITS);
    expect(units).toBeLessThanOrEqual(2 * MAX_MATCH_UNITS);
  });
});

test('a logged decision compares a few texts, for any number of descriptors', async () => {
  let visited = 0;
  const tree = countedRules(rules, () => visited++);
  const decider = deciderOf(tree);
  const decisions: object[] = [];
  const log = createDecisionLog({
    ...{ rules: () => tree, counters: decider.counters, debug: undefined, decisions: 'all', maxPerSecond: 10 },
    log: (decision) => void decisions.push(decision),
    onDropped: () => {},
    monotonicMs: () => 0,
    random: () => 0.5,
  });
  const descriptors = unmatched.descriptors.map(({ entries }) => ({ entries, requestLimit: undefined, hits: 1 }));
  const answer = await decide({ domain: 'shop', descriptors }, decider, 1_000);
  visited = 0;
  log?.(unmatched, answer);
  expect(decisions).toHaveLength(1);
  expect(visited).toBeLessThanOrEqual(1_000);
});

test('descriptors of an explained request are compared with the rules one per turn, each with all rules', async () => {
  const extras = extrasOf({ limits: undefined, retryAfter: [] }, { ofRequest: true });
  const most = await mostStepsInATurn(async (step) => {
    const decider = { ...deciderOf(countedRules(rules, step)) };
    const explained = await explain(unmatched, { decider: decider as never, extras });
    for (const { stopped } of explained.descriptors)
      expect(stopped?.nearest[0]?.rule).toContain('shop.user_customer-number-');
  });
  expect(most).toBeLessThanOrEqual(3 * VALUES);
});
