import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPacked, runIn } from '../helpers/packed.ts';
import { startRedis } from '../helpers/redis.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const MAX_BYTES = 20_000_000;

/** The folder with the installed packed project, and nothing else. */
let folder: string;
let installed: string;
beforeAll(async () => {
  ({ folder } = await installPacked(PROJECT));
  installed = join(folder, 'node_modules/weir-rls');
});

test('the packed project installs offline, without scripts and without any other package', () => {
  expect(readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual(['weir-rls']);
});

test('the installed package has at most 20 MB', () => {
  const bytes = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => statSync(join(folder, path)))
    .reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
  expect(bytes).toBeLessThan(MAX_BYTES);
});

test('the program of docs/engine.md compiles with the installed types and prints what the page shows', async () => {
  const page = readFileSync(join(PROJECT, 'docs/engine.md'), 'utf8');
  const [, program = ''] = /```ts\n(.*?)```/s.exec(page) ?? [];
  const [, printed] = /```text\n(.*?)```/s.exec(page) ?? [];
  const compilerOptions = {
    target: 'es2022',
    module: 'node16',
    moduleResolution: 'node16',
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    outDir: 'built',
    types: [],
    lib: ['es2023', 'dom'], // for console
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'program.ts'), program);
  await runIn(folder, process.execPath, [join(PROJECT, 'node_modules/typescript/bin/tsc'), '-p', '.']);
  expect(await runIn(folder, process.execPath, ['built/program.js'])).toBe(printed);
});

describe('the installed service', () => {
  let weir: Weir;
  const main = (): string => join(folder, 'node_modules/.bin/weir');
  const ask = (...args: readonly string[]): Promise<string> =>
    runIn(folder, main(), ['ask', ...args, '--grpc', `localhost:${weir.grpcPort}`]);

  afterEach(() => weir?.stop());

  test.each(['h2', 'grpc-js'])(
    'answers the request of the README by the rules of the package, over %s',
    async (transport) => {
      weir = await startWeir({ GRPC_TRANSPORT: transport, WORKERS: '1' }, { main: main(), cwd: folder });
      expect(weir.output()).toContain(`rules     ${join(installed, 'config/rules.yaml')}: 1 domain`);
      expect(await ask('demo', 'api_key=k1')).toMatch(/^OK\n {2}api_key=k1 {2}OK +10 per SECOND, 9 remaining/);
      expect(await ask('demo', 'api_key=k2', '--hits', '11')).toMatch(/^OVER_LIMIT\n/);
    },
  );

  test('answers with two workers and counters in Redis', async () => {
    const redis = await startRedis();
    try {
      weir = await startWeir({ WORKERS: '2', REDIS_URL: `localhost:${redis.port}` }, { main: main(), cwd: folder });
      expect(await ask('demo', 'api_key=k2', '--hits', '11')).toMatch(/^OVER_LIMIT\n/);
    } finally {
      await redis.stop();
    }
  });

  test('does not start with tracing, and names the packages to install', async () => {
    await expect(
      startWeir({ TRACING_ENABLED: 'true' }, { main: main(), cwd: folder }).then((started) => {
        weir = started;
      }),
    ).rejects.toThrow(
      /exit code 1.*weir: TRACING_ENABLED: OpenTelemetry is not installed: npm install @opentelemetry\/api /s,
    );
  });
});
