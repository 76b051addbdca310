import { createHash } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { Monotonic } from '../../base/clock.ts';
import type { BackendHealth } from '../../engine/backends/backend.ts';
import type { Item, NewItem, SwapStore } from './cas.ts';

/** One memcached server. Keys must be made by `safeKey`. Calls reject while the server cannot be reached. */
export interface MemcachedClient extends SwapStore {
  /** Adds to a decimal number, or subtracts, not below 0. Undefined if there is none. */
  change(key: string, by: number): Promise<number | undefined>;
  /** Stores a value unconditionally. */
  set(key: string, next: NewItem): Promise<'STORED'>;
  delete(key: string): Promise<void>;
  health(): BackendHealth;
  close(): void;
}

/**
 * Client of memcached; no library for this version of Node has both `cas` and TLS.
 *
 * @see https://github.com/memcached/memcached/blob/master/doc/protocol.txt
 */
export function createMemcachedClient(settings: ConnectionSettings): MemcachedClient {
  const connection = new Connection(settings);
  const store = async <R extends string>(
    command: string,
    [key, { value, exptime }, cas = '']: readonly [key: string, next: NewItem, cas?: string],
    replies: readonly R[],
  ): Promise<R> => {
    const reply = await connection.call(`${command} ${key} 0 ${exptime} ${value.length}${cas}\r\n`, value, '\r\n');
    const known = replies.find((one) => one === reply);
    if (known === undefined) throw unexpected(command, reply);
    return known;
  };
  return {
    async get(key) {
      const reply = await connection.call(`gets ${key}\r\n`);
      if (typeof reply === 'string') throw unexpected('gets', reply);
      return reply.get(key);
    },
    cas: (key, next, cas) => store('cas', [key, next, ` ${cas}`], ['STORED', 'EXISTS', 'NOT_FOUND']),
    add: (key, next) => store('add', [key, next], ['STORED', 'NOT_STORED']),
    set: (key, next) => store('set', [key, next], ['STORED']),
    async change(key, by) {
      const reply = await connection.call(`${by < 0 ? 'decr' : 'incr'} ${key} ${Math.abs(by)}\r\n`);
      if (reply === 'NOT_FOUND') return undefined;
      if (typeof reply === 'string' && /^\d+ *$/.test(reply)) return Number(reply);
      throw unexpected('incr', reply);
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

/** Maximum length of a key in memcached. */
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

/** Maximum relative time in memcached, which interprets longer ones as dates. */
const MAX_SPAN_S = 30 * 24 * 3600;
/** The last date that memcached supports, in 2038. */
const MAX_DATE_S = 2 ** 31 - 1;

/**
 * Maximum lag of memcached's clock, which is read about once per second, in whole seconds, and advances by two when a
 * reading just misses one. Without this allowance, a counter with a second to live could be gone immediately.
 */
const CLOCK_LAG_S = 2;

/** When memcached may drop a counter, in seconds from now or since the epoch; never negative: proxies refuse that. */
export function toExptime(ttlMs: number, nowMs: number): number {
  if (ttlMs <= 0) return 1;
  const seconds = Math.ceil(ttlMs / 1000) + CLOCK_LAG_S;
  return seconds <= MAX_SPAN_S ? seconds : Math.min(Math.ceil(nowMs / 1000) + seconds, MAX_DATE_S);
}

interface ConnectionSettings {
  readonly host: string;
  readonly port: number;
  /** Options of TLS; undefined for plain text. */
  readonly tls: ConnectionOptions | undefined;
  readonly monotonicMs: Monotonic;
  /** Called when a server has answered on a new connection, and when a connection fails or ends, respectively. */
  onReady(): void;
  onError(error: Error): void;
  /** Called with each error reply to a call. */
  onRefusal?(reason: string): void;
}

/** If a server is silent for this long while calls wait, they fail, and the connection is closed and reopened. */
const SILENCE_MS = 1_000;
/** Maximum wait between two attempts to connect; less than a second together with the attempt. */
const MAX_RETRY_MS = 250;
/** How long the first connection may take to open: after that, the usual time is known. */
const FIRST_CONNECT_MS = 5_000;
/** The shortest time allowed for an attempt: packets lost with the network are only resent after a second. */
const MIN_CONNECT_MS = 500;
/** An attempt may take this multiple of the slowest connection so far. */
const CONNECT_MARGIN = 4;

/**
 * The first command on a connection, alternating between attempts: some proxies do not support the one, and pass the
 * other on to a server that may be down.
 */
const GREETINGS = ['version\r\n', 'gets weir_probe\r\n'] as const;
const isGreeted = (reply: MemcachedReply): boolean => typeof reply !== 'string' || reply.startsWith('VERSION ');

interface Pending {
  resolve(reply: MemcachedReply): void;
  reject(error: Error): void;
}

/** A connection that is always reopened. Calls are sent immediately and answered in order; no call is sent twice. */
export class Connection {
  private readonly settings: ConnectionSettings;
  private socket: Socket | undefined;
  private isReady = false;
  private wasConnected = false;
  private isClosed = false;
  private lastError = 'not connected yet';
  private attempt = 0;
  private retry: NodeJS.Timeout | undefined;
  /** Fires when the server has been silent, or an attempt to connect has taken, too long. Writes do not postpone it. */
  private replyTimeout: NodeJS.Timeout | undefined;
  private slowestConnectMs = FIRST_CONNECT_MS / CONNECT_MARGIN;
  private readonly pending: Pending[] = [];

  constructor(settings: ConnectionSettings) {
    this.settings = settings;
    this.open();
  }

  /** Rejects immediately while there is no connection, and with the server's error replies. */
  call(...parts: readonly (string | Buffer)[]): Promise<MemcachedReply> {
    return new Promise((resolve, reject) => {
      if (!this.isReady || !this.socket) {
        reject(new Error(`no connection to ${this.address}: ${this.lastError}`));
        return;
      }
      this.pending.push({ resolve, reject });
      if (this.pending.length === 1) this.expect(this.socket, SILENCE_MS);
      this.socket.write(Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))));
    });
  }

  health(): BackendHealth {
    return this.isReady ? { ready: true } : { ready: false, reason: `${this.address}: ${this.lastError}` };
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.retry);
    this.expectNothing();
    this.socket?.destroy();
  }

  private get address(): string {
    return `${this.settings.host}:${this.settings.port}`;
  }

  private open(): void {
    const { host, port, tls, monotonicMs } = this.settings;
    const socket = tls ? connectTls({ ...tls, host, port }) : connect(port, host);
    const reader = new ReplyReader();
    this.socket = socket;
    socket.setNoDelay(true);
    const startedMs = monotonicMs();
    this.expect(socket, Math.max(CONNECT_MARGIN * this.slowestConnectMs, MIN_CONNECT_MS));
    socket.once(tls ? 'secureConnect' : 'connect', () => {
      const tookMs = monotonicMs() - startedMs;
      this.slowestConnectMs = this.wasConnected ? Math.max(this.slowestConnectMs, tookMs) : tookMs;
      this.wasConnected = true;
      this.greet(socket);
    });
    socket.on('data', (piece: Buffer) => this.receive(socket, reader, piece));
    socket.on('error', (error: Error) => {
      this.lastError = error.message;
    });
    socket.once('close', () => this.lost());
  }

  /** A server is ready once it has answered like memcached, since any program may listen on its port. */
  private greet(socket: Socket): void {
    const reject = (error: Error): void => {
      socket.destroy(error);
    };
    const resolve = (reply: MemcachedReply): void => {
      if (!isGreeted(reply)) return reject(new BrokenProtocol(`'${reply}' is not a reply of memcached`));
      this.isReady = true;
      this.attempt = 0;
      this.settings.onReady();
    };
    this.pending.push({ resolve, reject });
    this.expect(socket, SILENCE_MS);
    socket.write(GREETINGS[this.attempt % GREETINGS.length] ?? GREETINGS[0]);
  }

  /** Timers fire before input is read, so a process that was late reads what has arrived before it gives up. */
  private expect(socket: Socket, withinMs: number): void {
    this.expectNothing();
    const timeout = setTimeout(() => {
      setImmediate(() => {
        if (this.replyTimeout === timeout) socket.destroy(new Error(`no reply within ${Math.ceil(withinMs)} ms`));
      });
    }, withinMs);
    this.replyTimeout = timeout.unref();
  }

  private expectNothing(): void {
    clearTimeout(this.replyTimeout);
    this.replyTimeout = undefined;
  }

  private receive(socket: Socket, reader: ReplyReader, piece: Buffer): void {
    try {
      for (const reply of reader.read(piece)) this.answer(reply);
      if (this.pending.length > 0) this.expect(socket, SILENCE_MS);
      else this.expectNothing();
    } catch (error) {
      if (!(error instanceof BrokenProtocol)) throw error;
      socket.destroy(error);
    }
  }

  private answer(reply: MemcachedReply): void {
    const first = this.pending.shift();
    if (!first) throw new BrokenProtocol('received a reply without a request');
    if (typeof reply !== 'string' || !isError(reply)) return first.resolve(reply);
    if (this.isReady) this.settings.onRefusal?.(reply);
    first.reject(new Error(reply));
  }

  private lost(): void {
    this.isReady = false;
    this.expectNothing();
    const error = new Error(`connection to ${this.address} lost: ${this.lastError}`);
    for (const { reject } of this.pending.splice(0)) reject(error);
    if (this.isClosed) return;
    this.settings.onError(error);
    const waitMs = Math.min(50 * 2 ** Math.min(this.attempt++, 3), MAX_RETRY_MS);
    this.retry = setTimeout(() => this.open(), waitMs + Math.random() * waitMs * 0.1).unref();
  }
}

