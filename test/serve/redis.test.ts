import { createClient } from '../helpers/grpc-client.ts';
import { freePort } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { clientOf, startWatched } from '../helpers/redis-topologies.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function service(env: Readonly<Record<string, string>>): Promise<Weir> {
  const weir = await startWeir({ USE_STATSD: 'false', ...env });
  closing.push(weir.stop);
  return weir;
}

test('a sentinel that cannot be reached puts no line on stderr that is not in the form of the log', async () => {
  const watched = await startWatched();
  const sentinels = [watched.sentinelPort, await freePort()].map((port) => `127.0.0.1:${port}`);
  const weir = await service({ REDIS_TYPE: 'SENTINEL', REDIS_URL: [watched.name, ...sentinels].join(',') });
  await watched.stop();
  await weir.waitFor('no connection to master');
  expect(weir.output()).not.toContain('[ioredis]');
}, 60_000);

const health = async ({ httpPort }: Weir) => {
  const response = await fetch(`http://127.0.0.1:${httpPort}/healthcheck?verbose`);
  return { status: response.status, text: await response.text() };
};
const isHealthy = async (weir: Weir): Promise<boolean> => (await health(weir)).status === 200;

test.each([
  ['the script command', ['+@all', '-evalsha', '-eval', 'allkeys'], "run the 'evalsha' command"],
  ['the keys', ['+@all', 'resetkeys', '~other:*'], 'no permissions to access one of the keys'],
])('health is not serving, and one line of the log says why, where the user lacks %s', async (_, permissions, why) => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const operator = clientOf(redis);
  closing.push(() => operator.disconnect());
  await operator.acl('SETUSER', 'weir', 'on', '>s3cret', ...permissions);
  const weir = await service({ REDIS_URL: `redis://weir:s3cret@${redis.url}`, RULES_PATH: 'config/rules.yaml' });
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  closing.push(client.close);
  await weir.waitFor('refuses calls: NOPERM');
  expect(await health(weir)).toEqual({ status: 500, text: expect.stringContaining(why) });
  for (let call = 0; call < 3; call++) await expect(client.ask()).rejects.toThrow('UNAVAILABLE');
  expect(weir.output().match(/refuses calls/g)).toHaveLength(1);

  await operator.acl('SETUSER', 'weir', '+@all', 'allkeys');
  await weir.waitFor(() => isHealthy(weir));
  expect(await client.ask()).toMatchObject({ statuses: [{}] });
});

test('with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION, health follows a permission that is taken away and given back', async () => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const operator = clientOf(redis);
  closing.push(() => operator.disconnect());
  const weir = await service({
    REDIS_URL: redis.url,
    RULES_PATH: 'config/rules.yaml',
    REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
  });
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  closing.push(client.close);
  await weir.waitFor(() => isHealthy(weir));
  await operator.acl('SETUSER', 'default', '-evalsha');
  await expect(client.ask()).rejects.toThrow('UNAVAILABLE');
  await weir.waitFor(async () => !(await isHealthy(weir)));
  await operator.acl('SETUSER', 'default', '+evalsha');
  await weir.waitFor('takes calls again');
  expect(await operator.keys('*probe*')).toEqual([]); // looking for the permission writes nothing
  expect(await isHealthy(weir)).toBe(true);
});
