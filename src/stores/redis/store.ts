import slotOf from 'cluster-key-slot';
import { Cluster } from 'ioredis';
import type { Clock } from '../../clock.ts';
import { Breakers } from '../breaker.ts';
import { applyInParts } from '../parts.ts';
import type { Store, Unavailable } from '../store.ts';
import { type Answers, type Asked, type Batch, decodeBatch, encodeBatch } from './batch.ts';
import { Batcher } from './batcher.ts';
import type { Connection } from './connect.ts';
import { reasonOf } from './reason.ts';
import { script } from './script.ts';

export interface RedisStoreOptions {
  /** Of a Cluster whose keys do not have their domain as hash tag, the counter. */
  readonly atomic?: Store['atomic'];
  /** Only for tests: Redis decides on the clock that is given, too, instead of its own. */
  readonly replay?: boolean;
  /** What operators call it; the nodes of a Cluster have their own names. */
  readonly name?: string;
  /** A call that takes longer counts as failed: `Breaker`. */
  readonly slowMs?: number;
  readonly breakers?: Breakers;
}

/**
 * Counters in a Redis that any number of instances share, decided on Redis's clock: one script call for all that is asked at a time, on a
 * Cluster one for each slot, side by side.
 *
 * @param redis   a connection of `connect`; closed with the store
 * @param clock   this process's: calendar windows are looked for around it, since Redis knows no time zones
 */
export function createRedisStore(
  redis: Connection,
  clock: Clock,
  {
    atomic = 'request',
    replay = false,
    name = 'redis',
    slowMs = 1_000,
    breakers = new Breakers(),
  }: RedisStoreOptions = {},
): Store {
  let lastError = 'not connected yet';
  redis.on('error', (error: Error) => {
    lastError = reasonOf(error);
  });
  redis.on('ready', () => {
    lastError = 'the connection was lost'; // the next one that is missing
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

  const count = async (requests: readonly Asked[]): Promise<readonly Answers[]> => {
    const nowMs = clock();
    return decodeBatch(await call(encodeBatch(requests, nowMs), nowMs), requests, nowMs);
  };
  const unavailable = (reason: string): Unavailable => ({ code: 'UNAVAILABLE', reason: `redis: ${reason}` });
  const countAlone = async (request: Asked): Promise<Answers> => {
    try {
      return (await count([request]))[0] ?? [];
    } catch (error) {
      return request.hits.map(() => unavailable(reasonOf(error)));
    }
  };
  const send = async (requests: readonly Asked[]): Promise<readonly Answers[]> => {
    try {
      return await count(requests);
    } catch (error) {
      if (requests.length === 1 || !isHalfMoved(error)) throw error;
      return Promise.all(requests.map(countAlone)); // a counter by itself can always be found
    }
  };
  const batchers = new Map<number, Batcher>();
  const nodeOf = (slot: number): string => (redis instanceof Cluster ? redis.slots[slot]?.[0] : undefined) ?? name;
  const newBatcher = (slot: number): Batcher =>
    new Batcher({
      ...{ send, unavailable, slowMs, maxUnderWay: MAX_UNDER_WAY },
      breaker: () => breakers.of(nodeOf(slot)),
      isAnswer: (error) => (error instanceof Error && error.name === 'ReplyError') || isHalfMoved(error),
    });
  const applyTo =
    (slot: number): Store['apply'] =>
    (hits, { spend, timeoutMs }) => {
      const batcher = batchers.get(slot) ?? newBatcher(slot);
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

/** No node would count for a call, each naming another: its counters are in a slot of which a part has moved. */
const isHalfMoved = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('Too many Cluster redirections');

const isNoScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith('NOSCRIPT');
