import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { RedisBackend } from '../../src/engine/backends/redis/backend.ts';
import { connect } from '../../src/engine/backends/redis/connect.ts';
import { fakeClock } from '../helpers/clock.ts';
import { openReady, ordinary } from '../helpers/connection.ts';
import { onStillClock } from '../helpers/lasting-counters.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { startCluster, type TestCluster } from '../helpers/redis-topologies.ts';
import { eventually } from '../helpers/until.ts';
import { ownKeyDeviations as deviations } from './deviations.ts';
import { CORPUS, type RecordedCase } from './recorded-case.ts';
import { isPlayable, run } from './run.ts';

/** A time in the middle of every window, away from all boundaries. */
const NOW_MS = 1_700_000_000_000;

let redis: Redis;
let cluster: TestCluster;
beforeAll(async () => {
  [redis, cluster] = await Promise.all([startRedis(), startCluster()]);
});
afterAll(() => Promise.all([redis.stop(), cluster.stop()]));

const stores: Readonly<Record<string, ((clock: () => number) => Promise<Backend>) | undefined>> = {
  memory: async (clock) => createMemoryBackend(clock, { maxCounters: 10_000 }),
  Redis: async (clock) => {
    return new RedisBackend(await openReady(redis), clock, onStillClock);
  },
  'a Cluster': async (clock) => {
    const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
    const connection = connect({ ...ordinary, address: { kind: 'cluster', nodes } });
    const atomic = 'request'; // possible with the keys' hash tag
    const store = new RedisBackend(connection, clock, { ...onStillClock, atomic });
    await eventually(() => store.health().ready);
    return store;
  },
  'a client with an engine': undefined,
};

/** Settings, sinks and control planes concern a whole process: process.test.ts plays them. */
const files = readdirSync(CORPUS).filter((name) => /^0[1-6].*\.json$/.test(name));

describe.each(Object.keys(stores))('on %s', (storeName) => {
  describe.each(files)('%s', (file) => {
    const { configs = {}, cases } = JSON.parse(readFileSync(join(CORPUS, file), 'utf8')) as {
      configs?: Record<string, string>;
      cases: RecordedCase[];
    };

    test.each(cases.filter(isPlayable).map((recorded) => [recorded.name, recorded] as const))(
      '%s',
      async (name, recorded) => {
        const clock = fakeClock(NOW_MS);
        const openStore = stores[storeName];
        const differences = await run(recorded, configs, clock, openStore && (() => openStore(clock)));
        const reason = deviations[name]; // some concern statistics or metadata, which an engine does not have
        if (reason === undefined) expect(differences).toEqual([]);
        else if (openStore) expect({ reason, differences }).not.toEqual({ reason, differences: [] });
      },
    );
  });
});

test('every deviation names a recorded case', () => {
  const names = files.flatMap((file) =>
    JSON.parse(readFileSync(join(CORPUS, file), 'utf8')).cases.map(({ name }: RecordedCase) => name),
  );
  expect(Object.keys(deviations).filter((name) => !names.includes(name))).toEqual([]);
});
