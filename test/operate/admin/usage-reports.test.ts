import { usageOperations } from '../../../src/operate/admin/usage-operations.ts';
import type { UsageReport } from '../../../src/operate/usage/usage-store.ts';

const report: UsageReport = { rows: [], more: 0, hits: 0, spent: {} };

test('a sixth usage report at once is refused with 429, and another one is made when one is done', async () => {
  const ends: (() => void)[] = [];
  const usage = { report: () => new Promise<UsageReport>((resolve) => ends.push(() => resolve(report))) };
  const options = { usage, clock: () => 0 } as unknown as Parameters<typeof usageOperations>[0];
  const operation = usageOperations(options).find(({ method, path }) => method === 'GET' && path.endsWith('/usage'));
  const ask = async () => operation?.answer({ query: {} } as Parameters<typeof operation.answer>[0]);
  const asked = Array.from({ length: 5 }, ask);
  await expect(ask()).rejects.toMatchObject({ status: 429 });
  ends[0]?.();
  expect(await asked[0]).toMatchObject({ hits: 0 });
  const sixth = ask();
  for (const end of ends) end();
  expect(await Promise.all([...asked, sixth])).toHaveLength(6);
});
