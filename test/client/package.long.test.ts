import {
  cpSync,
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
import { installPacked, runIn } from '../helpers/packed.ts';
import { freePort, start } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { CACHE, install, isThere } from '../helpers/tools.ts';
import { until } from '../helpers/until.ts';
import { closeAll, closeLater, type Service, startService } from './service.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const MAX_BYTES = 1_000_000;
const MAX_PACKED_BYTES = 80_000;

/** The folder with the installed packed client, and nothing else. */
let folder: string;
let tarball: string;
let service: Service;
const startDefault = () => startService(readFileSync(join(PROJECT, 'config/rules.yaml'), 'utf8'));
beforeAll(async () => {
  ({ folder, tarball } = await installPacked(join(PROJECT, 'client')));
  service = await startDefault();
});
afterAll(closeAll);

const packages = (): readonly string[] =>
  readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'));

/** Makes a package, or a scope of packages, available beside the client. Default: that of this project. */
function provide(name: string, from = PROJECT): void {
  const link = join(folder, 'node_modules', name);
  rmSync(link, { recursive: true, force: true });
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(join(from, 'node_modules', name), link);
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
  expect(statSync(tarball).size).toBeLessThan(MAX_PACKED_BYTES);
});

test('the packed client has the licences of its contents', () => {
  const licences = readFileSync(join(folder, 'node_modules/weir-client/dist/LICENSES.txt'), 'utf8');
  for (const name of ['@fastify/proxy-addr', '@fastify/forwarded', 'ipaddr.js']) expect(licences).toContain(`${name} `);
});

test('without @grpc/grpc-js, a client over gRPC names the package to install, and calls over HTTP are answered', async () => {
  writeFileSync(
    join(folder, 'calls.mjs'),
    `import { createClient } from 'weir-client';
    try {
      createClient({ target: '${service.grpc}' });
    } catch (error) {
      console.log(error.message);
    }
    const weir = createClient({ target: '${service.http}', timeoutMs: 60_000 });
    const { ok, rule, error } = await weir.limit('demo', { user: 'alice' });
    console.log(ok, rule, error?.message);
    weir.close();`,
  );
  expect((await runIn(folder, process.execPath, ['calls.mjs'])).split('\n')).toEqual([
    expect.stringMatching(/cannot be called: gRPC needs a package that cannot be loaded: install @grpc\/grpc-js/),
    'true demo.user undefined',
    '',
  ]);
});

test('an open client does not keep a process alive', async () => {
  if (!packages().includes('@grpc')) provide('@grpc/grpc-js');
  for (const target of [service.grpc, service.http]) {
    const options = JSON.stringify({ target, timeoutMs: 60_000 });
    const program = `import { createClient } from 'weir-client';
    const { ok, rule } = await createClient(${options}).limit('demo', { user: 'bob' });
    console.log(ok, rule);`;
    writeFileSync(join(folder, 'open.mjs'), program);
    expect(await runIn(folder, process.execPath, ['open.mjs'])).toBe('true demo.user\n');
  }
});

test.each(['localhost:8081', 'http://localhost:8080'])(
  'the first lines of the README protect an Express route, with the target %s',
  async (target) => {
    const unused = await startDefault(); // its limit is used up
    const snippet = firstSnippet();
    expect(snippet.trim().split('\n').length).toBeLessThanOrEqual(11);
    for (const name of ['express', '@grpc/grpc-js']) if (!packages().includes(name.replace(/\/.*/, ''))) provide(name);
    const port = await freePort();
    const own = target.startsWith('http') ? unused.http : unused.grpc;
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
      const last = answers.at(-1);
      // Later if a minute ends. Before the service has answered within 20 ms, the client decides by a limit of its own.
      return last?.status !== 200 && last?.headers.get('ratelimit')?.startsWith('"per-user"') === true;
    });
    const codes = answers.map(({ status }) => status);
    expect(codes).toContain(200);
    expect(codes.at(-1)).toBe(429);
    expect(answers.at(-1)?.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(answers.at(-1)?.headers.get('ratelimit')).toMatch(/^"per-user";r=0;t=\d+$/);
  },
);

