import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type PageEnvoy, startPageEnvoy } from '../../helpers/envoy-page.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { Upstream } from '../../helpers/upstream.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RATE = 50;
const RULES = `
domain: demo
descriptors:
  - key: generic_key
    value: shop
    rate_limit: { unit: second, requests_per_unit: ${RATE}, share: { by: user } }
    descriptors:
      - key: user
        share: { by: class }
        descriptors: [{ key: class, share: { priority: value } }]
`;

const ACTIONS = `rate_limits:
                                - actions:
                                    - generic_key: { descriptor_value: shop }
                                    - request_headers: { header_name: x-user, descriptor_key: user }
                                    - request_headers: { header_name: x-class, descriptor_key: class }
`;

/** Sheddable calls are sent at 12 times the limit, or as fast as the machine can. */
const SPIKE = 12;
const CRITICAL_CALLS = 170;

const upstream = new Upstream((_, response) => response.end('ok'));
let redis: Redis;
let weir: Weir;
let page: PageEnvoy;
const agent = new Agent({ keepAlive: true, maxSockets: 64 });

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rules-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis();
  weir = await startWeir({ REDIS_URL: redis.url }, { args: ['--rules', join(folder, 'rules.yaml')] });
  const upstreamPort = await upstream.listen();
  page = await startPageEnvoy('in-flight.md', { weirPort: weir.grpcPort, upstreamPort }, (config) =>
    config.replace(/rate_limits:[\s\S]*?(?= {2}clusters:)/, ACTIONS),
  );
});

afterAll(async () => {
  agent.destroy();
  await page?.envoy.stop();
  await weir?.stop();
  await redis?.stop();
  upstream.close();
});

/** The status of a call through Envoy. */
async function call(user: string, priority: string): Promise<number> {
  const headers = { 'x-user': user, 'x-class': priority };
  const sent = request({ host: '127.0.0.1', port: page.port, agent, headers }).end();
  const [response] = await once(sent, 'response');
  response.resume();
  await once(response, 'end');
  return response.statusCode;
}

test('critical calls of one user pass while sheddable calls of four others spike to 12 times the limit', async () => {
  let isOver = false;
  const shed = new Map<number, number>();
  const spike = Array.from({ length: 32 }, async (_, at) => {
    while (!isOver) {
      const status = await call(`user${at % 4}`, 'sheddable');
      shed.set(status, (shed.get(status) ?? 0) + 1);
      await sleep((32 * 1_000) / (SPIKE * RATE));
    }
  });
  const critical: number[] = [];
  while (critical.length < CRITICAL_CALLS) {
    critical.push(await call('shop', 'critical'));
    await sleep(1_000 / (0.6 * RATE));
  }
  isOver = true;
  await Promise.all(spike);
  const passed = critical.filter((status) => status === 200).length;
  expect(passed / critical.length).toBeGreaterThanOrEqual(0.994);
  expect(shed.get(200)).toBeGreaterThan(0); // what critical calls leave
  expect(shed.get(429)).toBeGreaterThan(0);
});
