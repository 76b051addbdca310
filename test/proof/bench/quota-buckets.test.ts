import '../../helpers/realm.ts';
import { measureBuckets } from '../../../proof/bench/quota-buckets.ts';
import { run } from '../../../proof/bench/quotas.ts';

test('the cost of reports is measured with shares in memory and in Redis', async () => {
  const table = await measureBuckets({ buckets: 400, streams: 4, seconds: 2, reportSeconds: 1 });
  for (const [store, redis] of [
    ['memory', ''],
    ['Redis', String.raw`[\d.]+ %`],
  ])
    expect(table).toMatch(
      new RegExp(`^\\| ${store} \\| 400 \\| 4 \\|( [1-9]\\d* \\|){3} [\\d.]+ % \\| ${redis} \\| \\d+ \\|$`, 'm'),
    );
});

test('npm run proof -- quotas refuses more buckets than proxies may have', async () => {
  await expect(run(['--buckets', '10001', '--streams', '1'])).rejects.toThrow('--buckets must be at most 10000');
});
