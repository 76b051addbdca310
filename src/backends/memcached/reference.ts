import { capacityOf } from '../../algorithms/index.ts';
import { type Decision, MAX_COUNT } from '../../algorithms/limit.ts';
import { type Operation, signedHits } from '../backend.ts';
import { describeShared } from '../shared-counters.ts';
import type { Clocks, ForeignStates } from './backend.ts';
import type { MemcachedClient } from './client.ts';
import { countIn } from './count.ts';
import { exptimeOf } from './exptime.ts';

/** How often a counter that comes and goes between two commands is tried again. */
const MAX_TRIES = 100;

/**
 * `COUNTER_KEYS=reference` in memcached: counters that envoyproxy/ratelimit counts on as well. They are added to at
 * once, and judged by what came of it.
 */
export const referenceCounters: ForeignStates = {
  has: ({ shared }) => shared !== undefined,
  count: addAll,
};

/** Adds hits, one operation after the other, to a decimal count that others add to as well. */
async function addAll(
  server: () => MemcachedClient,
  key: string,
  operations: readonly Operation[],
  { clock, dateClock }: Required<Clocks>,
): Promise<readonly Decision[]> {
  const decisions: Decision[] = [];
  for (const operation of operations) {
    const { limit, kind, shared } = operation;
    if (!shared) continue; // see `has`
    const count = kind === 'refund' ? -operation.hits : kind === 'peek' ? 0 : signedHits(operation);
    const nowMs = clock();
    if (kind === 'forget') await server().delete(key);
    const exptime = exptimeOf(shared.ttlMs, dateClock());
    const counted = kind === 'forget' ? 0 : Math.min(await added(server(), key, count, exptime), MAX_COUNT);
    const accepted = count < 0 || counted + (kind === 'peek' ? operation.hits : 0) <= capacityOf(limit);
    decisions.push(describeShared(limit, shared, [counted], nowMs, { hits: count, accepted, charged: true }));
  }
  return decisions;
}

/** The count that hits leave. A counter that comes into being between two commands is seen by the third. */
async function added(server: MemcachedClient, key: string, hits: number, exptime: number): Promise<number> {
  if (hits === 0) return countIn((await server.get(key))?.value);
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const count = await server.change(key, hits);
    if (count !== undefined) return count;
    if (hits < 0) return 0;
    if ((await server.add(key, Buffer.from(String(hits)), exptime)) === 'STORED') return hits;
  }
  throw new Error(`the counter came and went ${MAX_TRIES} times in a row`);
}
