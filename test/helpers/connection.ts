import { once } from 'node:events';
import type { Redis as Connection } from 'ioredis';
import { connect } from '../../src/stores/redis/connect.ts';
import type { Redis } from './redis.ts';

/** Opens a connection as the service does, without waiting for the server. */
export const open = ({ port }: Redis): Connection =>
  connect({ kind: 'tcp', host: '127.0.0.1', port, tls: false, database: 0 });

/** Opens a connection that commands can be sent on. */
export async function openReady(server: Redis): Promise<Connection> {
  const connection = open(server);
  await once(connection, 'ready');
  return connection;
}
