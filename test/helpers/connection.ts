import type { Redis as Connection } from 'ioredis';
import type { RedisAddress } from '../../src/engine/open/options.ts';
import { connect } from '../../src/parts/redis/connect.ts';
import type { Redis } from './redis.ts';

/** Default options besides the address. */
export const ordinary: Omit<Parameters<typeof connect>[0], 'address'> = {
  tls: undefined,
  sentinelCredentials: {},
  connectTimeoutMs: 2_000,
  startup: { initialMs: 50, maxMs: 500 },
};

/** The address of a test server. */
export const addressOf = ({ port }: Pick<Redis, 'port'>, database = 0): RedisAddress => ({
  kind: 'tcp',
  host: '127.0.0.1',
  port,
  tls: false,
  database,
});

/** Opens a connection as the service does, without waiting for the server. */
export const open = (server: Pick<Redis, 'port'>): Connection =>
  connect({ ...ordinary, address: addressOf(server) }) as Connection; // an address of one server opens a Connection

/** Opens a connection that is ready for commands. Unlike the service's, it waits for replies without a timeout. */
export async function openReady(server: Pick<Redis, 'port'>): Promise<Connection> {
  const connection = open(server);
  Object.assign(connection.options, { socketTimeout: undefined });
  await new Promise((resolve) => connection.once('ready', resolve)); // after errors, too
  return connection;
}
