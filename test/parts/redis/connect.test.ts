import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect as connectTo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import type { Redis as Connection } from 'ioredis';
import { connect, isQuiet } from '../../../src/parts/redis/connect.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { addressOf, open, openReady, ordinary } from '../../helpers/connection.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startTcpProxy } from '../../helpers/tcp-proxy.ts';
import { eventually } from '../../helpers/until.ts';

const SECRETS = { username: 'weir', password: 's3cret' };

let server: Redis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test('a connection uses the user and the database of its address', async () => {
  const operator = await openReady(server);
  await operator.acl('SETUSER', SECRETS.username, 'on', `>${SECRETS.password}`, 'allcommands', 'allkeys');
  const address = { ...addressOf(server, 3), ...SECRETS };
  const connection = connect({ ...ordinary, address }) as Connection; // an address of one server opens a Connection
  await once(connection, 'ready');
  expect(await connection.acl('WHOAMI')).toBe(SECRETS.username);
  await connection.set('here', '1');
  await operator.select(3);
  expect(await operator.get('here')).toBe('1');
  connection.disconnect();
  operator.disconnect();
});

test('a connection queues no commands', async () => {
  const connection = open(server);
  await expect(connection.set('later', '1')).rejects.toThrow("Stream isn't writeable");
  await once(connection, 'ready');
  expect(await connection.get('later')).toBeNull();
  connection.disconnect();
});

test('a connection passes replies on without buffering them', async () => {
  const connection = await openReady(server);
  const emitted = jest.spyOn(connection.stream, 'emit');
  expect(await connection.ping()).toBe('PONG');
  const names = emitted.mock.calls.map(([name]) => name);
  expect(names).toContain('data');
  expect(names).not.toContain('readable');
  connection.disconnect();
});

test('a connection survives if this process was busy or stopped, and its replies arrive late', async () => {
  const connection = open(server);
  try {
    await once(connection, 'ready');
    const client = await connection.client('ID');
    const reply = connection.client('ID');
    const endMs = performance.now() + 1_500; // longer than a server's silence is tolerated
    while (performance.now() < endMs); // timers are due before input is read
    expect(await reply).toBe(client);
  } finally {
    connection.disconnect();
  }
});

test('a server whose handshakes are cut for a while is no proxy that closes connections on them, if one was completed before', async () => {
  let cuts = 0;
  const proxy = await startTcpProxy(server.port, ({ client, server: behind, end }) => {
    behind.pipe(client);
    client.on('data', (bytes) => (cuts > 0 && cuts-- ? end() : behind.write(bytes)));
  });
  const connection = open(proxy).on('error', () => {});
  await once(connection, 'ready');
  cuts = 5;
  for (const { end } of proxy.connections) end();
  await eventually(() => cuts === 0 && connection.status === 'ready');
  expect(isQuiet(connection)).toBe(false);
  connection.disconnect();
  await proxy.close();
});

test('after a first connection, unanswered attempts end long before REDIS_TIMEOUT, and Redis is used again when one is answered', async () => {
  let isSilent = false;
  let attempts = 0;
  const authority = createAuthority();
  const folder = mkdtempSync(join(tmpdir(), 'black-hole-'));
  const sockets = new Set<Socket>();
  const secure = createTlsServer(authority.issue('localhost', '127.0.0.1'), (socket) => {
    const onward = connectTo(server.port, '127.0.0.1').on('error', () => socket.destroy());
    socket.on('error', () => {}).on('close', () => onward.destroy());
    socket.pipe(onward).pipe(socket);
  });
  const network = createServer((socket) => {
    attempts++;
    sockets.add(socket.on('error', () => {}));
    if (!isSilent) secure.emit('connection', socket);
  }).listen(0, '127.0.0.1');
  await once(network, 'listening');
  const { port } = network.address() as AddressInfo; // of a server on TCP
  const { cert: caFile } = writeCertificate(folder, 'ca', authority);
  const tls = { caFile, certFile: '', keyFile: '', skipHostnameVerification: false };
  const connection = connect({ ...ordinary, connectTimeoutMs: 60_000, tls, address: addressOf({ port }) });
  connection.on('error', () => {});
  await once(connection, 'ready');
  isSilent = true;
  for (const socket of sockets) socket.destroy();
  await eventually(() => attempts >= 5);
  isSilent = false;
  await eventually(() => connection.status === 'ready');
  connection.disconnect();
  for (const socket of sockets) socket.destroy();
  network.close();
  rmSync(folder, { recursive: true });
});
