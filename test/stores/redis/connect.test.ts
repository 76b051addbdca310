import { once } from 'node:events';
import type { Redis as Connection } from 'ioredis';
import { connect } from '../../../src/stores/redis/connect.ts';
import { addressOf, open, openReady, ordinary } from '../../helpers/connection.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const SECRETS = { username: 'weir', password: 's3cret' };

let server: Redis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test('a connection speaks as the user and to the database of its address', async () => {
  const operator = await openReady(server);
  await operator.acl('SETUSER', SECRETS.username, 'on', `>${SECRETS.password}`, 'allcommands', 'allkeys');
  const address = { ...addressOf(server, 3), ...SECRETS };
  const connection = connect({ ...ordinary, address }) as Connection; // to one server
  await once(connection, 'ready');
  expect(await connection.acl('WHOAMI')).toBe(SECRETS.username);
  await connection.set('here', '1');
  await operator.select(3);
  expect(await operator.get('here')).toBe('1');
  connection.disconnect();
  operator.disconnect();
});

test('a connection keeps no command for later', async () => {
  const connection = open(server);
  await expect(connection.set('later', '1')).rejects.toThrow("Stream isn't writeable");
  await once(connection, 'ready');
  expect(await connection.get('later')).toBeNull();
  connection.disconnect();
});
