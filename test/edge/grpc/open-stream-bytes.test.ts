import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const script = fileURLToPath(new URL('processes/open-stream-bytes.ts', import.meta.url));

/** Measured in a process of its own: how much V8 takes for an object depends on what the process has done before. */
test('an open stream of a side service takes less memory than it is charged', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', script]);
  const costs = Object.entries<{ heap: number; charged: number }>(JSON.parse(stdout));
  expect(costs.map(([kind]) => kind)).toEqual(['watch', 'watch of a long name', 'reflection']);
  for (const [, { heap, charged }] of costs) {
    expect(heap).toBeGreaterThan(0);
    expect(heap).toBeLessThan(charged);
  }
});
