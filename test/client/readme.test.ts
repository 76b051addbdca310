import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startRedis } from '../helpers/redis.ts';
import { closeAll, closeLater, RULES, startService } from './service.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

const snippetsOf = (page: string): readonly string[] =>
  Array.from(readFileSync(join(PROJECT, page), 'utf8').matchAll(/```ts\n(.*?)```/gs), ([, program = '']) => program);

/** The programs in the README of the client. */
const snippets = snippetsOf('client/README.md');

/** Programs that do not end, so that only their types are checked. */
const endless = ['docs/deferral.md', 'docs/good-client.md', 'docs/from-node-limiters.md'].flatMap(snippetsOf);

/** A new folder in which the project's packages are found, and which no tool searches. */
function newFolder(): string {
  const cache = join(PROJECT, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'client-readme-'));
  return folder;
}

afterEach(closeAll);

test('the programs in the README of the client, and about deferral and good clients, are valid TypeScript, and the former run against a service', async () => {
  expect(snippets.length).toBeGreaterThanOrEqual(12);
  const service = await startService(RULES);
  const redis = await startRedis();
  closeLater(() => redis.stop());
  const folder = newFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(PROJECT, join(folder, 'node_modules/weir-rls'));
  const names = snippets.map((_, at) => `snippet-${at}.ts`);
  for (const [at, name] of names.entries()) {
    const program = (snippets[at] ?? '').replaceAll('localhost:8081', service.grpc);
    const withPorts = program.replaceAll('http://localhost:8080', service.http).replace('6379', String(redis.port));
    writeFileSync(join(folder, name), withPorts);
  }
  const endlessNames = endless.map((_, at) => `endless-${at}.ts`);
  for (const [at, name] of endlessNames.entries()) writeFileSync(join(folder, name), endless[at] ?? '');
  const compilerOptions = {
    target: 'es2023',
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    experimentalDecorators: true,
    skipLibCheck: false,
    noEmit: true,
    types: ['node'],
  };
  const configure = (name: string, files: readonly string[]) =>
    writeFileSync(join(folder, name), JSON.stringify({ compilerOptions, files }));
  configure('tsconfig.json', [...names, ...endlessNames]);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const run = (args: readonly string[]) =>
    promisify(execFile)(process.execPath, args, {
      cwd: PROJECT,
      env: { ...process.env, TSX_TSCONFIG_PATH: join(folder, 'run.json') },
    }).catch(({ stdout, stderr }) => {
      throw new Error(`${stdout}${stderr}`);
    });
  const compiling = run([join(PROJECT, 'node_modules/typescript/bin/tsc'), '-p', folder]).catch(String);
  const elsewhere = ['3000', 'weir.reserve(']; // readme-apps.test.ts and reservations.test.ts run these
  const finite = names.filter((_, at) => !elsewhere.some((text) => snippets[at]?.includes(text)));
  configure(
    'run.json',
    finite.map((name) => `run-${name}`),
  );
  const running = finite.map(async (name) => {
    const ending = `setTimeout(() => process.exit(), 1_000).unref();`; // a client does not keep a process alive
    const path = join(folder, name);
    const runnable = join(folder, `run-${name}`);
    writeFileSync(runnable, `import 'reflect-metadata';\n${readFileSync(path, 'utf8')}\n${ending}`);
    const { stderr } = await run(['--import', 'tsx', runnable]);
    expect(stderr).not.toMatch(/error/i);
  });
  const [compiled] = await Promise.all([compiling, ...running]);
  const errors = typeof compiled === 'string' ? compiled.match(/^.*\berror TS.*$/gm) : [];
  expect(errors?.filter((line) => !/node_modules\/@types\//.test(line))).toEqual([]); // those types conflict with each other
});
