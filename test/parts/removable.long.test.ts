import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { startWeir } from '../helpers/weir.ts';

const PROJECT = join(__dirname, '../..');
const PARTS = join('src', 'parts');
const LISTS = readdirSync(join(PROJECT, PARTS)).filter((name) => name.endsWith('.ts'));
const COPIED = ['src', 'deploy', 'dist', 'tsconfig.json'];
const LINKED = ['node_modules', 'proto', 'config', 'package.json'];
const parts = readdirSync(join(PROJECT, PARTS), { withFileTypes: true })
  .filter((one) => one.isDirectory() && one.name !== 'lab') // what several parts share
  .map(({ name }) => name);
const config = {
  extends: './tsconfig.json',
  compilerOptions: { noEmit: true },
  include: ['src/**/*.ts'],
};

let copy: string;
beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), 'without-part-'));
  for (const name of COPIED) cpSync(join(PROJECT, name), join(copy, name), { recursive: true });
  for (const name of LINKED) symlinkSync(join(PROJECT, name), join(copy, name));
  writeFileSync(join(copy, 'without.json'), JSON.stringify(config));
  writeFileSync(join(copy, 'build.ts'), "import { buildAll } from './deploy/build.ts';\nvoid buildAll('dist');\n");
});
afterEach(() => rmSync(copy, { recursive: true }));

/** Without the lines that import its files, load them, begin with its name, or name what is imported from it. */
function withoutPart(list: string, name: string): string {
  const lines = list.split('\n');
  const imports = lines.filter((line) => line.includes(` from './${name}/`));
  const imported = imports.flatMap((line) => /\{(.*)\}/.exec(line)?.[1]?.split(',') ?? []).map((one) => one.trim());
  return lines
    .filter((line) => !line.includes(`'./${name}/`) && !new RegExp(`^  '?${name}'?:`).test(line))
    .filter((line) => !imported.some((one) => new RegExp(`\\b${one}\\b`).test(line)))
    .join('\n');
}

/** The parts that import this one. */
const extending = (name: string): readonly string[] =>
  parts.filter((other) => {
    const folder = join(PROJECT, PARTS, other);
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
    return files.some((file) => readFileSync(join(folder, file), 'utf8').includes(`../${name}/`));
  });

function takeOut(name: string): void {
  const lists = LISTS.map((list) => join(copy, PARTS, list));
  const before = lists.map((list) => readFileSync(list, 'utf8'));
  for (const [at, list] of lists.entries()) writeFileSync(list, withoutPart(before[at] ?? '', name));
  expect(lists.map((list) => readFileSync(list, 'utf8'))).not.toEqual(before);
  rmSync(join(copy, PARTS, name), { recursive: true });
}

function run(command: string, ...args: readonly string[]): void {
  try {
    execFileSync(join(PROJECT, 'node_modules/.bin', command), args, { cwd: copy, encoding: 'utf8' });
  } catch (error) {
    throw new Error(String((error as { stdout?: string }).stdout)); // of a process
  }
}

/** A key, by its part, and what is said of it without the part. */
const refused: Readonly<Record<string, readonly [key: string, message: string]>> = {
  'fair-shares': ['share: { by: user }', 'share: requires the part fair-shares'],
  leases: ['consistency: leased', 'consistency: leased requires the part leases'],
  reservations: ['reserve: { ttl: 1m }', "unknown key 'reserve'"],
  schedules: ['active: { days: mon }', "unknown key 'active'"],
};

function expectRefused(key: string, message: string): void {
  const path = join(copy, 'refused.yaml');
  const limit = `{ unit: second, requests_per_unit: 1, algorithm: token_bucket, ${key} }`;
  writeFileSync(path, `domain: demo\ndescriptors: [{ key: shop, rate_limit: ${limit} }]\n`);
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(copy, 'dist/main.js'), 'check', path]);
  expect([status, `${stdout}${stderr}`]).toEqual([1, expect.stringContaining(message)]);
}

/** Settings that name a store, by its part, and what the service says of them without the part. */
const unopened: Readonly<Record<string, readonly [settings: Readonly<Record<string, string>>, message: string]>> = {
  redis: [{ REDIS_URL: '127.0.0.1:6379' }, 'REDIS_URL: cannot be used: this build has no client for Redis'],
  memcached: [
    { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: '127.0.0.1:11211' },
    'MEMCACHE_HOST_PORT: cannot be used: this build has no client for memcached',
  ],
};

/** A method, by its part, which nobody offers without the part. */
const unimplemented: Readonly<Record<string, string>> = {
  holds: '/weir.v1.Holds/Acquire',
  kuadrant: '/kuadrant.service.ratelimit.v1.RateLimitService/Reserve',
};

async function expectUnimplemented(method: string, grpcPort: number): Promise<void> {
  const client = new Client(`127.0.0.1:${grpcPort}`, credentials.createInsecure());
  const asIs = (bytes: Buffer): Buffer => bytes;
  const failure = await new Promise<ServiceError | null>((done) => {
    client.makeUnaryRequest(method, asIs, asIs, Buffer.alloc(0), (error) => done(error));
  });
  client.close();
  expect(failure).toMatchObject({ code: status.UNIMPLEMENTED });
}

test.each(parts)('the service compiles, starts, decides and serves operators without the part %s', async (name) => {
  for (const one of [name, ...extending(name)]) takeOut(one);
  run('tsc', '-p', 'without.json');
  run('tsx', 'build.ts');
  const rules = join(copy, 'rules');
  mkdirSync(rules);
  writeFileSync(
    join(rules, 'demo.yaml'),
    'domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 1 } }]\n',
  );
  const main = join(copy, 'dist/main.js');
  const weir = await startWeir({ RULES_PATH: rules }, { main });
  try {
    const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] });
    const ask = () => fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body });
    expect([(await ask()).status, (await ask()).status]).toEqual([200, 429]);
    const pages = ['/metrics', '/rlconfig', '/api/v1/openapi.json'];
    const answers = await Promise.all(pages.map((page) => fetch(`http://127.0.0.1:${weir.debugPort}${page}`)));
    expect(answers.map((answer) => answer.status)).toEqual(pages.map(() => 200));
    const method = unimplemented[name];
    if (method !== undefined) await expectUnimplemented(method, weir.grpcPort);
  } finally {
    await weir.stop();
  }
  const [key, message] = refused[name] ?? [];
  if (key !== undefined && message !== undefined) expectRefused(key, message);
  const [settings, reason] = unopened[name] ?? [];
  if (settings) await expect(startWeir({ RULES_PATH: rules, ...settings }, { main })).rejects.toThrow(reason);
});