test('publint and arethetypeswrong find nothing in the packed client', async () => {
  const program = `import { readFileSync } from 'node:fs';
    import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
    import { publint } from 'publint';
    const [, tarball, pkgDir] = process.argv;
    const { messages } = await publint({ pkgDir });
    const { problems } = await checkPackage(createPackageFromTarballData(new Uint8Array(readFileSync(tarball))));
    // The oldest resolution of TypeScript knows no exports.
    const known = problems.filter(({ resolutionKind }) => resolutionKind !== 'node10');
    console.log(JSON.stringify([...messages, ...known]));`;
  const installed = join(folder, 'node_modules/weir-client');
  const args = ['--input-type=module', '--eval', program, tarball, installed];
  expect(JSON.parse(await runIn(join(PROJECT, 'client'), process.execPath, args))).toEqual([]);
});

/** A bundle's calls over gRPC and HTTP: whether they were answered, or why not. */
async function callFromBundle(
  format: 'esm' | 'cjs',
  external: readonly string[],
  passed = '',
): Promise<readonly string[]> {
  provide('@grpc/grpc-js');
  const [source, output] = ['bundled.mjs', format === 'esm' ? 'bundle.mjs' : 'bundle.cjs'];
  const program = `import { createClient } from 'weir-client';
    import { rateLimit } from 'weir-client/web';
    ${passed && `import * as grpc from '@grpc/grpc-js';`}
    const call = async (target) => {
      const client = createClient({ ${passed}target, timeoutMs: 60_000, onError: 'deny' });
      const { response } = await rateLimit({ client, domain: 'demo', peer: () => '192.0.2.1' })(new Request('http://a/'));
      const { error } = await client.limit('demo', { user: 'alice' });
      console.log(response?.status ?? 'passed', ...(error ? [error.message] : []));
      client.close();
    };
    call('${service.grpc}').then(() => call('${service.http}'));`;
  writeFileSync(join(folder, source), program);
  const options = ['--bundle', '--platform=node', `--format=${format}`, `--outfile=${output}`, '--log-level=error'];
  const leftOut = external.map((name) => `--external:${name}`);
  await runIn(folder, join(PROJECT, 'node_modules/.bin/esbuild'), [source, ...options, ...leftOut]);
  const place = passed ? mkdtempSync(join(tmpdir(), 'bundle-')) : folder;
  if (place !== folder) cpSync(join(folder, output), join(place, output));
  return (await runIn(place, process.execPath, [output])).trim().split('\n');
}

test.each([
  ['esm', ['@grpc/grpc-js']],
  ['cjs', ['@grpc/grpc-js']],
  ['cjs', []],
  ['esm', []],
] as const)('a bundle by esbuild calls over gRPC and HTTP: %s without %j', async (format, external) => {
  expect(await callFromBundle(format, external)).toEqual(['passed', 'passed']);
});

test('a bundle without packages beside it contains @grpc/grpc-js if it is passed', async () => {
  expect(await callFromBundle('cjs', [], 'grpc, ')).toEqual(['passed', 'passed']);
});

