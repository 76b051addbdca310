import { swap } from '../../../../src/engine/backends/cas.ts';
import { type CounterKey, createCounterKeys } from '../../../../src/engine/backends/key.ts';
import { MemcachedBackend } from '../../../../src/engine/backends/memcached/backend.ts';
import type { MemcachedClient } from '../../../../src/engine/backends/memcached/client.ts';
import { type MemcachedServers, openServers } from '../../../../src/engine/backends/memcached/servers.ts';
import { fakeClock } from '../../../helpers/clock.ts';
import { limitsOfEach } from '../../../helpers/limits.ts';
import { type Memcached, startMemcached } from '../../../helpers/memcached.ts';
import { operationOf } from '../../../helpers/operations.ts';
import {
  previousLimit,
  RECORDED_FROM_MS,
  type RecordedCall,
  recordedCounters,
  recordedFlood,
  sameAnswer,
  sharesCounter,
} from '../../../helpers/previous-build.ts';
import { eventually } from '../../../helpers/until.ts';

const HOUR_MS = 3_600_000;
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

test.each(recordedCounters.filter(({ limit }) => sharesCounter(limit) && limit.algorithm !== 'sliding_window_log'))(
  'this build continues from each state of $key for $limit.requestsPerUnit hits with the answers and the state of the previous build',
  async ({ key, limit, calls }) => {
    let before: RecordedCall['stored'];
    for (const { nowMs, hits, answer, stored } of calls) {
      clock.set(nowMs);
      await (before ? client.set(key, before, HOUR_S) : client.delete(key));
      const operation = operationOf({ key: key as CounterKey }, limit, hits, true); // it was recorded as one
      const [reply] = await backend.run([operation], PATIENT);
      expect({ nowMs, hits, ...reply }).toMatchObject({ nowMs, hits, ...sameAnswer(limit, answer) });
      expect({ nowMs, hits, stored: (await client.get(key))?.value }).toEqual({ nowMs, hits, stored });
      before = stored;
    }
  },
);

/** Single hits on a new counter by the previous build, which reads a state and swaps it for the next one. */
async function previousHits(key: string, states: readonly Buffer[], times: number): Promise<number> {
  let admitted = 0;
  for (let hit = 0; hit < times; hit++) {
    const at = await swap(client, key, (value) => {
      const found = value ? states.findIndex((state) => state.equals(value)) : -1;
      if (value && found < 0) throw new Error(`the previous build does not write ${value.toString('hex')}`);
      const next = states[found + 1];
      return { result: found, ...(next && { next: { value: next, exptime: HOUR_S } }) };
    });
    if (at < 19) admitted++; // the first states are those of 1 to 20 hits
  }
  return admitted;
}

test.each(limitsOfEach(20, HOUR_MS).filter(({ algorithm }) => algorithm !== 'sliding_window_log'))(
  'this build and the states of the previous one together admit the limit of $counter, or twice that if its key has changed',
  async (limit) => {
    const keys = createCounterKeys('both:');
    const [key, before] = [keys(limit, 'demo', []), keys(previousLimit(limit), 'demo', [])];
    await Promise.all([client.delete(key), client.delete(before)]);
    const spend = operationOf({ key }, limit, 1, true);
    const [old, ...replies] = await Promise.all([
      previousHits(before, recordedFlood(limit), 24),
      ...Array.from({ length: 24 }, async () => backend.run([spend], PATIENT)),
    ]);
    const codes = replies.flat().map(({ code }) => code);
    expect(codes).not.toContain('UNAVAILABLE');
    expect(old + codes.filter((code) => code === 'OK').length).toBe(sharesCounter(limit) ? 20 : 40);
  },
);
