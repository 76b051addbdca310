import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { connect as connectPlain } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import { promisify } from 'node:util';
import { credentials, status } from '@grpc/grpc-js';
import type { GrpcServerOptions } from '../../../src/edge/grpc/grpc-server.ts';
import { serverIdentity } from '../../../src/h2/identity/grpc-tls.ts';
import { type Certificates, openCertificates } from '../../../src/h2/listen/certificates.ts';
import type { GrpcServer } from '../../../src/h2/server.ts';
import { type Authority, type Certificate, createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { startServer } from '../../helpers/grpc-server.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { grpcurl } from '../../helpers/tools.ts';
import { until } from '../../helpers/until.ts';

const authority = createAuthority();
const own = authority.issue('localhost', '127.0.0.1');
const envoy = authority.issue('envoy.mesh.local');

let folder: string;
let certificates: Certificates;
let problems: string[];
let server: GrpcServer;
let clients: GrpcClient[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tls-'));
  problems = [];
  clients = [];
});
afterEach(async () => {
  for (const client of clients) client.close();
  await server.close(0);
  certificates.close();
});

/** Starts a server over TLS. With an authority, clients need a certificate; with a name, one for that name. */
async function start(
  clientAuthority?: Authority,
  clientName?: string,
  changes: Partial<GrpcServerOptions> = {},
  shown = own,
): Promise<void> {
  const clientCa = clientAuthority && writeCertificate(folder, 'client-ca', clientAuthority).cert;
  const files = { ...writeCertificate(folder, 'server', shown), clientCa };
  certificates = openCertificates(files, Date.now, (problem) => problems.push(problem));
  server = await startServer({ tls: { certificates, clientName }, ...changes });
}

function client(certificate?: Certificate): GrpcClient {
  const ca = Buffer.from(authority.cert);
  const [key, cert] = certificate ? [Buffer.from(certificate.key), Buffer.from(certificate.cert)] : [null, null];
  const made = createClient(server.target, credentials.createSsl(ca, key, cert, serverIdentity(server.target).verify));
  clients.push(made);
  return made;
}

/** Makes a TLS handshake. @returns the certificate's serial number and the protocol */
async function shakeHands(options: ConnectionOptions = {}) {
  const port = Number(server.target.split(':').at(-1));
  const socket = connect({ host: '127.0.0.1', port, ca: authority.cert, ALPNProtocols: ['h2'], ...options });
  try {
    await once(socket, 'secureConnect');
    return {
      serial: socket.getPeerCertificate().serialNumber,
      protocol: socket.getProtocol(),
      alpn: socket.alpnProtocol,
    };
  } finally {
    socket.destroy();
  }
}

/** Sends a request with grpcurl, over TLS with these arguments. */
async function ask(...args: readonly string[]): Promise<string> {
  const method = 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
  const { cert: ca } = writeCertificate(folder, 'ca', authority);
  const all = ['-cacert', ca, ...args, '-d', '{"domain": "demo"}', server.target, method];
  return (await promisify(execFile)(await grpcurl(), all)).stdout;
}

test('a server over TLS answers', async () => {
  await start();
  expect(await client().ask()).toMatchObject({ overall_code: 1 });
  expect(JSON.parse(await ask())).toEqual({ overallCode: 'OK' });
  await expect(createClient(server.target).ask()).rejects.toMatchObject({ code: status.UNAVAILABLE });
});

test.each(['TLSv1.2', 'TLSv1.3'] as const)('%s is accepted', async (version) => {
  await start();
  expect(await shakeHands({ minVersion: version, maxVersion: version })).toMatchObject({
    protocol: version,
    alpn: 'h2',
  });
});

test('TLS 1.1 is refused', async () => {
  await start();
  const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
  await expect(shakeHands(old)).rejects.toThrow(/protocol version/);
});

