import { type Decision, MAX_COUNT } from '../../engine/algorithms/limit.ts';
import { type Operation, signedHits } from '../../engine/backends/backend.ts';
import { describeShared } from '../../engine/backends/shared-counters.ts';
import { fullCapacity } from '../../engine/holds/limits.ts';
import type { Clocks, ForeignCounter, ForeignStates } from './backend.ts';
import { countIn, type MemcachedClient, toExptime } from './client.ts';

/** Maximum number of attempts if a counter appears and disappears between two commands. */
const MAX_TRIES = 100;

/**
 * `COUNTER_KEYS=reference` in memcached: counters that envoyproxy/ratelimit counts on as well. Hits are added first,
 * and decided by the resulting count.
 */
export const referenceCounters: ForeignStates = {
  has: ({ shared }) => shared !== undefined,
  count: addAll,
};

/** Adds hits to a decimal count that others modify as well, one operation after another. */
async function addAll(
  { key, server }: ForeignCounter,
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
    const exptime = toExptime(shared.ttlMs, dateClock());
    const sum = kind === 'forget' ? 0 : await sumAfter(server(), key, { hits: count, exptime });
    const counted = Math.min(sum, MAX_COUNT);
    const accepted = count < 0 || counted + (kind === 'peek' ? operation.hits : 0) <= fullCapacity(limit);
    decisions.push(describeShared(limit, shared, [counted], nowMs, { hits: count, accepted, charged: true }));
  }
  return decisions;
}

/** The count after adding hits. If a counter appears between the first two commands, the third one finds it. */
async function sumAfter(
  server: MemcachedClient,
  key: string,
  { hits, exptime }: { readonly hits: number; readonly exptime: number },
): Promise<number> {
  if (hits === 0) return countIn((await server.get(key))?.value);
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const count = await server.change(key, hits);
    if (count !== undefined) return count;
    if (hits < 0) return 0;
    if ((await server.add(key, { value: Buffer.from(String(hits)), exptime })) === 'STORED') return hits;
  }
  throw new Error(`the counter appeared and disappeared ${MAX_TRIES} times in a row`);
}
