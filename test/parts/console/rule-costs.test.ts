import '../../helpers/realm.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRuleCounts } from '../../../src/operate/observe/rule-counts.ts';
import { RuleCosts } from '../../../src/parts/console/rule-costs.ts';
import { send } from '../../helpers/console.ts';
import { startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir } from '../../helpers/weir.ts';

test('a rule costs what its counts grew by in the last whole minute, the costliest first', () => {
  const counts = createRuleCounts(10_000);
  const user = counts.of('demo', ['user'], 'fixed_window', 'by_rule');
  const path = counts.of('demo', ['path'], 'token_bucket', 'by_rule');
  const named = counts.of('demo', ['user_ann'], 'fixed_window', 'by_levels');
  const costs = new RuleCosts();
  const pass = (seconds: number): void => {
    for (let second = 0; second < seconds; second++) costs.gather(counts.all());
  };
  Object.assign(user, { storeOperations: 100, storeMs: 50, storeBytes: 1_000 });
  pass(1);
  Object.assign(user, { storeOperations: 110, storeMs: 55, storeBytes: 1_100 });
  Object.assign(path, { storeOperations: 2, storeMs: 40, storeBytes: 20 });
  named.storeOperations = 5;
  pass(60);
  expect(costs.last).toEqual([
    { rule: 'demo.path', operations: 2, ms: 40, bytes: 20 },
    { rule: 'demo.user', operations: 10, ms: 5, bytes: 100 },
  ]);
  pass(60);
  expect(costs.last).toEqual([]);
});

test('metrics have the store calls of each rule, and their durations', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'costs-'));
  const rules = join(folder, 'rules.yaml');
  writeFileSync(
    rules,
    'domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 5 } }, { key: idle, rate_limit: { unit: year, requests_per_unit: 5 } }]\n',
  );
  const redis = await startRedis();
  const weir = await startWeir({ REDIS_URL: redis.url, USE_STATSD: 'false' }, { args: ['--rules', rules] });
  const numberIn = (page: string, series: RegExp): number => Number(series.exec(page)?.[1] ?? 0);
  try {
    let page = '';
    await until('a call was measured', async () => {
      await send(weir, 'demo', [['user', 'ann']]);
      page = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
      return numberIn(page, /weir_rule_store_operations_total\{domain="demo",rule="user",.*\} (\d+)/) > 0;
    });
    expect(numberIn(page, /weir_rule_store_bytes_total\{domain="demo",rule="user",.*\} (\d+)/)).toBeGreaterThan(0);
    expect(numberIn(page, /weir_rule_store_operations_total\{domain="demo",rule="idle",.*\} (\d+)/)).toBe(0);
    expect(numberIn(page, /weir_store_call_duration_seconds_count (\d+)/)).toBeGreaterThanOrEqual(16);
  } finally {
    await weir.stop();
    await redis.stop();
    rmSync(folder, { recursive: true });
  }
});
