import type { BackendHealth } from '../backend.ts';
import type { SwapStore } from '../cas.ts';
import { Connection, type ConnectionSettings } from './connection.ts';
import type { MemcachedReply } from './replies.ts';

/** One memcached server. Keys must be made by `safeKey`. Calls reject while the server cannot be reached. */
export interface MemcachedClient extends SwapStore {
  /** Adds to a decimal number, or subtracts, not below 0; undefined: there is none. */
  change(key: string, by: number): Promise<number | undefined>;
  /** Stores a value unconditionally. */
  set(key: string, value: Buffer, exptime: number): Promise<void>;
  delete(key: string): Promise<void>;
  health(): BackendHealth;
  close(): void;
}

/** @see https://github.com/memcached/memcached/blob/master/doc/protocol.txt */
export function createMemcachedClient(settings: ConnectionSettings): MemcachedClient {
  const connection = new Connection(settings);
  return {
    async get(key) {
      const reply = await connection.call(`gets ${key}\r\n`);
      if (typeof reply === 'string') throw unexpected('gets', reply);
      return reply.get(key);
    },
    async cas(key, value, exptime, cas) {
      const reply = await connection.call(`cas ${key} 0 ${exptime} ${value.length} ${cas}\r\n`, value, '\r\n');
      if (reply === 'STORED' || reply === 'EXISTS' || reply === 'NOT_FOUND') return reply;
      throw unexpected('cas', reply);
    },
    async add(key, value, exptime) {
      const reply = await connection.call(`add ${key} 0 ${exptime} ${value.length}\r\n`, value, '\r\n');
      if (reply === 'STORED' || reply === 'NOT_STORED') return reply;
      throw unexpected('add', reply);
    },
    async change(key, by) {
      const reply = await connection.call(`${by < 0 ? 'decr' : 'incr'} ${key} ${Math.abs(by)}\r\n`);
      if (reply === 'NOT_FOUND') return undefined;
      if (typeof reply === 'string' && /^\d+ *$/.test(reply)) return Number(reply);
      throw unexpected('incr', reply);
    },
    async set(key, value, exptime) {
      const reply = await connection.call(`set ${key} 0 ${exptime} ${value.length}\r\n`, value, '\r\n');
      if (reply !== 'STORED') throw unexpected('set', reply);
    },
    async delete(key) {
      const reply = await connection.call(`delete ${key}\r\n`);
      if (reply !== 'DELETED' && reply !== 'NOT_FOUND') throw unexpected('delete', reply);
    },
    health: () => connection.health(),
    close: () => connection.close(),
  };
}

function unexpected(command: string, reply: MemcachedReply): Error {
  return new Error(`'${typeof reply === 'string' ? reply : 'items'}' is not a reply to ${command}`);
}
