import { once } from 'node:events';
import { type AddressInfo, connect as connectTo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import { Connection } from '../../../src/parts/memcached/client.ts';
import { createAuthority } from '../../helpers/certificates.ts';
import { openCounters, takeHit } from '../../helpers/counters.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { startMemcached } from '../../helpers/memcached.ts';
import { eventually } from '../../helpers/until.ts';

/** Closed after all tests, which run at the same time, since they mostly wait. */
const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

/** A connection to a server on this machine, which is closed after the test. */
function connectionTo(port: number, changes: Partial<ConstructorParameters<typeof Connection>[0]> = {}): Connection {
  const none = { tls: undefined, onReady: () => {}, onError: () => {} };
  const connection = new Connection({
    ...none,
    ...{ host: '127.0.0.1', port, monotonicMs: () => performance.now() },
    ...changes,
  });
  closing.push(() => connection.close());
  return connection;
}

test.concurrent('a silent server is dropped after a second, however much is written to it, and used again when it answers', async () => {
  let isSilent = true;
  let losses = 0;
  const port = await listen((socket) => {
    let isGreeted = false;
    socket.on('data', () => {
      if (!isSilent || !isGreeted) socket.write('VERSION 1\r\n');
      isGreeted = true;
    });
  });
  const connection = connectionTo(port, { onError: () => losses++ });
  await eventually(() => connection.health().ready);
  await eventually(async () => {
    connection.call('version\r\n').catch(() => {});
    await sleep(50);
    return losses > 0;
  });
  expect(losses).toBe(1);
  isSilent = false;
  await eventually(async () => (await connection.call('version\r\n').catch(() => '')) === 'VERSION 1');
});

test.concurrent('after a first connection, an attempt without an answer is retried after half a second', async () => {
  const authority = createAuthority();
  let isSilent = false;
  const sockets: Socket[] = [];
  const secure = createTlsServer(authority.issue('localhost', '127.0.0.1'), (socket) =>
    socket.on('error', () => {}).on('data', () => socket.write('VERSION 1\r\n')),
  );
  const port = await listen((socket) => {
    sockets.push(socket);
    if (!isSilent) secure.emit('connection', socket);
  });
  const connection = connectionTo(port, { tls: { ca: authority.cert } });
  await eventually(() => connection.health().ready);
  isSilent = true;
  for (const socket of sockets) socket.destroy();
  await eventually(() => sockets.length >= 5); // by default an operating system waits for minutes
  expect(connection.health()).toMatchObject({ ready: false, reason: expect.stringMatching(/no reply within \d+ ms/) });
  isSilent = false;
  await eventually(() => connection.health().ready);
});

test.concurrent.each([
  ['an SMTP server', '220 mail.example.com ESMTP\r\n', '', "'220 mail.example.com ESMTP' is not a reply"],
  ['a Redis', '', "-ERR unknown command 'version', with args beginning with: \r\n", 'is not a reply of memcached'],
  ['a memcached with as many connections as it may have', 'ERROR Too many open connections\r\n', '', ': ERROR Too'],
  ['a memcached without memory', '', 'SERVER_ERROR out of memory\r\n', 'SERVER_ERROR out of memory'],
  ['a program that says nothing', '', '', 'no reply within 1000 ms'],
  ['a program that says random bytes', '', `${'\u0000\u00ff'.repeat(3_000)}`, 'more than 2048 bytes'],
])('%s is never usable, and one log line says so', async (_, banner, answer, why) => {
  let asked = 0;
  const port = await listen((socket) => {
    if (banner !== '') socket.write(banner);
    socket.on('data', () => {
      asked++;
      if (answer !== '') socket.write(answer);
    });
  });
  const counters = await openCounters({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${port}` });
  closing.push(counters.close);
  await eventually(
    () => asked >= 4 || why.includes('no reply within'),
    () => `asked ${asked} times`,
  );
  await eventually(() => counters.problem().includes(why), counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'UNAVAILABLE' });
  expect(counters.state().isUp).toBe(false);
  expect(counters.lines()).toEqual([expect.stringContaining(why)]);
});

test.concurrent('a memcached that has no room for another counter is logged once, and counts those that it has', async () => {
  const server = await startMemcached({ args: ['-M', '-m', '2'] });
  closing.push(() => server.stop());
  const counters = await openCounters({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: server.address });
  closing.push(counters.close);
  await eventually(() => counters.problem() === '', counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
  const full = 'SERVER_ERROR out of memory storing object';
  const limit = fixedWindowOf(20, unitMs.DAY);
  const hitOn = (at: number) => createDebit({ key: `other-${at}` as CounterKey }, { limit, policy: {} }, 1, true);
  for (let at = 0; !counters.lines().some((line) => line.includes(full)); at += 100) {
    if (at > 100_000) throw new Error('memcached has room for 100,000 counters');
    const debits = Array.from({ length: 100 }, (_, more) => hitOn(at + more));
    await counters.ledger.debit(debits, { spend: 'each', timeoutMs: 5_000 });
  }
  const [reply] = await counters.ledger.debit([hitOn(-1)], { spend: 'each', timeoutMs: 5_000 });
  expect(reply).toMatchObject({ code: 'UNAVAILABLE', reason: `memcached: ${full}` });
  expect(await takeHit(counters)).toMatchObject({ code: 'OK', hitsBefore: 1 });
  expect(counters.lines()).toEqual([
    `memcached ${server.address} refuses calls: ${full}; not logged again for a minute`,
  ]);
});

test.concurrent.each(['version', 'gets'])('a proxy that closes a connection on %s is used', async (unknown) => {
  const server = await startMemcached();
  closing.push(() => server.stop());
  const port = await listen((socket) => {
    const onward = connectTo(server.port, '127.0.0.1').on('error', () => socket.destroy());
    let isFirst = true;
    socket
      .on('close', () => onward.destroy())
      .on('data', (piece) => {
        if (isFirst && String(piece).startsWith(unknown)) socket.destroy();
        else onward.write(piece);
        isFirst = false;
      });
    onward.pipe(socket);
  });
  const counters = await openCounters({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${port}` });
  closing.push(counters.close);
  await eventually(() => counters.problem() === '', counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
});

test.concurrent('an unstable server is logged once a minute for each kind of outage', async () => {
  const server = await startMemcached();
  closing.push(() => server.stop());
  const counters = await openCounters({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: server.address });
  closing.push(counters.close);
  await eventually(() => counters.problem() === '', counters.problem);
  for (let time = 0; time < 3; time++) {
    await server.stop();
    await eventually(() => counters.problem().includes('ECONNREFUSED'), counters.problem);
    await server.restart();
    await eventually(() => counters.problem() === '', counters.problem);
  }
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
  const lines = counters.lines();
  expect(lines.filter((line) => line.includes('answers again')).length).toBeGreaterThan(0);
  const kinds = lines.filter((line) => line.includes('retrying')).map((line) => line.replace(/\d+/g, '#'));
  expect(kinds).toEqual([...new Set(kinds)]);
});

/** A TCP server that is closed after the test. */
async function listen(serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    serve(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port; // of a server on TCP
}