/** A server's reply to one command: a word or a number, or items by key. */
type MemcachedReply = string | ReadonlyMap<string, Item>;

/** The server violates the protocol, so that its further output cannot be trusted. */
class BrokenProtocol extends Error {
  override readonly name = 'BrokenProtocol';
}

/** No valid reply has longer lines or values, which servers refuse. */
const MAX_LINE_BYTES = 2_048;
const MAX_VALUE_BYTES = 1_024 * 1_024;

const END_OF_LINE = '\r\n';

/**
 * Reads replies of memcached's text protocol from chunks of any size.
 *
 * @see https://github.com/memcached/memcached/blob/master/doc/protocol.txt
 */
class ReplyReader {
  private rest: Buffer = Buffer.alloc(0);
  private items: Map<string, Item> | undefined;

  /**
   * The replies that this chunk completes.
   *
   * @throws BrokenProtocol  the input is not a reply
   */
  read(piece: Buffer): MemcachedReply[] {
    this.rest = this.rest.length === 0 ? piece : Buffer.concat([this.rest, piece]);
    const replies: MemcachedReply[] = [];
    for (;;) {
      const reply = this.next();
      if (reply === undefined) return replies;
      if (reply !== MORE_ITEMS) replies.push(reply);
    }
  }

  private next(): MemcachedReply | typeof MORE_ITEMS | undefined {
    const end = this.rest.indexOf(END_OF_LINE);
    if (end < 0 ? this.rest.length > MAX_LINE_BYTES : end > MAX_LINE_BYTES)
      throw new BrokenProtocol(`a reply's line has more than ${MAX_LINE_BYTES} bytes`);
    if (end < 0) return undefined;
    const line = this.rest.toString('utf8', 0, end);
    const after = end + END_OF_LINE.length;
    if (line.startsWith('VALUE ')) return this.item(line, after);
    this.rest = this.rest.subarray(after);
    if (line !== 'END') {
      if (this.items && !isError(line)) throw new BrokenProtocol(`unexpected '${line}' between items`);
      this.items = undefined;
      return line;
    }
    const items = this.items ?? new Map<string, Item>();
    this.items = undefined;
    return items;
  }

  private item(line: string, from: number): typeof MORE_ITEMS | undefined {
    const [, key = '', bytes, cas = ''] = /^VALUE ([^ ]+) \d+ (\d{1,8})(?: (\d+))?$/.exec(line) ?? [];
    const length = Number(bytes);
    if (!(length <= MAX_VALUE_BYTES)) throw new BrokenProtocol(`'${line}' is not an item`);
    const end = from + length;
    if (this.rest.length < end + END_OF_LINE.length) return undefined;
    if (this.rest.toString('latin1', end, end + END_OF_LINE.length) !== END_OF_LINE)
      throw new BrokenProtocol(`the value of ${key} does not end where it should`);
    this.items ??= new Map();
    this.items.set(key, { value: Buffer.from(this.rest.subarray(from, end)), cas });
    this.rest = this.rest.subarray(end + END_OF_LINE.length);
    return MORE_ITEMS;
  }
}

const MORE_ITEMS = Symbol('an item, of which more may come');

/** Whether the reply is an error. */
const isError = (line: string): boolean => /^(CLIENT_|SERVER_)?ERROR( .*)?$/.test(line);
