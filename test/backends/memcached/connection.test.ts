import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { Connection } from '../../../src/backends/memcached/connection.ts';
import { createAuthority } from '../../helpers/certificates.ts';
import { eventually } from '../../helpers/statsd.ts';

test('a server that says nothing is given up after a second, however much is written to it, and is used again when it answers', async () => {
  let isSilent = true;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', () => {
      if (!isSilent) socket.write('VERSION 1\r\n');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // of a server on TCP
  let losses = 0;
  const onError = (): void => {
    losses++;
  };
  const connection = new Connection({
    host: '127.0.0.1',
    port,
    tls: undefined,
    monotonicMs: () => performance.now(),
    onReady: () => {},
    onError,
  });
  await eventually(() => connection.health().ready);
  const startedMs = performance.now();
  while (losses === 0 && performance.now() - startedMs < 5_000) {
    connection.call('version\r\n').catch(() => {});
    await sleep(50);
  }
  expect(losses).toBe(1);
  isSilent = false;
  await eventually(async () => (await connection.call('version\r\n').catch(() => '')) === 'VERSION 1');
  connection.close();
  for (const socket of sockets) socket.destroy();
  server.close();
});

test('after a first connection, an attempt that gets no answer is given up after half a second and made anew', async () => {
  const authority = createAuthority();
  let isSilent = false;
  let attempts = 0;
  const sockets = new Set<Socket>();
  const secure = createTlsServer(authority.issue('localhost', '127.0.0.1'));
  const server = createServer((socket) => {
    attempts++;
    sockets.add(socket.on('error', () => {}));
    if (!isSilent) secure.emit('connection', socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // of a server on TCP
  const tls = { ca: authority.cert };
  const connection = new Connection({
    host: '127.0.0.1',
    port,
    tls,
    monotonicMs: () => performance.now(),
    onReady: () => {},
    onError: () => {},
  });
  await eventually(() => connection.health().ready);
  isSilent = true;
  for (const socket of sockets) socket.destroy();
  await eventually(() => attempts >= 5); // by default a system waits for minutes
  expect(connection.health()).toMatchObject({ ready: false, reason: expect.stringMatching(/no reply within \d+ ms/) });
  isSilent = false;
  await eventually(() => connection.health().ready);
  connection.close();
  for (const socket of sockets) socket.destroy();
  server.close();
});
