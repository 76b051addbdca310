import '../../helpers/realm.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { openReady } from '../../helpers/connection.ts';
import { startMemcached } from '../../helpers/memcached.ts';
import { startRedis } from '../../helpers/redis.ts';
import { startCluster } from '../../helpers/redis-topologies.ts';
import type { Stoppable } from '../../helpers/stoppable.ts';
import { until } from '../../helpers/until.ts';

const POLICIES = ['allow', 'deny', 'local', 'none'] as const;
/** A process that is late on a busy machine decides as if it were not. */
const RULES = `
domain: demo
descriptors:
  - {key: allow, rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: allow, on_overload: error}}
  - {key: deny, rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: deny, on_overload: error}}
  - {key: local, rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: local}}
  - {key: none, rate_limit: {unit: year, requests_per_unit: 5, on_overload: error}}
`;

interface Store {
  readonly servers: readonly Stoppable[];
  readonly env: Readonly<Record<string, string>>;
  /** The prefix of each reason. */
  readonly name: 'redis' | 'memcached';
}

const stores: Readonly<Record<string, () => Promise<Store>>> = {
  'one Redis': async () => {
    const server = await startRedis();
    return { servers: [server], env: { REDIS_URL: server.url }, name: 'redis' };
  },
  'a Redis Cluster': async () => {
    const { nodes, clients } = await startCluster();
    for (const client of clients) client.disconnect();
    const urls = nodes.map(({ url }) => url).join(',');
    return { servers: nodes, env: { REDIS_TYPE: 'CLUSTER', REDIS_URL: urls }, name: 'redis' };
  },
  memcached: async () => {
    const server = await startMemcached();
    return {
      servers: [server],
      env: { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: server.address },
      name: 'memcached',
    };
  },
};

const failures: Readonly<Record<string, (server: Stoppable) => Promise<void> | void>> = {
  'is down': (server) => server.kill(),
  'does not answer': (server) => server.pause(),
};

let store: Store;
let weir: Administered;
const start = async (name: string): Promise<void> => {
  store = (await (stores[name] ?? stores['one Redis'])?.()) as Store; // an existing name
  weir = await startAdministered(RULES, { STORE_TIMEOUT: '100ms', ...store.env });
};
const hit = (key: string) => ({ domain: 'demo', descriptors: [{ entries: [{ key, value: 'alice' }] }] });
const failAll = (fail: (server: Stoppable) => Promise<void> | void) => Promise.all(store.servers.map(fail));

afterEach(async () => {
  await weir.weir.stop('SIGKILL'); // else it would wait for its store
  await weir.stop();
  await Promise.all(store.servers.map((server) => server.stop()));
});

/** The answer of /json, without its times. */
async function asked(key: string): Promise<{ readonly status: number; readonly answer: unknown }> {
  const url = `http://127.0.0.1:${weir.weir.httpPort}/json`;
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(hit(key)) });
  const text = await response.text();
  return response.headers.get('content-type')?.includes('json')
    ? { status: response.status, answer: timeless(JSON.parse(text)) }
    : { status: response.status, answer: undefined };
}

const timeless = (answer: unknown): unknown =>
  answer && JSON.parse(JSON.stringify(answer).replace(/"durationUntilReset":"[\d.]+s"/g, '"durationUntilReset":"…"'));

describe.each(Object.keys(stores))('on %s', (name) => {
  test.each(Object.entries(failures))(
    'that %s, explain has the next answer of each failure policy and no state, and counters cannot be shown or changed',
    async (_, fail) => {
      await start(name);
      // on a busy machine, even a healthy store may be too late at times
      for (const key of POLICIES)
        await until(`a hit of ${key} is counted`, async () => (await asked(key)).status === 200);
      await failAll(fail);
      for (let round = 0; round < 2; round++)
        for (const key of POLICIES) {
          const { body } = await weir.call('POST', '/api/v1/explain', hit(key));
          const explained = { status: body.status, answer: timeless(body.answer) };
          expect({ key, ...explained }).toEqual({ key, ...(await asked(key)) });
          expect(body.descriptors[0].limits).toMatchObject([
            { failure: expect.stringMatching(`^${store.name}: `), ...(key !== 'none' && { source: key }) },
          ]);
          expect(body.descriptors[0].limits[0]).not.toHaveProperty('before');
          expect(body.descriptors[0].limits[0]).not.toHaveProperty('after');
        }

      const problem = { status: 503, body: { detail: expect.stringMatching(`^${store.name}: `) } };
      expect(await weir.call('GET', '/api/v1/counters?domain=demo&descriptor=deny=alice')).toMatchObject(problem);
      const change = { domain: 'demo', descriptor: [{ key: 'deny', value: 'alice' }], reason: 'test' };
      expect(await weir.call('POST', '/api/v1/counters/reset', change)).toMatchObject(problem);
      expect(await weir.call('POST', '/api/v1/counters/grant', { ...change, hits: 1 })).toMatchObject(problem);
      expect(weir.weir.output()).not.toContain('"change"'); // changes that were not attempted are not audited
      if (name !== 'one Redis') return;
      const override = { ...change, effect: 'block', until: inAnHour() };
      expect(await weir.call('GET', '/api/v1/counters')).toMatchObject(problem);
      expect(await weir.call('GET', '/api/v1/overrides')).toMatchObject(problem);
      expect(await weir.call('PUT', '/api/v1/overrides', override)).toMatchObject(problem);
      expect(await weir.call('GET', '/api/v1/audit')).toMatchObject(problem);
      expect(weir.weir.output()).not.toContain('an operation of the admin API failed');
    },
  );
});

test('explain warns of a Redis that lets counters be read but not changed', async () => {
  await start('one Redis');
  await until('a hit is counted', async () => (await asked('deny')).status === 200);
  expect((await weir.call('POST', '/api/v1/explain', hit('deny'))).body).not.toHaveProperty('warning');
  const operator = await openReady({ port: Number(new URL(`redis://${store.env.REDIS_URL}`).port) });
  await operator.replicaof('127.0.0.1', 1); // a replica refuses writes
  operator.disconnect();
  await until('a call gets the failure policy', async () => (await asked('deny')).status === 429);
  const warned = {
    warning: expect.stringMatching('^the store does not count \\(READONLY .*\\): calls follow on_store_failure$'),
  };
  await until('the warning', async () => 'warning' in (await weir.call('POST', '/api/v1/explain', hit('deny'))).body);
  expect((await weir.call('POST', '/api/v1/explain', hit('deny'))).body).toMatchObject(warned);
});

const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();
