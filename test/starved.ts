import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { showHelp } from '../proof/bench/usage.ts';

showHelp(`Usage: npm run test:starved [-- JEST_ARGUMENTS]

Runs the tests beside one busy process for each core: a test that depends on a fast machine fails.
Takes several times as long as npm test.
`);

/** The timeout of tests that set none: many take minutes here. */
const TEST_TIMEOUT_MS = 900_000;

/**
 * Runs the tests beside one busy process per core, so that tests which depend on a fast machine fail. Arguments go to
 * jest.
 */
const busy = Array.from({ length: availableParallelism() }, () =>
  spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
);
const jest = spawn('npx', ['jest', `--testTimeout=${TEST_TIMEOUT_MS}`, ...process.argv.slice(2)], {
  cwd: fileURLToPath(new URL('..', import.meta.url)),
  env: { ...process.env, TESTS: 'starved' },
  stdio: 'inherit',
});
jest.once('exit', (code) => {
  for (const child of busy) child.kill();
  process.exitCode = code ?? 1;
});
