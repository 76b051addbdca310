import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createClient } from '../../client/src/index.ts';
import { closeAll, listen, openClient, RULES, startService } from './service.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const MAX_RUN_MS = 120_000;

afterEach(closeAll);

/** Runs a program in a separate process, which can be killed even in a busy loop. */
async function runProgram(program: string): Promise<string> {
  const args = ['--import', 'tsx', '--input-type', 'module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: PROJECT, timeout: MAX_RUN_MS });
  return stdout;
}

test('a client that is closed at once settles its calls, and lets the process end', async () => {
  const program = `
    import { createClient } from './client/src/index.ts';
    const client = createClient({ target: '127.0.0.1:1' });
    client.limit('demo', { user: 'a' }).then(({ error }) => console.log(error.kind));
    setImmediate(() => client.close());`;
  expect(await runProgram(program)).toBe('closed\n');
});

test.each(['127.0.0.1:1', 'https://127.0.0.1:1'])(
  'a client of %s with an unusable certificate is not created',
  (target) => {
    const tls = { cert: 'a certificate without its key' };
    expect(() => createClient({ target: ['http://127.0.0.1:1', target], tls })).toThrow(`${target} cannot be called: `);
  },
);

test('a client is ready as soon as its first server is', async () => {
  const { grpc } = await startService(RULES);
  const port = await listen(createServer(() => {}));
  const client = await openClient({ target: [`http://127.0.0.1:${port}`, grpc] }, { isUp: false });
  expect(await client.ready({ timeoutMs: 600_000 })).toBe(true); // longer than the test's timeout
});
