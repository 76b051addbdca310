import type { CounterKey } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { MemcachedBackend } from '../../../src/parts/memcached/backend.ts';
import type { MemcachedClient } from '../../../src/parts/memcached/client.ts';
import { type MemcachedServers, openServers } from '../../../src/parts/memcached/servers.ts';
import { findWindow } from '../../../src/parts/memcached/windows.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { type Memcached, startMemcached } from '../../helpers/memcached.ts';
import { operationOf } from '../../helpers/operations.ts';
import {
  RECORDED_FROM_MS,
  type RecordedCall,
  recordedCounters,
  sameAnswer,
  sharesCounter,
} from '../../helpers/previous-build.ts';
import { eventually } from '../../helpers/until.ts';

const HOUR_S = 3_600;
const PATIENT = { spend: 'each', timeoutMs: 10_000 } as const;
const monotonicMs = () => performance.now();

let memcached: Memcached;
let servers: MemcachedServers;
let backend: MemcachedBackend;
let client: MemcachedClient;
const clock = fakeClock(RECORDED_FROM_MS);
beforeAll(async () => {
  memcached = await startMemcached();
  const open = async () => {
    const options = { servers: [memcached.address], tls: undefined, monotonicMs, onDown: () => {}, onUp: () => {} };
    const opened = openServers(options);
    await eventually(() => opened.health().ready);
    return opened;
  };
  servers = await open();
  client = servers.of('') as MemcachedClient; // the only server has all keys
  backend = new MemcachedBackend(await open(), { clock, monotonicMs, dateClock: Date.now });
});
beforeEach(() => clock.set(RECORDED_FROM_MS));
afterAll(async () => {
  await backend.close();
  servers.close();
  await memcached.stop();
});

/** Windows that follow the clock have other keys than in the previous build. */
const isKept = (limit: Limit): boolean =>
  sharesCounter(limit) &&
  limit.algorithm !== 'sliding_window_log' &&
  !findWindow({ key: '' as CounterKey, limit }, NOW);
const NOW = { nowMs: RECORDED_FROM_MS, dateMs: RECORDED_FROM_MS };

test.each(recordedCounters.filter(({ limit }) => isKept(limit)))(
  'this build continues from each state of $key for $limit.requestsPerUnit hits with the answers and the state of the previous build',
  async ({ key, limit, calls }) => {
    let before: RecordedCall['stored'];
    for (const { nowMs, hits, answer, stored } of calls) {
      clock.set(nowMs);
      await (before ? client.set(key, { value: before, exptime: HOUR_S }) : client.delete(key));
      const operation = operationOf({ key: key as CounterKey }, limit, hits, true); // it was recorded as one
      const [reply] = await backend.run([operation], PATIENT);
      expect({ nowMs, hits, ...reply }).toMatchObject({ nowMs, hits, ...sameAnswer(limit, answer) });
      // a state that is as good as none is kept for a second: proxies refuse a negative expiry
      if (stored) expect({ nowMs, hits, stored: (await client.get(key))?.value }).toEqual({ nowMs, hits, stored });
      before = stored;
    }
  },
);