test.each(['mts', 'cts'])('the types of the packed client work under node16 in a .%s file', async (extension) => {
  for (const name of ['@nestjs', 'reflect-metadata', 'rxjs']) provide(name, await installed('nestjs-11')); // in CommonJS
  for (const name of ['express', '@types/express']) provide(name);
  const source = `import { createClient, type Decision, LimitExceeded } from 'weir-client';
    import { rateLimit as forExpress } from 'weir-client/express';
    import { Limit, SkipLimit, WeirModule } from 'weir-client/nestjs';
    import { rateLimit } from 'weir-client/web';
    const client = createClient({ target: 'localhost:8081', local: { requests: 3 } });
    export const limit = rateLimit({ client, domain: 'demo', trustProxy: 1 });
    export const isRefused = (error: unknown): boolean => error instanceof LimitExceeded;
    export const decide = (): Promise<Decision> => client.limit('demo', { user: 'alice' });
    export const middleware = forExpress({ client, domain: 'demo', key: (request) => ({ path: request.path }) });
    const useFactory = (domain: string) => ({ client, domain });
    export const module = WeirModule.forRootAsync({ inject: ['DOMAIN'], useFactory });
    export const decorators: MethodDecorator[] = [Limit({ cost: () => 5 }), SkipLimit()];`;
  writeFileSync(join(folder, `types.${extension}`), source);
  const options = ['--noEmit', '--strict', '--module', 'node16', '--target', 'es2023', '--types', 'node'];
  const roots = ['--typeRoots', join(PROJECT, 'node_modules/@types'), '--skipLibCheck'];
  const tsc = join(PROJECT, 'node_modules/typescript/bin/tsc');
  expect(await runIn(folder, process.execPath, [tsc, ...options, ...roots, `types.${extension}`])).toBe('');
});

/** Older versions of frameworks, and where to install them. Those of this project are the newest. */
const older = {
  'express-4': ['express@4.22.3'],
  'fastify-4': ['fastify@4.29.1'],
  'koa-2': ['koa@2.16.4'],
  'nestjs-10': nestOf('10.4.22'),
  'nestjs-11': nestOf('11.2.10'),
  'bullmq-5': ['bullmq@5.81.5'],
} as const;

function nestOf(version: string): readonly string[] {
  const names = ['common', 'core', 'platform-express'];
  return [...names.map((name) => `@nestjs/${name}@${version}`), 'reflect-metadata@0.2.2', 'rxjs@7.8.2'];
}

/** Installs a framework once. @returns  its folder */
async function installed(name: keyof typeof older): Promise<string> {
  const target = join(CACHE, 'client-frameworks', name);
  if (await isThere(target)) return target;
  await install(target, async (into) => {
    mkdirSync(into);
    writeFileSync(join(into, 'package.json'), '{ "private": true }');
    const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock'];
    await runIn(into, 'npm', ['install', ...quietly, ...older[name]]);
  });
  return target;
}

/** Apps with `client`, which allows one request. */
const apps = {
  express: `const express = await load('express');
    const app = express().use((await load('weir-client/express')).rateLimit(options));
    app.get('/', (_, response) => response.send('hello'));
    const server = app.listen(0, () => report(server.address().port));`,
  fastify: `const app = (await load('fastify'))();
    await app.register((await load('weir-client/fastify')).rateLimit, options);
    app.get('/', async () => 'hello');
    await app.listen({ port: 0 });
    report(app.server.address().port);`,
  koa: `const Koa = await load('koa');
    const app = new Koa().use((await load('weir-client/koa')).rateLimit(options));
    app.use((context) => void (context.body = 'hello'));
    const server = app.listen(0, () => report(server.address().port));`,
  hono: `const { Hono } = await load('hono');
    const app = new Hono().use((await load('weir-client/hono')).rateLimit(options));
    app.get('/', (context) => context.text('hello'));
    (await load('@hono/node-server')).serve({ fetch: app.fetch, port: 0 }, ({ port }) => report(port));`,
  nestjs: `await load('reflect-metadata');
    const { Controller, Get, Module } = await load('@nestjs/common');
    class App { hello() { return 'hello'; } }
    Get('/')(App.prototype, 'hello', Object.getOwnPropertyDescriptor(App.prototype, 'hello'));
    Controller()(App);
    class Root {}
    const { WeirModule } = await load('weir-client/nestjs');
    Module({ controllers: [App], imports: [WeirModule.forRoot(options)] })(Root);
    const app = await (await load('@nestjs/core')).NestFactory.create(Root, { logger: false });
    await app.listen(0);
    report(app.getHttpServer().address().port);`,
  bullmq: `const { createDeferredQueue, createDeferredWorker } = await load('weir-client/bullmq');
    const line = { connection: { host: '127.0.0.1', port: Number(process.argv[2]) }, domain: 'demo', key: (user) => ({ user }) };
    const queue = createDeferredQueue('jobs' + process.argv[3], line);
    for (const user of ['a', 'b']) await queue.add('job', user);
    let refused = true;
    engine.decide = async () => (refused = !refused, answerOf(refused));
    const { worker } = createDeferredWorker('jobs' + process.argv[3], async ({ data }) => data, { ...line, client });
    const done = [];
    worker.on('completed', ({ data }) => done.push(data) === 2 && finish(done.sort().join(' ')));`,
} as const;

