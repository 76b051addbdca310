import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { showHelp } from '../proof/bench/usage.ts';
import { newestNode } from './helpers/tools.ts';

showHelp(`Usage: npm run test:newest-node [-- JEST_ARGUMENTS]

Runs the tests, and the service in them, on the newest Node with long-term support, which is downloaded once.
`);

/** Runs the tests, and the service in them, on the newest Node with long-term support. Arguments go to jest. */
const jest = spawn(await newestNode(), ['node_modules/.bin/jest', ...process.argv.slice(2)], {
  cwd: fileURLToPath(new URL('..', import.meta.url)),
  stdio: 'inherit',
});
jest.once('exit', (code) => {
  process.exitCode = code ?? 1;
});
