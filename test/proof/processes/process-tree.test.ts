import { readUsage } from '../../../proof/processes/process-tree.ts';
import { start } from '../../helpers/process.ts';
import { until } from '../../helpers/until.ts';

/** Sleeps while its child is busy, for ten seconds at most, so that no process is left behind. */
const PARENT = `
const { spawn } = require('node:child_process');
const child = spawn(process.execPath, ['-e', 'const endMs = Date.now() + 10_000; while (Date.now() < endMs);']);
process.on('SIGTERM', () => { child.kill('SIGKILL'); process.exit(); });
console.log('started');
`;

test('the usage of a process includes its child processes', async () => {
  const parent = await start(process.execPath, ['-e', PARENT]);
  try {
    await parent.waitFor('started');
    const { cpuMs, memoryBytes } = readUsage(parent.pid);
    expect(memoryBytes).toBeGreaterThan(1024 * 1024);
    await until('half a second of CPU time', () => readUsage(parent.pid).cpuMs >= cpuMs + 500);
  } finally {
    await parent.stop();
  }
});

test('a process that does not exist is an error', () => {
  expect(() => readUsage(2 ** 30)).toThrow(`there is no process ${2 ** 30}`);
});