/** The program of an app, as ES module or as CommonJS. It prints the statuses of two requests. */
function programOf(app: keyof typeof apps, kind: 'mjs' | 'cjs'): string {
  const load = kind === 'mjs' ? 'await import(name)' : 'require(name)';
  return `(async () => {
    const load = async (name) => { const loaded = ${load}; return loaded.default ?? loaded; };
    const { createClient } = await load('weir-client');
    const answerOf = (isRefused) => ({ overallCode: isRefused ? 'OVER_LIMIT' : 'OK', verdicts: [], delayMs: 0, retryAfterMs: 50 });
    let calls = 0;
    const engine = { decide: async () => answerOf(calls++ > 0), health: () => ({ ready: true }), close: async () => {} };
    const client = createClient({ engine });
    const options = { client, domain: 'demo' };
    const finish = (text) => process.stdout.write(text, () => process.exit());
    const report = async (port) => {
      const url = 'http://localhost:' + port;
      finish([(await fetch(url)).status, (await fetch(url)).status].join(' '));
    };
    ${apps[app]}
  })();`;
}

test.each<[keyof typeof apps, keyof typeof older | 'the newest', readonly string[]]>([
  ['express', 'express-4', ['express']],
  ['express', 'the newest', ['express']],
  ['fastify', 'fastify-4', ['fastify']],
  ['fastify', 'the newest', ['fastify']],
  ['koa', 'koa-2', ['koa']],
  ['koa', 'the newest', ['koa']],
  ['hono', 'the newest', ['hono', '@hono/node-server']],
  ['nestjs', 'nestjs-10', ['@nestjs', 'reflect-metadata']],
  ['nestjs', 'nestjs-11', ['@nestjs', 'reflect-metadata']],
  ['nestjs', 'the newest', ['@nestjs', 'reflect-metadata']],
  ['bullmq', 'bullmq-5', ['bullmq']],
])('the packed client works with %s (%s) in ES modules and CommonJS', async (app, version, names) => {
  const from = version === 'the newest' ? PROJECT : await installed(version);
  for (const name of names) provide(name, from);
  const redis = app === 'bullmq' ? await startRedis() : undefined;
  const kinds = ['mjs', 'cjs'] as const;
  const outputs = await Promise.all(
    kinds.map(async (kind) => {
      writeFileSync(join(folder, `app.${kind}`), programOf(app, kind));
      return runIn(folder, process.execPath, [`app.${kind}`, String(redis?.port), kind]);
    }),
  );
  await redis?.stop();
  const expected = app === 'bullmq' ? 'a b' : '200 429';
  expect(outputs).toEqual([expected, expected]);
  const { peerDependencies } = JSON.parse(readFileSync(join(PROJECT, 'client/package.json'), 'utf8'));
  for (const spec of version === 'the newest' ? [] : older[version]) {
    const [, name = '', at = ''] = /^(.+)@(.+)$/.exec(spec) ?? [];
    const lowest = /^>=(\d+)$/.exec(peerDependencies[name] ?? '>=0')?.[1];
    expect(Number.parseInt(at, 10)).toBeGreaterThanOrEqual(Number(lowest));
  }
});
