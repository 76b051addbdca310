import { join, resolve } from 'node:path';
import { run } from '../../../proof/processes/run-program.ts';

const PROJECT = resolve(__dirname, '../../..');
const LIMIT_MS = 120_000;

const quotas = (...args: readonly string[]): Promise<string> =>
  run(process.execPath, ['--import', 'tsx', join(PROJECT, 'proof/run.ts'), 'quotas', ...args], {
    cwd: PROJECT,
    limitMs: LIMIT_MS,
  });

test(
  'npm run proof -- quotas --buckets prints the cost of reports, with shares in memory and in Redis',
  async () => {
    const printed = await quotas('--buckets', '400', '--streams', '4', '--seconds', '6');
    for (const [store, redis] of [
      ['memory', ''],
      ['Redis', String.raw`[\d.]+ %`],
    ])
      expect(printed).toMatch(
        new RegExp(`^\\| ${store} \\| 400 \\| 4 \\|( \\d+ \\|){3} [\\d.]+ % \\| ${redis} \\| \\d+ \\|$`, 'm'),
      );
  },
  LIMIT_MS,
);

test('npm run proof -- quotas refuses more buckets than proxies may have', async () => {
  await expect(quotas('--buckets', '10001', '--streams', '1')).rejects.toThrow('--buckets must be at most 10000');
});