describe('a server that requires client certificates', () => {
  test('answers clients that have one', async () => {
    await start(authority);
    expect(await client(envoy).ask()).toMatchObject({ overall_code: 1 });
    const { cert, key } = writeCertificate(folder, 'client', envoy);
    expect(JSON.parse(await ask('-cert', cert, '-key', key))).toEqual({ overallCode: 'OK' });
  });

  test('refuses clients that have none', async () => {
    await start(authority);
    const stranger = createAuthority().issue('envoy.mesh.local');
    for (const certificate of [undefined, stranger])
      await expect(client(certificate).ask()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  });

  test.each<[string, readonly string[], boolean]>([
    ['the name', ['envoy.mesh.local'], true],
    ['the name among others', ['other.mesh.local', 'envoy.mesh.local'], true],
    ['a wildcard over the name', ['*.mesh.local'], true],
    ['another name', ['other.mesh.local'], false],
    ['a name above', ['mesh.local'], false],
    ['an address only', ['127.0.0.1'], false],
  ])('with a required name treats a certificate with %s as %j', async (_, names, isIn) => {
    await start(authority, 'envoy.mesh.local');
    const answer = client(authority.issue(...names)).ask();
    if (isIn) expect(await answer).toMatchObject({ overall_code: 1 });
    else await expect(answer).rejects.toMatchObject({ code: status.UNAVAILABLE });
  });
});

test('a changed certificate is used for new connections, and open ones continue', async () => {
  await start();
  const asking = client();
  const stream = asking.watch();
  let ended = false;
  stream.on('end', () => {
    ended = true;
  });
  await once(stream, 'data');
  const before = await shakeHands();

  writeCertificate(folder, 'server', authority.issue('127.0.0.1'));
  await until('another certificate', async () => {
    expect(await asking.ask()).toMatchObject({ overall_code: 1 });
    return (await shakeHands()).serial !== before.serial;
  });
  expect(await asking.ask()).toMatchObject({ overall_code: 1 });
  expect([ended, problems]).toEqual([false, []]);
});

test('an invalid certificate changes nothing', async () => {
  await start();
  const before = await shakeHands();
  writeCertificate(folder, 'server', { cert: own.cert, key: envoy.key });
  await until('a problem', () => problems.length > 0);
  expect(await shakeHands()).toEqual(before);
  expect(await client().ask()).toMatchObject({ overall_code: 1 });
});

test('an expired certificate is used and refused by clients, until its replacement is accepted', async () => {
  await start(undefined, undefined, {}, authority.issueExpired('localhost', '127.0.0.1'));
  await expect(client().ask()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  expect(problems).toEqual([
    expect.stringMatching(/server.crt expired at .* GMT; clients refuse it: replace the file$/),
  ]);
  writeCertificate(folder, 'server', own);
  const answers = () =>
    client()
      .ask()
      .then(
        () => true,
        () => false,
      );
  await until('an answer', answers);
});

test('a client with an expired certificate is refused', async () => {
  await start(authority);
  const late = authority.issueExpired('envoy.mesh.local');
  await expect(client(late).ask()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  expect(await client(envoy).ask()).toMatchObject({ overall_code: 1 });
});

test('a changed client CA applies to new connections', async () => {
  await start(authority);
  const next = createAuthority();
  expect(await client(envoy).ask()).toMatchObject({ overall_code: 1 });
  writeCertificate(folder, 'client-ca', next);
  const answers = () =>
    client(envoy)
      .ask()
      .then(
        () => true,
        () => false,
      );
  await until('a refusal', async () => !(await answers()));
  expect(await client(next.issue('envoy.mesh.local')).ask()).toMatchObject({ overall_code: 1 });
});

test('closing ends connections that have not completed their handshake', async () => {
  await start();
  const socket = connectPlain(Number(server.target.split(':').at(-1)), '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  await Promise.all([server.close(60_000), once(socket, 'close')]);
});

test('too many half-open handshakes end the oldest ones, while legitimate clients can connect', async () => {
  const overload = overloadOf();
  await start(undefined, undefined, { overload });
  const port = Number(server.target.split(':').at(-1));
  const halfOpen = await Promise.all(
    Array.from({ length: 300 }, async () => {
      const socket = connectPlain({ host: '127.0.0.1', port }).on('error', () => {});
      await once(socket, 'connect');
      return socket;
    }),
  );
  await until('the oldest are closed', () => halfOpen.filter(({ destroyed }) => destroyed).length >= 44);
  expect(halfOpen.filter(({ destroyed }) => destroyed)).toHaveLength(44); // 256 are left
  const honest = client();
  expect(await honest.ask()).toMatchObject({ overall_code: 1 });
  expect(overload.memory.bytes).toBeGreaterThan(256 * 65_536);
  for (const socket of halfOpen) socket.destroy();
  await until('their memory is given back', () => overload.memory.bytes < 2 * 100_000);
});
