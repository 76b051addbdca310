import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startEnvoy } from '../helpers/envoy.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const TOKEN = 'a token';

const page = readFileSync(join(PROJECT, 'docs/why-refused.md'), 'utf8');
/** Each command of the page with the output that the page shows. */
const shown = new Map(
  Array.from(
    page.matchAll(/```sh\nnpx weir (\w+)([^\n]*)\n```\n\n```text\n(.*?)```/gs),
    ([, command = '', args = '', printed = '']) => [command, { args, printed }],
  ),
);

/** The text without times and the identity of rules, which differ from run to run. */
const lasting = (text: string): string =>
  text.replace(/\d+(\.\d+)? (s|ms)\b/g, '… s').replace(/^rules \S+/gm, 'rules …');

async function runShown(weir: Weir, command: string): Promise<void> {
  const { args, printed } = shown.get(command) ?? { args: '', printed: '' };
  const line = `"${process.execPath}" "${MAIN}" ${command}${args} --target localhost:${weir.debugPort}`;
  const env = { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, WEIR_TOKEN: TOKEN };
  const { stdout } = await promisify(execFile)('bash', ['-c', line], { cwd: PROJECT, env });
  expect(lasting(stdout)).toBe(lasting(printed));
}

/** Waits for the next minute, unless enough of this one is left for the whole page to happen in one window. */
async function nextMinuteUnlessEarly(): Promise<void> {
  const MINUTE_MS = 60_000;
  const LATEST_MS = 40_000;
  const atMs = Date.now() % MINUTE_MS;
  if (atMs > LATEST_MS) await new Promise((resolve) => setTimeout(resolve, MINUTE_MS - atMs + 100));
}

test('a new user with a wrong descriptor in Envoy finds the reason with one command, and resets a user with another, as in docs/why-refused.md', async () => {
  expect([...shown.keys()]).toEqual(['unmatched', 'explain', 'reset', 'refusals']);
  const weir = await startWeir({ ADMIN_TOKEN: TOKEN, USE_STATSD: 'false', AUDIT_LOG: 'stderr' });
  const wrong = await startEnvoy(weir.grpcPort, (config) =>
    config.replace('descriptor_key: user }', 'descriptor_key: usr }'),
  );
  try {
    for (let hits = 0; hits < 3; hits++) await wrong.get('10000', '/login', 'alice');
    await runShown(weir, 'unmatched');
  } finally {
    await wrong.stop();
  }
  const right = await startEnvoy(weir.grpcPort);
  try {
    await nextMinuteUnlessEarly();
    for (let hits = 0; hits < 5; hits++) await right.get('10000', '/health', 'alice');
    expect((await right.get('10000', '/health', 'alice')).status).toBe(429);
    await runShown(weir, 'explain');
    await runShown(weir, 'reset');
    expect((await right.get('10000', '/health', 'alice')).status).not.toBe(429);
    await weir.waitFor('"change":"reset","reason":"support case 4711"');
  } finally {
    await right.stop();
    await weir.stop();
  }
});
