import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, start } from '../helpers/process.ts';
import { until } from '../helpers/until.ts';
import { closeAll, closeLater, startService } from './service.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(PROJECT, path), 'utf8');

/** The apps in the README of the client, which listen on port 3000. */
const apps = Array.from(read('client/README.md').matchAll(/```ts\n(.*?)```/gs), ([, program = '']) => program).filter(
  (program) => program.includes('3000'),
);
const nameOf = (program: string): string => /weir-client\/(\w+)/.exec(program)?.[1] ?? '';

afterEach(closeAll);

test('the README of the client has an app for each framework', () => {
  expect(apps.map(nameOf).sort()).toEqual(['express', 'fastify', 'hono', 'koa', 'nestjs']);
});

test.each(apps.map((program) => [nameOf(program), program]))(
  'the app for %s in the README limits by the rules that come with Weir, as written',
  async (name, program) => {
    const service = await startService(read('config/rules.yaml'));
    const port = await freePort();
    const folder = join(PROJECT, 'node_modules/.cache'); // where the packages are found
    mkdirSync(folder, { recursive: true });
    const place = mkdtempSync(join(folder, 'client-app-'));
    const tsconfig = join(place, 'tsconfig.json');
    writeFileSync(tsconfig, JSON.stringify({ compilerOptions: { experimentalDecorators: true }, files: ['app.ts'] }));
    writeFileSync(join(place, 'package.json'), '{"type":"module"}');
    const own = program.replace('localhost:8081', service.grpc).replace('3000', String(port));
    writeFileSync(join(place, 'app.ts'), own);
    const app = await start(process.execPath, ['--import', 'tsx', join(place, 'app.ts')], {
      name,
      cwd: PROJECT,
      env: { ...process.env, TSX_TSCONFIG_PATH: tsconfig },
    });
    closeLater(() => app.stop());
    const path = program.includes('/search') ? '/search' : '/';
    const get = () => fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
    await app.waitFor(async () => (await get()) !== undefined);
    const statuses = new Set<number | undefined>();
    await until('a request is refused by the rule', async () => {
      const answer = await get();
      statuses.add(answer?.status);
      // Before the service has answered within 20 ms, the client decides by a limit of its own.
      return answer?.status === 429 && answer.headers.get('ratelimit')?.startsWith('"per-user"') === true;
    });
    expect([...statuses].filter((status) => status !== 200 && status !== 429)).toEqual([]);
  },
);
