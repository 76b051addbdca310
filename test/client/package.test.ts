import { execFile } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort, start } from '../helpers/process.ts';
import { until } from '../helpers/until.ts';
import { closeAll, closeLater, startService } from './service.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const MAX_BYTES = 1_000_000;

const run = (command: string, args: readonly string[], cwd: string) =>
  promisify(execFile)(command, args, { cwd, maxBuffer: 1 << 26 }).then(({ stdout }) => stdout);

/** The folder with the installed packed client, and nothing else. */
let folder: string;

beforeAll(async () => {
  const aside = mkdtempSync(join(tmpdir(), 'client-package-'));
  folder = join(aside, 'empty');
  mkdirSync(folder);
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', aside], join(PROJECT, 'client'));
  const [tarball = ''] = readdirSync(aside).filter((name) => /^weir-client-.*\.tgz$/.test(name));
  const quietly = ['--ignore-scripts', '--offline', '--no-audit', '--no-fund', '--cache', join(aside, 'cache')];
  await run('npm', ['install', ...quietly, join(aside, tarball)], folder);
});
afterAll(async () => {
  await closeAll();
  rmSync(join(folder, '..'), { recursive: true });
});

const packages = (): readonly string[] =>
  readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'));

/** Makes a package of this project available beside the client. */
function provide(name: string): void {
  const link = join(folder, 'node_modules', name);
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(join(PROJECT, 'node_modules', name), link);
}

/** The first program of the README. */
const firstSnippet = (): string =>
  /```ts\n(import express.*?)```/s.exec(readFileSync(join(PROJECT, 'client/README.md'), 'utf8'))?.[1] ?? '';

test('the packed client installs offline, without scripts and without any other package', () => {
  expect(packages()).toEqual(['weir-client']);
  const bytes = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => statSync(join(folder, path)))
    .reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
  expect(bytes).toBeLessThan(MAX_BYTES);
});

test('the packed client has the licences of its contents', () => {
  const licences = readFileSync(join(folder, 'node_modules/weir-client/dist/LICENSES.txt'), 'utf8');
  for (const name of ['@fastify/proxy-addr', '@fastify/forwarded', 'ipaddr.js']) expect(licences).toContain(`${name} `);
});

test('without @grpc/grpc-js, a call over gRPC names the package to install, and calls over HTTP are answered', async () => {
  const service = await startService(readFileSync(join(PROJECT, 'config/rules.yaml'), 'utf8'));
  writeFileSync(
    join(folder, 'calls.mjs'),
    `import { createClient } from 'weir-client';
    for (const target of ['${service.grpc}', '${service.http}']) {
      const weir = createClient({ target, timeoutMs: 60_000 });
      const { ok, rule, error } = await weir.limit('demo', { user: 'alice' });
      console.log(ok, rule, error?.message);
      weir.close();
    }`,
  );
  expect((await run(process.execPath, ['calls.mjs'], folder)).split('\n')).toEqual([
    expect.stringMatching(/^true undefined gRPC needs a package that is not installed: install @grpc\/grpc-js/),
    'true demo.user undefined',
    '',
  ]);
});

test('an open client does not keep a process alive', async () => {
  const service = await startService(readFileSync(join(PROJECT, 'config/rules.yaml'), 'utf8'));
  if (!packages().includes('@grpc')) provide('@grpc/grpc-js');
  for (const target of [service.grpc, service.http]) {
    const options = JSON.stringify({ target, timeoutMs: 60_000 });
    const program = `import { createClient } from 'weir-client';
    const { ok, rule } = await createClient(${options}).limit('demo', { user: 'bob' });
    console.log(ok, rule);`;
    writeFileSync(join(folder, 'open.mjs'), program);
    expect(await run(process.execPath, ['open.mjs'], folder)).toBe('true demo.user\n');
  }
});

test.each(['localhost:8081', 'http://localhost:8080'])(
  'the first lines of the README protect an Express route, with the target %s',
  async (target) => {
    const service = await startService(readFileSync(join(PROJECT, 'config/rules.yaml'), 'utf8'));
    const snippet = firstSnippet();
    expect(snippet.trim().split('\n').length).toBeLessThanOrEqual(11);
    for (const name of ['express', '@grpc/grpc-js']) if (!packages().includes(name.replace(/\/.*/, ''))) provide(name);
    const port = await freePort();
    const own = target.startsWith('http') ? service.http : service.grpc;
    const program = snippet.replace('localhost:8081', own).replace('listen(3000)', `listen(${port})`);
    writeFileSync(join(folder, 'app.mjs'), program);
    const app = await start(process.execPath, ['app.mjs'], { cwd: folder, name: 'app' });
    closeLater(() => app.stop());
    const get = () => fetch(`http://localhost:${port}/`);
    await app.waitFor(() =>
      get().then(
        () => true,
        () => false,
      ),
    );
    const answers: Response[] = [];
    await until('a request is refused', async () => {
      answers.push(await get());
      return answers.at(-1)?.status !== 200; // later if a minute ends, or the service does not answer within 20 ms
    });
    const codes = answers.map(({ status }) => status);
    expect(codes).toContain(200);
    expect(codes.at(-1)).toBe(429);
    expect(answers.at(-1)?.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(answers.at(-1)?.headers.get('ratelimit')).toMatch(/^"per-user";r=0;t=\d+$/);
  },
);
