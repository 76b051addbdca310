import slotOf from 'cluster-key-slot';
import { Cluster } from 'ioredis';
import type { Clock } from '../../clock.ts';
import { applyInParts } from '../parts.ts';
import type { Store, Unavailable } from '../store.ts';
import { type Asked, type Batch, decodeBatch, encodeBatch } from './batch.ts';
import { Batcher } from './batcher.ts';
import type { Connection } from './connect.ts';
import { script } from './script.ts';

/**
 * Counters in a Redis that any number of instances share, decided on Redis's clock: one script call a request, on a Cluster one for
 * each slot that its counters are in, side by side.
 *
 * @param redis   a connection of `connect`; closed with the store
 * @param clock   this process's: calendar windows are looked for around it, since Redis knows no time zones
 * @param atomic  of a Cluster whose keys have their domain as hash tag, and of anything else, the request
 * @param replay  only for tests: Redis decides on `clock`, too, instead of its own
 */
export function createRedisStore(
  redis: Connection,
  clock: Clock,
  { atomic = 'request', replay = false }: { readonly atomic?: Store['atomic']; readonly replay?: boolean } = {},
): Store {
  let lastError = 'not connected yet';
  redis.on('error', (error: Error) => {
    lastError = error.message;
  });

  const call = async ({ keys, packed }: Batch, nowMs: number): Promise<Buffer> => {
    const args = [keys.length, ...keys, packed, ...(replay ? [nowMs] : [])];
    try {
      return bytes(await redis.callBuffer('EVALSHA', script.sha1, ...args));
    } catch (error) {
      if (!isNoScript(error)) throw error;
      return bytes(await redis.callBuffer('EVAL', script.text, ...args)); // refused before it ran: safe to ask again
    }
  };

  const send = async (requests: readonly Asked[]) => {
    const nowMs = clock();
    return decodeBatch(await call(encodeBatch(requests, nowMs), nowMs), requests, nowMs);
  };
  const unavailable = (reason: string): Unavailable => ({ code: 'UNAVAILABLE', reason: `redis: ${reason}` });
  const batchers = new Map<number, Batcher>();
  const applyTo =
    (slot: number): Store['apply'] =>
    (hits, { spend, timeoutMs }) => {
      const batcher = batchers.get(slot) ?? new Batcher({ send, unavailable, maxUnderWay: MAX_UNDER_WAY });
      batchers.set(slot, batcher);
      return batcher.apply({ hits, spend }, timeoutMs);
    };
  const isUsable = (): boolean => redis.status === 'ready';
  const isWhole = (): boolean =>
    !(redis instanceof Cluster) || redis.nodes('master').every(({ status }) => status === 'ready');

  return {
    atomic,
    async apply(hits, how) {
      if (!isUsable()) return hits.map(() => unavailable(lastError));
      if (!(redis instanceof Cluster)) return applyTo(ONE_NODE)(hits, how);
      return applyInParts(hits, how, ({ key }) => slotOf(key), applyTo); // a call may touch keys of one slot
    },
    state: () => (isUsable() && isWhole() ? { ready: true } : { ready: false, reason: lastError }),
    async close() {
      redis.disconnect();
    },
  };
}

/** Stands for all slots where one node has them all. */
const ONE_NODE = -1;
/** Calls to a node at a time: while one is counted, the next is gathered. */
const MAX_UNDER_WAY = 2;

function bytes(reply: unknown): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  throw new TypeError(`expected the script's packed reply, got ${typeof reply}`);
}

const isNoScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith('NOSCRIPT');
