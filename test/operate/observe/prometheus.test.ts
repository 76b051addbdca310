import '../../helpers/realm.ts';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { createMetrics } from '../../../src/operate/observe/prometheus.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';
import type { InstanceFacts } from '../../../src/operate/observe/table.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';

import { parseExposition } from '../../helpers/exposition.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { idle } from '../../helpers/metrics.ts';

import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: shop
descriptors:
  - key: user
    rate_limits:
      - { name: day, unit: day, requests_per_unit: 10 }
      - { name: trial, window: 90s, requests_per_unit: 2, shadow_mode: true }
  - { key: path, rate_limit: { unit: second, requests_per_unit: 5, algorithm: token_bucket } }
  - { key: each, detailed_metric: true, rate_limit: { unit: second, requests_per_unit: 5 } }
`);

/** The samples of a page with this prefix, after `times` requests of user=alice. */
async function samples(prefix: string, times = 0, facts: Partial<InstanceFacts> = {}): Promise<Record<string, number>> {
  const statistics = createStatistics(0.8);
  const metrics = createMetrics(statistics);
  const decider = deciderOf(rules);
  for (let sent = 0; sent < times; sent++) {
    const descriptors = [{ entries: [{ key: 'user', value: 'alice' }], requestLimit: undefined, hits: 1 }];
    statistics.answered('shop', await decide({ domain: 'shop', descriptors }, decider, 1_000));
  }
  const all = [...parseExposition(String(metrics.render({ ...idle, rules, ...facts }).body)).values()].flatMap(
    (metric) => [...metric.samples],
  );
  return Object.fromEntries(all.filter(([series]) => series.startsWith(prefix)));
}

test('each limit is a gauge with its rule, its window in seconds, and whether it is in shadow mode', async () => {
  const of = (rule: string, algorithm: string, name: string, window: string, shadow = 'false') =>
    `weir_rule_limit{domain="shop",rule="${rule}",algorithm="${algorithm}",name="${name}",window="${window}",shadow="${shadow}"}`;
  expect(await samples('weir_rule_limit')).toEqual({
    [of('user', 'fixed_window', 'day', '86400')]: 10,
    [of('user', 'fixed_window', 'trial', '90', 'true')]: 2,
    [of('path', 'token_bucket', '', '1')]: 5,
    [of('each', 'fixed_window', '', '1')]: 5,
  });
});

test('rules without hits are reported once with 0, except those whose names depend on the request', async () => {
  const user = 'weir_hits_total{domain="shop",rule="user",algorithm="fixed_window"}';
  const path = 'weir_hits_total{domain="shop",rule="path",algorithm="token_bucket"}';
  expect(await samples('weir_hits_total')).toEqual({ [user]: 0, [path]: 0 });
  expect(await samples('weir_hits_total', 3)).toEqual({ [user]: 3, [path]: 0 });
  expect(await samples('weir_domain_answers_total')).toEqual({
    'weir_domain_answers_total{domain="shop",code="OK"}': 0,
    'weir_domain_answers_total{domain="shop",code="OVER_LIMIT"}': 0,
  });
});

test('the highest share of a limit is that of its fullest counter, including hits beyond the limit', async () => {
  const share = 'weir_rule_highest_share{domain="shop",rule="user",algorithm="fixed_window"}';
  expect(await samples('weir_rule_highest_share', 7)).toEqual({ [share]: 0.7 });
  expect(await samples('weir_rule_highest_share', 12)).toEqual({ [share]: 1.1 }); // it was at 11 before the last one
});

test('an adaptive limit has its last slots and hold times in seconds, and other limits have none', async () => {
  const adaptive = rulesFrom(`
domain: shop
descriptors:
  - key: service
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { algorithm: in_flight, ttl: 30s, adapt: { min: 5, window: 1s } } }
  - key: tenant
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { algorithm: in_flight, ttl: 30s, requests_per_unit: 5 } }
`);
  const statistics = createStatistics(0.8);
  const clock = fakeClock(1_000);
  const ledger = ledgerOf(createMemoryBackend(clock, { maxCounters: 10 }));
  const decider = deciderOf(adaptive, { ledger, clock });
  const ask = async (key: string, id: number, hits: number, nowMs: number) => {
    clock.set(nowMs);
    const entries = [
      { key, value: 'a' },
      { key: 'id', value: String(id) },
    ];
    const descriptors = [{ entries, requestLimit: undefined, hits }];
    statistics.answered('shop', await decide({ domain: 'shop', descriptors }, decider, nowMs));
  };
  const shown = () =>
    [...parseExposition(String(createMetrics(statistics).render({ ...idle, rules: adaptive }).body)).values()]
      .flatMap(({ samples }) => [...samples])
      .filter(([series]) => series.startsWith('weir_adaptive_'));
  await ask('tenant', 1, 1, 1_000);
  expect(shown()).toEqual([]);
  for (let at = 0; at < 20; at++) {
    await ask('service', at, 1, 1_000 + 40 * at);
    if (at > 0) await ask('service', at - 1, -1, 1_020 + 40 * at);
  }
  await ask('service', 20, 1, 2_000);
  const labels = '{domain="shop",rule="service.id",algorithm="in_flight"}';
  expect(Object.fromEntries(shown())).toEqual({
    [`weir_adaptive_limit_slots${labels}`]: 5,
    [`weir_adaptive_held_slots${labels}`]: 2,
    [`weir_adaptive_hold_time_seconds${labels}`]: 0.06,
    [`weir_adaptive_baseline_seconds${labels}`]: 0.06,
  });
});

test('a limit in shadow mode beside the shown one counts the hits that it would have refused', async () => {
  const labels = '{domain="shop",rule="user",algorithm="fixed_window"}';
  expect(await samples('weir_hits_shadowed_total{domain="shop",rule="user"', 5)).toEqual({
    [`weir_hits_shadowed_total${labels}`]: 3,
  });
});

test('a store that is down is 0, regardless of its other states', async () => {
  const store = { isUp: false, reason: 'down', latencyMs: 2, lastSuccessAtMs: 1_500 };
  expect(await samples('weir_store_', 0, { store })).toMatchObject({
    weir_store_up: 0,
    weir_store_latency_seconds: 0.002,
    weir_store_last_success_timestamp_seconds: 1.5,
  });
});

test('the first page has no statistics of event loop delays that have not been measured', async () => {
  const body = String(createMetrics(createStatistics(0.8)).render(idle).body);
  expect(body).toContain('# TYPE nodejs_eventloop_lag_min_seconds gauge\n');
  expect(body).not.toMatch(/^nodejs_eventloop_lag_(min|mean|stddev)/m);
  expect([...body.matchAll(/ (\S*(?:Na[nN]|Inf)|9223372036\S*)$/gm)]).toEqual([]);
});

test('metrics of the process have the names, types and labels of those of prom-client', async () => {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const shapeOf = (text: string) =>
    Object.fromEntries(
      Array.from(parseExposition(text), ([name, { type, samples }]) => {
        const labels = [...samples.keys()].flatMap((series) =>
          [...series.matchAll(/(\w+)="/g)].map(([, label]) => label),
        );
        return [name, { type, labels: /_active_|_gc_/.test(name) ? [] : [...new Set(labels)] }] as const; // which ones there are changes
      }),
    );
  const ours = shapeOf(String(createMetrics(createStatistics(0.8)).render(idle).body));
  expect(ours).toMatchObject(shapeOf(await registry.metrics()));
});
