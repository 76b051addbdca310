import { join, resolve } from 'node:path';
import { readRestUsage } from '../../../proof/bench/at-rest/usage.ts';
import { run as runRest } from '../../../proof/bench/rest.ts';
import { run } from '../../../proof/processes/run-program.ts';
import { start } from '../../helpers/process.ts';

const PROJECT = resolve(__dirname, '../../..');
const LIMIT_MS = 300_000;

test(
  'npm run proof -- rest prints a line for each way to run the service, the cost of connections, and the size of the package',
  async () => {
    const program = ['--import', 'tsx', join(PROJECT, 'proof/run.ts'), 'rest'];
    const smallest = ['--starts', '1', '--seconds', '1', '--connections', '50', '--rounds', '1'];
    const printed = await run(process.execPath, [...program, ...smallest], { cwd: PROJECT, limitMs: LIMIT_MS });
    const number = String.raw`\d+(\.\d+)?`;
    for (const name of ['Weir, memory', 'Weir, Redis', 'Weir, Redis, WORKERS=2'])
      expect(printed).toMatch(
        new RegExp(`^\\| ${name} \\|( ${number} \\|){6}( ${number} % \\|){2} ${number} \\|$`, 'm'),
      );
    expect(printed).toMatch(new RegExp(`^\\| Weir, memory \\|( -?${number} \\|){4}$`, 'm')); // idle connections
    expect(printed).toMatch(new RegExp(`^\\| Weir, memory \\|( ${number} \\|){6}$`, 'm')); // arriving ones
    expect(printed).toMatch(/^The npm package: [\d.]+ MB packed, [\d.]+ MB installed, 1 package$/m);
  },
  LIMIT_MS,
);

test.each([
  ['--starts', 'many', "--starts must be a whole number above 0, got 'many'"],
  ['--only', 'memory', "--only must be idle, connections, package, got 'memory'"],
])('npm run proof -- rest refuses %s %s', async (option, value, problem) => {
  await expect(runRest([option, value])).rejects.toThrow(problem);
});

/** Starts an idle child, and ends it when it is ended itself. */
const PARENT = `
const child = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6); console.log("started")'], { stdio: 'inherit' });
process.on('SIGTERM', () => { child.kill('SIGKILL'); process.exit(); });
`;

test('file pages that two processes of a service share are counted once', async () => {
  const parent = await start(process.execPath, ['-e', PARENT]);
  try {
    await parent.waitFor('started');
    const { residentBytes, togetherBytes, proportionalBytes, cpuNs, wakeUps } = readRestUsage(parent.pid);
    expect(togetherBytes).toBeLessThan(residentBytes);
    expect(proportionalBytes).toBeGreaterThan(0);
    expect(proportionalBytes).toBeLessThan(residentBytes);
    expect(togetherBytes).toBeGreaterThan(residentBytes / 2);
    expect(cpuNs).toBeGreaterThan(0);
    expect(wakeUps).toBeGreaterThan(0);
  } finally {
    await parent.stop();
  }
});
