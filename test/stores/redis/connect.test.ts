import { once } from 'node:events';
import { connect, describeAddress, type RedisAddress } from '../../../src/stores/redis/connect.ts';
import { open, openReady } from '../../helpers/connection.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const SECRETS = { username: 'weir', password: 's3cret' };

let server: Redis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test.each<[RedisAddress, string]>([
  [{ kind: 'unix', path: '/run/redis.sock' }, 'unix:/run/redis.sock'],
  [{ kind: 'tcp', host: '10.0.0.7', port: 6379, tls: false, database: 0, ...SECRETS }, 'redis://10.0.0.7:6379/0'],
  [{ kind: 'tcp', host: 'redis', port: 6380, tls: true, database: 3, ...SECRETS }, 'rediss://redis:6380/3'],
])('the address %j is shown as %s', (address, text) => {
  expect(describeAddress(address)).toBe(text);
});

test('a connection speaks as the user and to the database of its address', async () => {
  const operator = await openReady(server);
  await operator.acl('SETUSER', SECRETS.username, 'on', `>${SECRETS.password}`, 'allcommands', 'allkeys');
  const address = { kind: 'tcp', host: '127.0.0.1', port: server.port, tls: false, database: 3, ...SECRETS } as const;
  const connection = connect(address);
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
