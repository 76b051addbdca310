import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Redis as Client } from 'ioredis';
import { CountersUnavailable, createEngine, type Engine } from '../../src/engine/index.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { clientOf, startCluster } from '../helpers/redis-topologies.ts';
import { eventually } from '../helpers/until.ts';

const LIMIT = 3;
/** Longer than any refusal is repeated without the store while it answers. */
const REPEATED_MS = 1_100;
const rules = `domain: d
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: ${LIMIT} }
`;

let redis: Redis;
let operator: Client;
let engine: Engine;
beforeEach(async () => {
  redis = await startRedis({ args: ['--lua-time-limit', '20'] });
  operator = clientOf(redis);
  operator.on('error', () => {}); // it is killed, too
  engine = await createEngine({
    rules: { text: rules },
    store: { redis: { address: { kind: 'tcp', tls: false, host: '127.0.0.1', port: redis.port, database: 0 } } },
  });
});
afterEach(async () => {
  await engine.close();
  operator.disconnect();
  await redis.stop();
});

/** Requests of one user, one after another. @returns what became of them, without repetitions */
async function ask(user: string, times: number, asked = engine): Promise<readonly string[]> {
  const outcomes = new Set<string>();
  for (let time = 0; time < times; time++) {
    await nextTurn(); // answers from memory need none
    const request = { domain: 'd', descriptors: [{ entries: [{ key: 'user', value: user }] }] };
    const answer = asked.decide(request, { timeoutMs: 1_000 }).then(({ overallCode }) => overallCode);
    outcomes.add(
      await answer.catch((error: unknown) => {
        if (error instanceof CountersUnavailable) return 'UNDECIDED';
        throw error;
      }),
    );
  }
  return [...outcomes];
}

/** Begins a fault of the store, and returns its end. */
type Fault = () => Promise<() => unknown>;

const faults: readonly (readonly [string, Fault])[] = [
  [
    'is stopped',
    async () => {
      redis.pause();
      return () => redis.resume();
    },
  ],
  [
    'is killed and starts again without its counters',
    async () => {
      await redis.kill();
      return () => redis.restart();
    },
  ],
  [
    'has no memory left',
    async () => {
      await operator.config('SET', 'maxmemory', '1');
      return () => operator.config('SET', 'maxmemory', '0');
    },
  ],
  [
    'is a replica',
    async () => {
      await operator.replicaof('127.0.0.1', 1);
      return () => operator.replicaof('NO', 'ONE');
    },
  ],
  [
    'is busy with a script',
    async () => {
      const other = operator.duplicate();
      void other.eval('while true do end', 0).catch(() => {});
      await eventually(
        async () => String(await operator.ping().catch(String)).includes('BUSY'),
        () => 'not busy',
      );
      return async () => {
        await operator.script('KILL');
        other.disconnect();
      };
    },
  ],
  [
    'has a value of another program in the place of the counter',
    async () => {
      for (const key of await operator.keys('*')) await operator.multi().del(key).lpush(key, 'value').exec();
      return () => {};
    },
  ],
  [
    'closes the connections',
    async () => {
      await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      return () => {};
    },
  ],
];

test.each(faults)(
  'a caller that is known to be over its limit does not pass while and after the store %s',
  async (_, begin) => {
    expect(await ask('known', LIMIT)).toEqual(['OK']);
    expect(await ask('known', 1)).toEqual(['OVER_LIMIT']);
    const end = await begin();
    const enoughMs = performance.now() + REPEATED_MS;
    while (performance.now() < enoughMs) expect(await ask('known', 30)).toEqual(['OVER_LIMIT']);
    await end();
    for (let isBack = false; !isBack; ) {
      expect(await ask('known', 1)).toEqual(['OVER_LIMIT']);
      isBack = (await ask(`new ${Math.random()}`, 1)).includes('OK');
    }
    expect(await ask('known', 30)).toEqual(['OVER_LIMIT']);
  },
);

test('a caller that is known to be over its limit does not pass after a node of a Cluster has lost its counters', async () => {
  const cluster = await startCluster();
  const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  const clustered = await createEngine({
    rules: { text: rules },
    store: { redis: { address: { kind: 'cluster', tls: false, nodes } } },
  });
  try {
    await eventually(async () => (await ask('known', 1, clustered)).includes('OK'));
    while (!(await ask('known', 1, clustered)).includes('OVER_LIMIT'));
    for (const node of cluster.clients)
      if ((await node.keys('*known*')).length > 0)
        await node.multi().flushall().call('CLIENT', 'KILL', 'TYPE', 'normal').exec();
    const enoughMs = performance.now() + REPEATED_MS;
    while (performance.now() < enoughMs) expect(await ask('known', 30, clustered)).toEqual(['OVER_LIMIT']);
    await eventually(async () => (await ask(`new ${Math.random()}`, 1, clustered)).includes('OK'));
    expect(await ask('known', 30, clustered)).toEqual(['OVER_LIMIT']);
  } finally {
    await clustered.close();
    await cluster.stop();
  }
});

test('a caller that is known to be over its limit does not pass when another Redis is connected to again', async () => {
  const second = await startRedis();
  const addressOf = ({ port }: Redis) => ({ kind: 'tcp', tls: false, host: '127.0.0.1', port, database: 0 }) as const;
  const divided = await createEngine({
    rules: { text: rules },
    store: { redis: { address: addressOf(redis) }, perSecond: { address: addressOf(second) } },
  });
  const ofSecond = clientOf(second);
  try {
    while (!(await ask('known', 1, divided)).includes('OVER_LIMIT'));
    await redis.kill();
    await redis.restart();
    await eventually(async () => (await ask(`new ${Math.random()}`, 1, divided)).includes('OK'));
    const connections = async () => Number(/total_connections_received:(\d+)/.exec(await ofSecond.info('stats'))?.[1]);
    const before = await connections();
    await ofSecond.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(async () => (await connections()) > before);
    const enoughMs = performance.now() + REPEATED_MS;
    while (performance.now() < enoughMs) expect(await ask('known', 30, divided)).toEqual(['OVER_LIMIT']);
  } finally {
    ofSecond.disconnect();
    await divided.close();
    await second.stop();
  }
});
