import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Redis as Connection } from 'ioredis';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { RedisBackend } from '../../src/parts/redis/backend.ts';
import { connect } from '../../src/parts/redis/connect.ts';
import { fakeClock } from '../helpers/clock.ts';
import { openReady, ordinary } from '../helpers/connection.ts';
import { onStillClock } from '../helpers/lasting-counters.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { startCluster, type TestCluster } from '../helpers/redis-topologies.ts';
import { eventually } from '../helpers/until.ts';
import { ownKeyDeviations, processDeviations } from './deviations.ts';
import { CORPUS, type RecordedCase } from './recorded-case.ts';
import { isPlayable, isPlayableWithKeys, run, type StoreUnderTest } from './run.ts';

/** A time in the middle of every window, away from all boundaries. */
const NOW_MS = 1_700_000_000_000;

let redis: Redis;
let operator: Connection;
let cluster: TestCluster;
beforeAll(async () => {
  [redis, cluster] = await Promise.all([startRedis(), startCluster()]);
  operator = await openReady(redis);
});
afterAll(async () => {
  operator.disconnect();
  await Promise.all([redis.stop(), cluster.stop()]);
});

interface Store {
  /** Undefined: a client with an engine. */
  readonly open: ((clock: () => number) => Promise<StoreUnderTest>) | undefined;
  readonly isPlayed: (recorded: RecordedCase) => boolean;
  readonly deviations: Readonly<Record<string, string>>;
}
const own = { isPlayed: isPlayable, deviations: ownKeyDeviations };

const stores = {
  memory: { ...own, open: async (clock) => ({ backend: createMemoryBackend(clock, { maxCounters: 10_000 }) }) },
  Redis: {
    ...own,
    open: async (clock) => ({ backend: new RedisBackend(await openReady(redis), clock, onStillClock) }),
  },
  "Redis under the other service's keys": {
    isPlayed: isPlayableWithKeys,
    deviations: processDeviations,
    async open(clock) {
      await operator.flushall();
      return { backend: new RedisBackend(await openReady(redis), clock, onStillClock), redis: operator };
    },
  },
  'a Cluster': {
    ...own,
    async open(clock) {
      const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
      const connection = connect({ ...ordinary, address: { kind: 'cluster', nodes } });
      const atomic = 'request'; // possible with the keys' hash tag
      const backend = new RedisBackend(connection, clock, { ...onStillClock, atomic });
      await eventually(() => backend.health().ready);
      return { backend };
    },
  },
  'a client with an engine': { ...own, open: undefined },
} satisfies Readonly<Record<string, Store>>;

/** Settings, sinks and control planes concern a whole process: process.long.test.ts plays them. */
export const files = readdirSync(CORPUS).filter((name) => /^0[1-6].*\.json$/.test(name));

/** Plays the recorded cases on each of these stores. */
export const playOn = (...names: readonly (keyof typeof stores)[]): void =>
  describe.each(names)('on %s', (store) => {
    const { open, isPlayed, deviations } = stores[store];
    describe.each(files)('%s', (file) => {
      const { configs = {}, cases } = JSON.parse(readFileSync(join(CORPUS, file), 'utf8')) as {
        configs?: Record<string, string>;
        cases: RecordedCase[];
      };
      const played = cases.filter(isPlayed);
      if (played.length === 0) return;

      test.each(played.map((recorded) => [recorded.name, recorded] as const))('%s', async (name, recorded) => {
        const clock = fakeClock(NOW_MS);
        const differences = await run(recorded, configs, clock, open && (() => open(clock)));
        const reason = deviations[name]; // some concern statistics or metadata, which an engine does not have
        if (reason === undefined) expect(differences).toEqual([]);
        else if (open) expect({ reason, differences }).not.toEqual({ reason, differences: [] });
      });
    });
  });
