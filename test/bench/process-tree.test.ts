import { setTimeout as sleep } from 'node:timers/promises';
import { usageOf } from '../../bench/process-tree.ts';
import { start } from '../helpers/process.ts';

/** Sleeps, while a child of its own is busy: for ten seconds at most, so that none is left behind. */
const PARENT = `
const { spawn } = require('node:child_process');
const child = spawn(process.execPath, ['-e', 'const endMs = Date.now() + 10_000; while (Date.now() < endMs);']);
process.on('SIGTERM', () => { child.kill('SIGKILL'); process.exit(); });
console.log('started');
`;

test('counts what the children of a process use', async () => {
  const parent = await start(process.execPath, ['-e', PARENT]);
  try {
    await parent.waitFor('started');
    const { cpuMs, memoryBytes } = usageOf(parent.pid);
    expect(memoryBytes).toBeGreaterThan(1024 * 1024);
    while (usageOf(parent.pid).cpuMs < cpuMs + 500) await sleep(25);
  } finally {
    await parent.stop();
  }
});

test('says that there is no such process', () => {
  expect(() => usageOf(2 ** 30)).toThrow(`there is no process ${2 ** 30}`);
});
