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

const failures: readonly ((server: Stoppable) => Promise<void> | void)[] = [
  (server) => server.kill(),
  (server) => server.pause(),
];

const hit = (key: string) => ({ domain: 'demo', descriptors: [{ entries: [{ key, value: 'alice' }] }] });

/** Runs a test of a service on its own store. */
async function on(name: string, test: (weir: Administered, store: Store) => Promise<void>): Promise<void> {
  const store = (await (stores[name] ?? stores['one Redis'])?.()) as Store; // an existing name
  const weir = await startAdministered(RULES, { STORE_TIMEOUT: '100ms', ...store.env });
  try {
    await test(weir, store);
  } finally {
    await weir.weir.stop('SIGKILL'); // else it would wait for its store
    await weir.stop();
    await Promise.all(store.servers.map((server) => server.stop()));
  }
}

/** The answer of /json, without its times. */
async function asked({ weir }: Administered, key: string) {
  const url = `http://127.0.0.1:${weir.httpPort}/json`;
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(hit(key)) });
  const text = await response.text();
  return response.headers.get('content-type')?.includes('json')
    ? { status: response.status, answer: timeless(JSON.parse(text)) }
    : { status: response.status, answer: undefined };
}

const timeless = (answer: unknown): unknown =>
  answer && JSON.parse(JSON.stringify(answer).replace(/"durationUntilReset":"[\d.]+s"/g, '"durationUntilReset":"…"'));

test.each(Object.keys(stores))(
  'on %s that is down or does not answer, explain has the next answer of each failure policy and no state, and counters cannot be shown or changed',
  async (name) => {
    const failing = (fail: (typeof failures)[number]) =>
      on(name, async (weir, store) => {
        // on a busy machine, even a healthy store may be too late at times
        for (const key of POLICIES)
          await until(`a hit of ${key} is counted`, async () => (await asked(weir, key)).status === 200);
        await Promise.all(store.servers.map(fail));
        for (let round = 0; round < 2; round++)
          for (const key of POLICIES) {
            const { body } = await weir.call('POST', '/api/v1/explain', hit(key));
            const explained = { status: body.status, answer: timeless(body.answer) };
            expect({ key, ...explained }).toEqual({ key, ...(await asked(weir, key)) });
            expect(body.descriptors[0].limits).toMatchObject([
              { failure: expect.stringMatching(`^${store.name}: `), ...(key !== 'none' && { source: key }) },
            ]);
            expect(body.descriptors[0].limits[0]).not.toHaveProperty('before');
            expect(body.descriptors[0].limits[0]).not.toHaveProperty('after');
          }
        const change = { domain: 'demo', descriptor: [{ key: 'deny', value: 'alice' }], reason: 'test' };
        const override = { ...change, effect: 'block', until: inAnHour() };
        const requests: readonly Parameters<Administered['call']>[] = [
          ['GET', '/api/v1/counters?domain=demo&descriptor=deny=alice'],
          ['POST', '/api/v1/counters/reset', change],
          ['POST', '/api/v1/counters/grant', { ...change, hits: 1 }],
        ];
        const ofRecords: typeof requests = [
          ['GET', '/api/v1/counters'],
          ['GET', '/api/v1/overrides'],
          ['PUT', '/api/v1/overrides', override],
          ['GET', '/api/v1/audit'],
        ];
        for (const request of name === 'one Redis' ? [...requests, ...ofRecords] : requests)
          expect(await weir.call(...request)).toMatchObject({
            status: 503,
            body: { detail: expect.stringMatching(`^${store.name}: `) },
          });
        expect(weir.weir.output()).not.toContain('"change"'); // changes that were not attempted are not audited
        expect(weir.weir.output()).not.toContain('an operation of the admin API failed');
      });
    await Promise.all(failures.map(failing));
  },
);

test('explain warns of a Redis that lets counters be read but not changed', () =>
  on('one Redis', async (weir, store) => {
    const explained = async () => (await weir.call('POST', '/api/v1/explain', hit('deny'))).body;
    await until('a hit is counted', async () => (await asked(weir, 'deny')).status === 200);
    expect(await explained()).not.toHaveProperty('warning');
    const operator = await openReady({ port: Number(new URL(`redis://${store.env.REDIS_URL}`).port) });
    await operator.replicaof('127.0.0.1', 1); // a replica refuses writes
    operator.disconnect();
    await until('a call gets the failure policy', async () => (await asked(weir, 'deny')).status === 429);
    await until('the warning', async () => 'warning' in (await explained()));
    expect((await explained()).warning).toMatch(
      /^the store does not count \(READONLY .*\): calls follow on_store_failure$/,
    );
  }));

const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();
