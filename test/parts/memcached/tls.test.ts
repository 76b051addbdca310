import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type TlsOptions } from 'node:tls';
import { tlsOptions } from '../../../src/engine/backends/tls.ts';
import { openServers } from '../../../src/parts/memcached/servers.ts';
import { type Authority, createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { type Memcached, startMemcached } from '../../helpers/memcached.ts';
import { freePort } from '../../helpers/process.ts';
import { eventually } from '../../helpers/until.ts';

let memcached: Memcached;
let folder: string;
const closing: (() => unknown)[] = [];
beforeAll(async () => {
  memcached = await startMemcached();
  folder = mkdtempSync(join(tmpdir(), 'memcached-tls-'));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
afterAll(async () => {
  await memcached.stop();
});

/** A TLS proxy for memcached, for clients with a certificate of the authority. */
async function startTls(port: number, authority: Authority): Promise<() => Promise<unknown>> {
  const { cert, key } = authority.issue('localhost', '127.0.0.1');
  const options: TlsOptions = { cert, key, ca: authority.cert, requestCert: true, rejectUnauthorized: true };
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer(options, (socket) => {
    const onward = connect(memcached.port, '127.0.0.1').on('error', () => socket.destroy());
    socket.on('error', () => {}).on('close', () => onward.destroy());
    socket.pipe(onward).pipe(socket);
  });
  server.on('connection', (socket) => sockets.add(socket)); // includes those in a handshake
  server.on('tlsClientError', () => {}).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    return closed;
  };
}

test('the files of a certificate and an authority are read for each connection', async () => {
  const port = await freePort();
  const rotate = (authority: Authority) => {
    const { cert: caFile } = writeCertificate(folder, 'ca', authority);
    const { cert: certFile, key: keyFile } = writeCertificate(folder, 'weir', authority.issue('weir'));
    return { caFile, certFile, keyFile, skipHostnameVerification: false };
  };
  const before = createAuthority();
  const tls = tlsOptions(rotate(before));
  const stop = await startTls(port, before);
  const servers = openServers({
    servers: [`127.0.0.1:${port}`],
    tls,
    monotonicMs: () => performance.now(),
    onDown: () => {},
    onUp: () => {},
  });
  closing.push(() => servers.close());
  await eventually(() => servers.health().ready);

  const after = createAuthority();
  await stop();
  closing.push(await startTls(port, after));
  await eventually(() => !servers.health().ready);
  rotate(after);
  await eventually(() => servers.health().ready);
  expect(await servers.of('key')?.get('key')).toBeUndefined(); // the server replies that there is none
});
