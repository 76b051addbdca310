import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const CALLS = 400;
const TENANTS = 40;
/** Those of the example. */
const SLOTS = 50;

let redis: Redis;
let instances: readonly Weir[];
beforeAll(async () => {
  redis = await startRedis();
  const args = ['--rules', 'config/examples/shared-slots.yaml'];
  instances = await Promise.all([1, 2].map(() => startWeir({ REDIS_URL: redis.url }, { args })));
});
afterAll(async () => {
  await Promise.all((instances ?? []).map((one) => one.stop()));
  await redis?.stop();
});

/** Calls an instance; the status of its answer. */
async function call(at: number, path: string, tenant: string, more: object = {}): Promise<number> {
  const { httpPort } = instances[at % 2] as Weir; // there are two
  const entries = [
    { key: 'generic_key', value: 'api' },
    { key: 'request_id', value: `call-${at}` },
    { key: 'tenant', value: tenant },
  ];
  const request = { domain: 'shared-slots', descriptors: [{ entries }] };
  const response = await fetch(`http://127.0.0.1:${httpPort}/holds/${path}`, {
    method: 'POST',
    body: JSON.stringify({ request, ...more }),
  });
  await response.text();
  return response.status;
}

test(`${CALLS} parallel calls of ${TENANTS} tenants through two instances are all served, at most ${SLOTS} at once`, async () => {
  let [running, most] = [0, 0];
  const statuses = await Promise.all(
    Array.from({ length: CALLS }, async (_, at) => {
      const tenant = at % TENANTS === 0 ? 'acme' : `t${at % TENANTS}`;
      const status = await call(at, 'acquire', tenant, { max_delay: '60s' });
      if (status !== 200) return status;
      running++;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 20));
      running--;
      return call(at, 'release', tenant);
    }),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(most).toBeLessThanOrEqual(SLOTS);
  expect(most).toBeGreaterThan(SLOTS / 2);
});
