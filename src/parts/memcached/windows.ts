import { type Decision, MAX_COUNT } from '../../engine/algorithms/limit.ts';
import { type Operation, signedHits } from '../../engine/backends/backend.ts';
import { algorithmFor, fullCapacity } from '../../engine/holds/limits.ts';
import { type MemcachedClient, safeKey, toExptime } from './client.ts';

/** Maximum number of attempts if a counter appears and disappears between two commands. */
const MAX_TRIES = 100;

/** A window of a counter. */
export interface CountedWindow {
  /** The key of its count. */
  readonly key: string;
  readonly startMs: number;
  readonly endMs: number;
  /** When memcached may drop the count. */
  readonly exptime: number;
}

/**
 * The present window of a counter whose windows follow the clock: a decimal count under a key that names the window, so
 * that `incr` counts. Not `ma`, which would create the count as well: twemproxy and yrmcds do not know it.
 */
export function findWindow(
  { key, limit, shared }: Pick<Operation, 'key' | 'limit' | 'shared'>,
  { nowMs, dateMs }: { readonly nowMs: number; readonly dateMs: number },
): CountedWindow | undefined {
  if (shared) {
    const { windowStartMs: startMs, ttlMs } = shared;
    return { key: safeKey(key), startMs, endMs: startMs + limit.windowMs, exptime: toExptime(ttlMs, dateMs) };
  }
  const { startBefore, windows, step } = algorithmFor(limit);
  if (!startBefore || windows?.(limit) === 'first_hit') return undefined; // its state has the start
  const { ttlMs } = step(limit, undefined, nowMs, 1, true);
  const endMs = nowMs + ttlMs;
  const startMs = startBefore(limit, endMs);
  return { key: safeKey(`${key}|${startMs}`), startMs, endMs, exptime: toExptime(ttlMs, dateMs) };
}

/**
 * Adds the hits of an operation to a count that others change as well, and decides by the sum.
 *
 * @param resetAtMs  receipts of charges up to then are void
 */
export async function countInWindow(
  operation: Operation,
  { key, startMs, endMs, exptime }: CountedWindow,
  {
    server,
    nowMs,
    resetAtMs,
  }: { readonly server: MemcachedClient; readonly nowMs: number; readonly resetAtMs: number },
): Promise<Decision> {
  const { kind, limit, hits } = operation;
  const isVoid = kind === 'refund' && (operation.chargedAtMs < startMs || operation.chargedAtMs <= resetAtMs);
  const isTakenBack = kind === 'refund' || kind === 'forget';
  const added = isVoid || kind === 'peek' || kind === 'forget' ? 0 : isTakenBack ? -hits : signedHits(operation);
  if (kind === 'forget') await server.delete(key);
  const count = await sumAfter(server, key, added, exptime);
  const accepted = isTakenBack || added < 0 || count + (kind === 'peek' ? hits : 0) <= fullCapacity(limit);
  const charged = kind === 'charge' ? 'regardless' : kind !== 'peek' && !isTakenBack;
  const withinMs = Math.min(nowMs, endMs - 1); // it may have passed since the counter was named
  const outcome = { hits: isTakenBack ? 0 : signedHits(operation), accepted, charged } as const;
  return algorithmFor(limit).describe(limit, [startMs, count], withinMs, outcome, operation);
}

/** The count after adding hits. If a counter appears between the first two commands, the third one finds it. */
async function sumAfter(server: MemcachedClient, key: string, hits: number, exptime: number): Promise<number> {
  if (hits === 0) return readCount((await server.get(key))?.value);
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const count = await server.change(key, hits);
    if (count !== undefined) return bounded(server, key, count);
    if (hits < 0) return 0;
    if ((await server.add(key, { value: Buffer.from(String(hits)), exptime })) === 'STORED') return hits;
  }
  throw new Error(`the counter appeared and disappeared ${MAX_TRIES} times in a row`);
}

/** Takes back what exceeds the largest count, so that no hits can make memcached's 64 bits overflow. */
async function bounded(server: MemcachedClient, key: string, count: number): Promise<number> {
  if (count > MAX_COUNT) await server.change(key, MAX_COUNT - count);
  return Math.min(count, MAX_COUNT);
}

/**
 * The decimal count in a value; 0 if there is no value.
 *
 * @throws Error  the counter is not a number
 */
export function readCount(value: Buffer | undefined): number {
  const text = value?.toString('latin1').trim() ?? '0';
  if (!/^\d+$/.test(text)) throw new Error('the counter is not a number');
  return Math.min(Number(text), MAX_COUNT);
}
