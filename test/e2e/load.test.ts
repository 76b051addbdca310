import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runGhz } from '../../proof/bench/ghz.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { startWeir } from '../helpers/weir.ts';

const CALLS = 5_000;
const RULES = `
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 5 }
`;

let folder: string;
let redis: Redis;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'load-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis();
});

afterAll(async () => {
  await redis?.stop();
});

test.each([
  ['memory', () => ({ BACKEND_TYPE: 'memory' })],
  ['redis', () => ({ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: redis.url, STORE_TIMEOUT: '15s' })],
])('5,000 calls are answered without an error: %s', async (_store, env) => {
  const weir = await startWeir(env(), { args: ['--rules', join(folder, 'rules.yaml')] });
  try {
    const load = { target: `127.0.0.1:${weir.grpcPort}`, calls: CALLS, concurrency: 50, connections: 4 };
    const target = { domain: 'demo', key: 'user', value: 'user-{{randomInt 0 1000}}' };
    const { count, statusCodeDistribution } = JSON.parse(await runGhz({ ...load, ...target }, 'json'));
    expect({ count, statusCodeDistribution }).toEqual({ count: CALLS, statusCodeDistribution: { OK: CALLS } });
  } finally {
    await weir.stop();
  }
});
