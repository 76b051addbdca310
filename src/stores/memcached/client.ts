import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { StoreState } from '../store.ts';
import { BrokenProtocol, isError, type Item, type Reply, ReplyReader } from './replies.ts';

/** One memcached server. Keys are what the protocol takes: `safeKey` makes them. Calls reject while it cannot be reached. */
export interface MemcachedClient {
  get(key: string): Promise<Item | undefined>;
  /** Stores a value that nobody has changed since it was read. */
  cas(key: string, value: Buffer, exptime: number, cas: string): Promise<'STORED' | 'EXISTS' | 'NOT_FOUND'>;
  /** Stores a value where there is none. */
  add(key: string, value: Buffer, exptime: number): Promise<'STORED' | 'NOT_STORED'>;
  /** Adds to a decimal number, or takes away, not below 0; undefined where there is none. */
  change(key: string, by: number): Promise<number | undefined>;
  state(): StoreState;
  close(): void;
}

export interface ClientOptions {
  readonly host: string;
  readonly port: number;
  /** Undefined: plain text. */
  readonly tls: ConnectionOptions | undefined;
  /** Told of each connection that is ready, and of what ends or prevents one. */
  onReady(): void;
  onError(error: Error): void;
}

/** A server that leaves a call unanswered for so long is given up, with all that waits on it, and connected to anew. */
const SILENCE_MS = 1_000;
const MAX_RETRY_MS = 1_000;

interface Pending {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

/** Speaks the text protocol over one connection: calls are sent as they come, and answered in their order. */
export function createMemcachedClient({ host, port, tls, onReady, onError }: ClientOptions): MemcachedClient {
  let socket: Socket | undefined;
  let isReady = false;
  let isClosed = false;
  let lastError = 'not connected yet';
  let attempt = 0;
  let retry: NodeJS.Timeout | undefined;
  let pending: Pending[] = [];

  const open = (): void => {
    const opened = tls ? connectTls({ ...tls, host, port, servername: tls.servername ?? host }) : connect(port, host);
    const reader = new ReplyReader();
    socket = opened;
    opened.setNoDelay(true);
    opened.once(tls ? 'secureConnect' : 'connect', () => {
      isReady = true;
      attempt = 0;
      onReady();
    });
    opened.on('data', (piece: Buffer) => {
      try {
        for (const reply of reader.read(piece)) answer(reply);
        opened.setTimeout(pending.length > 0 ? SILENCE_MS : 0);
      } catch (error) {
        if (!(error instanceof BrokenProtocol)) throw error;
        opened.destroy(error);
      }
    });
    opened.on('timeout', () => opened.destroy(new Error(`no reply within ${SILENCE_MS} ms`)));
    opened.on('error', (error: Error) => {
      lastError = error.message;
    });
    opened.once('close', lost);
  };

  const answer = (reply: Reply): void => {
    const first = pending.shift();
    if (!first) throw new BrokenProtocol('a reply came that nobody waits for');
    if (typeof reply === 'string' && isError(reply)) first.reject(new Error(reply));
    else first.resolve(reply);
  };

  const lost = (): void => {
    isReady = false;
    const error = new Error(`connection to ${host}:${port} lost: ${lastError}`);
    for (const { reject } of pending.splice(0)) reject(error);
    if (isClosed) return;
    onError(error);
    const waitMs = Math.min(50 * 2 ** Math.min(attempt++, 5), MAX_RETRY_MS);
    retry = setTimeout(open, waitMs + Math.random() * waitMs * 0.1).unref();
  };

  const call = (...parts: readonly (string | Buffer)[]): Promise<Reply> =>
    new Promise((resolve, reject) => {
      if (!isReady || !socket) {
        reject(new Error(`no connection to ${host}:${port}: ${lastError}`));
        return;
      }
      pending.push({ resolve, reject });
      if (pending.length === 1) socket.setTimeout(SILENCE_MS);
      socket.write(Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))));
    });

  open();
  return {
    async get(key) {
      const reply = await call(`gets ${key}\r\n`);
      if (typeof reply === 'string') throw unexpected('gets', reply);
      return reply.get(key);
    },
    async cas(key, value, exptime, cas) {
      const reply = await call(`cas ${key} 0 ${exptime} ${value.length} ${cas}\r\n`, value, '\r\n');
      if (reply === 'STORED' || reply === 'EXISTS' || reply === 'NOT_FOUND') return reply;
      throw unexpected('cas', reply);
    },
    async add(key, value, exptime) {
      const reply = await call(`add ${key} 0 ${exptime} ${value.length}\r\n`, value, '\r\n');
      if (reply === 'STORED' || reply === 'NOT_STORED') return reply;
      throw unexpected('add', reply);
    },
    async change(key, by) {
      const reply = await call(`${by < 0 ? 'decr' : 'incr'} ${key} ${Math.abs(by)}\r\n`);
      if (reply === 'NOT_FOUND') return undefined;
      if (typeof reply === 'string' && /^\d+ *$/.test(reply)) return Number(reply);
      throw unexpected('incr', reply);
    },
    state: () => (isReady ? { ready: true } : { ready: false, reason: `${host}:${port}: ${lastError}` }),
    close() {
      isClosed = true;
      clearTimeout(retry);
      socket?.destroy();
    },
  };
}

function unexpected(command: string, reply: Reply): Error {
  return new Error(`'${typeof reply === 'string' ? reply : 'items'}' is no reply to ${command}`);
}
