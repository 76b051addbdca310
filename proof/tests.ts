import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { newestNode } from '../test/helpers/tools.ts';
import type { Proof } from './proof.ts';

/** Long enough on a starved machine for tests that set no timeout. */
const STARVED_TIMEOUT_MS = 900_000;

/** The tests of `npm test` beside one busy process for each core. Arguments go to jest. */
export const starved: Proof = {
  usage: `Usage: npm run proof -- starved [JEST_ARGUMENTS]

Runs the tests of npm test beside one busy process for each core: a test that depends on a fast machine fails.
Takes several times as long as npm test.
`,
  async run(args) {
    const busy = Array.from({ length: availableParallelism() }, () =>
      spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
    );
    await runJest(process.execPath, [`--testTimeout=${STARVED_TIMEOUT_MS}`, ...args], { TESTS: 'short' });
    for (const child of busy) child.kill();
  },
};

/** The tests, and the service in them, on the newest Node with long-term support. Arguments go to jest. */
export const onNewestNode: Proof = {
  usage: `Usage: npm run proof -- newest-node [JEST_ARGUMENTS]

Runs the tests, and the service in them, on the newest Node with long-term support, which is downloaded once.
`,
  async run(args) {
    await runJest(await newestNode(), args);
  },
};

async function runJest(node: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<void> {
  const jest = spawn(node, ['node_modules/.bin/jest', ...args], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...process.env, ...env },
    stdio: 'inherit',
  });
  const [code] = await once(jest, 'exit');
  process.exitCode = code ?? 1;
}
