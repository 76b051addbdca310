import { createHash } from 'node:crypto';
import type { BackendHealth } from '../backend.ts';
import type { SwapStore } from '../cas.ts';
import { Connection, type ConnectionSettings, type MemcachedReply } from './connection.ts';

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

/** The longest key that memcached accepts. */
const MAX_KEY_BYTES = 250;

/**
 * A counter's key in a form that memcached accepts: without blanks and control characters, which end a key in its
 * protocol, and not too long. Other keys are replaced by their digest, so that no text of a caller is ever interpreted
 * as a command.
 */
export function safeKey(key: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are the ones to find
  const isSafe = key !== '' && !/[\x00-\x20\x7f]/.test(key) && Buffer.byteLength(key) <= MAX_KEY_BYTES;
  return isSafe ? key : `#${createHash('sha256').update(key).digest('base64url')}`;
}

/**
 * The decimal count in a value; 0: there is no value.
 *
 * @throws Error  the counter is not a number
 */
export function countIn(value: Buffer | undefined): number {
  const text = value?.toString('latin1').trim() ?? '0';
  if (!/^\d+$/.test(text)) throw new Error('the counter is not a number');
  return Number(text);
}

/** The longest time that memcached accepts as relative; longer ones are interpreted as dates. */
const MAX_SPAN_S = 30 * 24 * 3600;
/** The last date that memcached supports, in 2038. */
const MAX_DATE_S = 2 ** 31 - 1;

/**
 * The most that memcached's clock may lag: it is read about once per second, in whole seconds, and advances by two when
 * a reading just misses one. A counter with a second to live could otherwise be gone at once.
 */
const CLOCK_LAG_S = 2;

/**
 * When memcached may drop a counter: whole seconds, from now or since the epoch; negative: at once, since nothing is
 * left to keep.
 */
export function exptimeOf(ttlMs: number, nowMs: number): number {
  if (ttlMs <= 0) return -1;
  const seconds = Math.ceil(ttlMs / 1000) + CLOCK_LAG_S;
  return seconds <= MAX_SPAN_S ? seconds : Math.min(Math.ceil(nowMs / 1000) + seconds, MAX_DATE_S);
}
