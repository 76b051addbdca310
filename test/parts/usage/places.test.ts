import { join } from 'node:path';
import { startCluster } from '../../helpers/redis-topologies.ts';
import { ask, closing, folder, postgres, redis, settled, start, usageOf } from './used-service.ts';

const places: Readonly<Record<string, () => Promise<Readonly<Record<string, string>>>>> = {
  'files, counted in memory': async () => ({ USAGE_DIR: join(folder, 'memory') }),
  'files, counted in Redis': async () => ({ USAGE_DIR: join(folder, 'redis'), REDIS_URL: redis.url, WORKERS: '2' }),
  'files, counted in a Redis Cluster': async () => {
    const { nodes, stop } = await startCluster();
    closing.push(stop);
    const env = { REDIS_TYPE: 'CLUSTER', REDIS_URL: nodes.map(({ url }) => url).join(','), CLUSTER_HASH_TAG: 'domain' };
    return { USAGE_DIR: join(folder, 'cluster'), CACHE_KEY_PREFIX: 'w:', ...env };
  },
  PostgreSQL: async () => ({
    USAGE_URL: await postgres.createDatabase(),
    REDIS_URL: redis.url,
    CACHE_KEY_PREFIX: 'postgres:',
  }),
};

test.each(Object.entries(places))('usage in %s is what limits have admitted', async (_, place) => {
  const env = await place();
  const weir = await start(env);
  for (const hits of [4, 5, 1, -1, 3]) await ask(weir, { user: 'alice' }, hits); // the last is refused
  await ask(weir, { user: '=1+1,"b"' }, 2);
  await ask(weir, { tenant: 'acme', request_id: 'r1' }, 500);
  await ask(weir, { tenant: 'acme', request_id: 'r1', used: 'tokens' }, 321);
  await settled(weir, 9 + 2 + 321);
  const until = ['--from', '2026-01-01', '--to', '9999-01-01'];
  const [csv, byRule, byHour] = await Promise.all([
    usageOf(weir, '--csv', ...until),
    usageOf(weir, '--by', 'rule', '--rule', 'shop.user', ...until),
    usageOf(weir, '--json', '--per', 'hour', '--key', 'user=alice', ...until),
  ]);
  expect(csv).toBe(
    [
      'domain,rule,key,hits',
      'shop,shop.tenant.request_id,tenant=acme,321',
      'shop,shop.user,user=alice,9',
      'shop,shop.user,"user==1+1\\,""b""",2',
      '',
    ].join('\n'),
  );
  expect(byRule).toContain('11  shop.user');
  expect(JSON.parse(byHour)).toMatchObject({ hits: 9, more: 0 });
  await weir.stop();
  const again = await start(env); // counters in memory begin anew, usage does not
  await settled(again, 9 + 2 + 321);
});
