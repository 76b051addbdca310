import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const KIB = 1_024;
const script = fileURLToPath(new URL('processes/connection-bytes.ts', import.meta.url));

/** Measured in a separate process, since the size of an object in V8 depends on the process's earlier work. */
test('an idle connection that has made a call takes less than 6 KiB of heap above a bare socket', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', script]);
  const { bareBytes, callerBytes } = JSON.parse(stdout);
  expect(bareBytes).toBeGreaterThan(0);
  expect(callerBytes - bareBytes).toBeGreaterThan(0);
  expect(callerBytes - bareBytes).toBeLessThan(6 * KIB);
});
