import { createClient } from '../helpers/grpc-client.ts';
import { startRedis } from '../helpers/redis.ts';
import { clientOf } from '../helpers/redis-topologies.ts';
import { eventually } from '../helpers/until.ts';
import { startWeir } from '../helpers/weir.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const requestOf = (value: string) => ({
  domain: 'demo',
  descriptors: [{ entries: [{ key: 'user', value }], limit: null, hits_addend: null, is_negative_hits: false }],
  hits_addend: 1,
});

test('the requests of a batch share one call to Redis, and are counted like others', async () => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const observer = clientOf(redis);
  closing.push(() => observer.disconnect());
  const env = { RULES_PATH: 'config/rules.yaml', USE_STATSD: 'false' };
  const weir = await startWeir({ ...env, BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: redis.url });
  closing.push(weir.stop);
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  closing.push(client.close);
  const scriptCalls = async (): Promise<number> =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await observer.info('commandstats'))?.[1] ?? 0);

  await client.decide([requestOf('first')]); // loads the script into Redis
  let batches = 0;
  await eventually(async () => {
    const before = await scriptCalls();
    const { answers } = await client.decide(Array.from({ length: 60 }, (_, at) => requestOf(`user-${batches}-${at}`)));
    batches++;
    expect(answers).toHaveLength(60);
    for (const answer of answers) expect(answer).toMatchObject({ response: { overall_code: 1 } });
    return (await scriptCalls()) - before === 1; // there is one more when the store is checked, which is once a second
  });

  const text = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
  const hits = 1 + 60 * batches;
  expect(text).toContain(`weir_hits_total{domain="demo",rule="user",algorithm="fixed_window"} ${hits}\n`);
  expect(text).toMatch(new RegExp(`_count\\{[^}]*method="Decide"[^}]*\\} ${1 + batches}\n`));
});
