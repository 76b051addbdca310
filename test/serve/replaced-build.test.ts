import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { eventually } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PROJECT = join(__dirname, '../..');
const rulesWith = (requests: number): string =>
  `domain: demo\ndescriptors:\n  - { key: user, rate_limit: { unit: year, requests_per_unit: ${requests} } }\n`;

let folder: string;
let weir: Weir;
let redis: Redis;
beforeEach(async () => {
  redis = await startRedis();
  folder = mkdtempSync(join(tmpdir(), 'replaced-build-'));
  for (const name of ['dist', 'proto', 'config', 'package.json'])
    cpSync(join(PROJECT, name), join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'rules.yaml'), rulesWith(1_000));
});
afterEach(async () => {
  await weir.stop();
  await redis.stop();
  rmSync(folder, { recursive: true });
});

const request = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] });

async function post(port: number, path: string, body = request, type = 'application/json'): Promise<number> {
  const headers = { authorization: 'Bearer token', 'content-type': type };
  return (await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body })).status;
}

test('a service whose build is gone decides, loads rules, and answers the operators that it can', async () => {
  const main = join(folder, 'dist/main.js');
  const args = ['--rules', join(folder, 'rules.yaml')];
  weir = await startWeir({ ADMIN_TOKEN: 'token', REDIS_URL: redis.url, WORKERS: '2' }, { main, args });
  renameSync(join(folder, 'dist'), join(folder, 'dist.gone'));
  const { httpPort, debugPort } = weir;
  expect(await post(debugPort, '/api/v1/explain')).toBe(503);
  await weir.waitFor("answering the operators' question 'explain' has failed");
  await post(debugPort, '/api/v1/candidate?reason=test', rulesWith(1), 'application/yaml');
  writeFileSync(join(folder, 'rules.yaml'), rulesWith(1));
  const listed = async () => (await fetch(`http://127.0.0.1:${debugPort}/rlconfig`)).text();
  await eventually(async () => (await listed()).includes('requests_per_unit=1,'));
  expect(await listed()).not.toContain('#');
  await eventually(async () => (await post(httpPort, '/json')) === 429);
});
