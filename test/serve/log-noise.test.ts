import '../helpers/realm.ts';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startAdministered } from '../helpers/administered.ts';
import { startRedis } from '../helpers/redis.ts';
import { eventually } from '../helpers/until.ts';

const RULES = 'domain: demo\ndescriptors:\n  - { key: user, rate_limit: { unit: year, requests_per_unit: 2 } }\n';

test('work that fails while Redis hangs is logged when that begins and when it ends, without stacks', async () => {
  const redis = await startRedis();
  const USAGE_DIR = join(mkdtempSync(join(tmpdir(), 'noise-')), 'usage');
  const weir = await startAdministered(RULES, { REDIS_URL: redis.url, WORKERS: '2', USAGE_DIR, USAGE_INTERVAL: '1s' });
  const { output } = weir.weir;
  const count = (text: string | RegExp): number => output().split(text).length - 1;
  try {
    await redis.pause();
    await eventually(() => count('collecting usage is failing') > 0, output, 15_000);
    await weir.call('GET', '/api/v1/overrides');
    await weir.call('GET', '/api/v1/audit');
    await redis.resume();
    await eventually(() => count('collecting usage works again') > 0, output, 15_000);
    expect(count('collecting usage is failing')).toBe(1);
    expect(count(/\n {4}at /)).toBe(0);
  } finally {
    await weir.stop();
    await redis.stop();
  }
});
