import { createClient } from '../helpers/grpc-client.ts';
import { startRedis } from '../helpers/redis.ts';
import { clientOf } from '../helpers/redis-topologies.ts';
import { until } from '../helpers/until.ts';
import { startWeir } from '../helpers/weir.ts';

test.each(['1', '2'])(
  'a service of %s process decides scratch requests before it opens, and shows none of them',
  async (WORKERS) => {
    const redis = await startRedis();
    const operator = clientOf(redis);
    const weir = await startWeir({
      ...{ REDIS_URL: redis.url, RULES_PATH: 'config/rules.yaml', WORKERS, USE_STATSD: 'false' },
      LOCAL_CACHE_SIZE_IN_BYTES: '1000000',
    });
    const client = createClient(`127.0.0.1:${weir.grpcPort}`);
    try {
      const stats = await operator.info('commandstats'); // scripts count many counters, and commands few
      const calls = Array.from(stats.matchAll(/cmdstat_(?:evalsha|incrby):calls=(\d+)/g), ([, count]) => Number(count));
      expect(calls.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(10);
      await until('no scratch counters', async () => !(await operator.keys('*')).join().includes('warm-up'));
      const metrics = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
      expect(metrics).not.toContain('warm-up');
      expect(metrics).not.toMatch(/^weir_(answers|undecided|requests|cache_\w+)_total(\{.*\})? [1-9]/m);
      const answer = await client.ask('weir warm-up');
      expect(answer).toMatchObject({ statuses: [{ code: 1 }] });
    } finally {
      client.close();
      await weir.stop();
      operator.disconnect();
      await redis.stop();
    }
  },
);
