import { Redis, type RedisOptions } from 'ioredis';

/** Where a single Redis listens, and as whom to speak to it. */
export type RedisAddress =
  | { readonly kind: 'unix'; readonly path: string }
  | {
      readonly kind: 'tcp';
      readonly host: string;
      readonly port: number;
      readonly tls: boolean;
      readonly username?: string;
      readonly password?: string;
      readonly database: number;
    };

/** The address as it may be logged: without credentials. `redis://10.0.0.7:6379/0` */
export function describeAddress(address: RedisAddress): string {
  if (address.kind === 'unix') return `unix:${address.path}`;
  return `${address.tls ? 'rediss' : 'redis'}://${address.host}:${address.port}/${address.database}`;
}

/** A connection that leaves a call unanswered for so long is given up, with all that waits on it, and opened anew. */
const SILENCE_MS = 1_000;

/**
 * Opens a connection that reconnects by itself, for ever, and says at once when it cannot be used.
 *
 * A counting call must not run twice: ioredis neither queues commands while there is no connection nor sends again what
 * was under way when one broke.
 */
export function connect(address: RedisAddress): Redis {
  const options: RedisOptions & { replyMapping: 'legacy' } = {
    replyMapping: 'legacy',
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 2_000,
    socketTimeout: SILENCE_MS,
    reconnectOnError: (error) => error.message.startsWith('READONLY'), // another server has become the master
    retryStrategy: (attempt) => Math.min(50 * 2 ** Math.min(attempt, 5), 1_000) + Math.floor(Math.random() * 100),
    connectionName: 'weir',
  };
  if (address.kind === 'unix') return new Redis(address.path, options);
  if (address.username !== undefined) options.username = address.username;
  if (address.password !== undefined) options.password = address.password;
  if (address.tls) options.tls = {};
  options.db = address.database;
  return new Redis(address.port, address.host, options);
}
