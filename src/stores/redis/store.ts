import type { Redis } from 'ioredis';
import type { Clock } from '../../clock.ts';
import type { Store, StoreState, Unavailable } from '../store.ts';
import { decodeBatch, encodeBatch } from './batch.ts';
import { script } from './script.ts';

/** What became of a call that was given a time limit. */
type Outcome<T> = { readonly value: T } | { readonly reason: string };

/**
 * Counters in a Redis that any number of instances share: one script call a request, decided on Redis's clock.
 *
 * @param redis   a connection of `connect`; closed with the store
 * @param clock   this process's: calendar windows are looked for around it, since Redis knows no time zones
 * @param replay  only for tests: Redis decides on `clock`, too, instead of its own
 */
export function createRedisStore(redis: Redis, clock: Clock, { replay = false } = {}): Store {
  let lastError = 'not connected yet';
  redis.on('error', (error: Error) => {
    lastError = error.message;
  });

  const call = async (keys: readonly string[], packed: Buffer, nowMs: number): Promise<Buffer> => {
    const args = [keys.length, ...keys, packed, ...(replay ? [nowMs] : [])];
    try {
      return bytes(await redis.callBuffer('EVALSHA', script.sha1, ...args));
    } catch (error) {
      if (!isNoScript(error)) throw error;
      return bytes(await redis.callBuffer('EVAL', script.text, ...args)); // refused before it ran: safe to ask again
    }
  };

  const unavailable = (reason: string): Unavailable => ({ code: 'UNAVAILABLE', reason: `redis: ${reason}` });
  const state = (): StoreState => (redis.status === 'ready' ? { ready: true } : { ready: false, reason: lastError });

  return {
    atomic: 'request',
    async apply(hits, { spend, timeoutMs }) {
      const current = state();
      if (!current.ready) return hits.map(() => unavailable(current.reason));
      const nowMs = clock();
      const { keys, packed } = encodeBatch(hits, spend, nowMs);
      const outcome = await within(
        timeoutMs,
        call(keys, packed, nowMs).then((reply) => decodeBatch(reply, hits, nowMs)),
      );
      return 'reason' in outcome ? hits.map(() => unavailable(outcome.reason)) : outcome.value;
    },
    state,
    async close() {
      redis.disconnect();
    },
  };
}

/**
 * Waits for a reply, at most `timeoutMs`. When the timer fires, looks once more after a `setImmediate`: on a busy core
 * the reply may already lie in the socket, and timers come before sockets in a turn of the event loop.
 */
function within<T>(timeoutMs: number, reply: Promise<T>): Promise<Outcome<T>> {
  return new Promise((resolve) => {
    const timer = setTimeout(
      () => setImmediate(() => resolve({ reason: `no reply within ${timeoutMs} ms` })),
      timeoutMs,
    );
    const settle = (outcome: Outcome<T>): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    reply.then(
      (value) => settle({ value }),
      (error: unknown) => settle({ reason: error instanceof Error ? error.message : String(error) }),
    );
  });
}

function bytes(reply: unknown): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  throw new TypeError(`expected the script's packed reply, got ${typeof reply}`);
}

const isNoScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith('NOSCRIPT');
