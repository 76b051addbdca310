import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { openCounters, takeHit } from '../../helpers/counters.ts';
import { startMemcached } from '../../helpers/memcached.ts';
import { freePort, start } from '../../helpers/process.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { clientOf } from '../../helpers/redis-topologies.ts';
import { redisServer } from '../../helpers/tools.ts';
import { eventually } from '../../helpers/until.ts';

const folder = mkdtempSync(join(tmpdir(), 'ipv6-'));
const authority = createAuthority();
const ca = writeCertificate(folder, 'ca', authority).cert;
const { cert, key } = writeCertificate(folder, 'server', authority.issue('::1'));
const BOTH = ['127.0.0.1', '::1'];

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function redisOnBoth(...args: readonly string[]): Promise<Redis> {
  const redis = await startRedis({ args: ['--bind', ...BOTH, ...args] });
  closing.push(() => redis.stop());
  return redis;
}

/** Takes a hit from counters that are opened as the service opens them. */
async function hitWith(env: Readonly<Record<string, string>>): Promise<unknown> {
  const counters = await openCounters(env);
  closing.push(counters.close);
  await eventually(() => counters.problem() === '', counters.problem);
  return takeHit(counters);
}

describe('stores at IPv6 addresses', () => {
  test('Redis answers at [::1]:PORT, also in a URL and with a database', async () => {
    const { port } = await redisOnBoth();
    for (const url of [`[::1]:${port}`, `redis://[::1]:${port}`, `redis://[::1]:${port}/1`])
      expect(await hitWith({ REDIS_URL: url })).toMatchObject({ code: 'OK' });
  });

  test('Redis answers at rediss://[::1]:PORT, if the certificate has that address', async () => {
    const port = await freePort();
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', ca];
    await redisOnBoth('--tls-port', String(port), ...files, '--tls-auth-clients', 'no');
    const env = { REDIS_URL: `rediss://[::1]:${port}`, REDIS_TLS_CACERT: ca };
    expect(await hitWith(env)).toMatchObject({ code: 'OK' });
  });

  test('a master and its sentinel answer', async () => {
    const { port } = await redisOnBoth();
    const sentinelPort = await freePort();
    const config = join(folder, 'sentinel.conf');
    const lines = [`port ${sentinelPort}`, `bind ${BOTH.join(' ')}`, `dir ${folder}`];
    writeFileSync(config, `${[...lines, `sentinel monitor mymaster ::1 ${port} 1`].join('\n')}\n`);
    const sentinel = await start(await redisServer(), [config, '--sentinel'], { name: 'sentinel' });
    closing.push(() => sentinel.stop());
    const env = { REDIS_TYPE: 'SENTINEL', REDIS_URL: `mymaster,[::1]:${sentinelPort}` };
    expect(await hitWith(env)).toMatchObject({ code: 'OK' });
  });

  test('a node of a Cluster answers, also if it names another IPv6 node for the counter', async () => {
    const nodes = await Promise.all(
      [0, 1].map(async () => {
        const busPort = await freePort();
        const redis = await redisOnBoth('--cluster-enabled', 'yes', '--cluster-port', String(busPort));
        const client = clientOf(redis);
        closing.push(() => client.disconnect());
        return { redis, busPort, client };
      }),
    );
    const [first, second] = nodes;
    if (!first || !second) throw new Error('expected two nodes');
    await first.client.call('CLUSTER', 'ADDSLOTSRANGE', 0, 8_191);
    await second.client.call('CLUSTER', 'ADDSLOTSRANGE', 8_192, 16_383);
    await second.client.call('CLUSTER', 'MEET', '::1', first.redis.port, first.busPort);
    for (const { client } of nodes)
      await eventually(async () => String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'));
    for (const { redis } of nodes) {
      const env = { REDIS_TYPE: 'CLUSTER', REDIS_URL: `[::1]:${redis.port}` };
      expect(await hitWith(env)).toMatchObject({ code: 'OK' });
    }
  });

  test('memcached answers at [::1]:PORT', async () => {
    const memcached = await startMemcached({ args: ['-l', '::1'] });
    closing.push(() => memcached.stop());
    const env = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `[::1]:${memcached.port}` };
    expect(await hitWith(env)).toMatchObject({ code: 'OK' });
  });
});
