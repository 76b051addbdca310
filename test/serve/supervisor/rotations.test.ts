import '../../helpers/realm.ts';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { credentials } from '@grpc/grpc-js';
import { serverIdentity } from '../../../src/h2/identity/grpc-tls.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { freePort } from '../../helpers/process.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = 'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 50}}]\n';
const OK = 1;

const authority = createAuthority();
const issue = () => authority.issue('localhost', '127.0.0.1');

let folder: string;
let redis: Redis | undefined;
let weir: Weir | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rotations-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
});
afterEach(async () => {
  await weir?.stop();
  await redis?.stop();
});

async function service(env: Readonly<Record<string, string>>): Promise<Weir> {
  const common = { WORKERS: '2', USE_STATSD: 'false', LOG_LEVEL: 'debug' };
  weir = await startWeir({ ...common, ...env }, { args: ['--rules', join(folder, 'rules.yaml')] });
  return weir;
}

/**
 * Resolves when the files of rules have been read several times, every second, as workers read those of certificates.
 */
async function untilFilesAreRead(running: Weir): Promise<void> {
  for (let loads = 1; loads <= 4; loads++) {
    writeFileSync(join(folder, 'rules.yaml'), RULES.replace('50', String(50 + loads)));
    const logged = (printed: string) => printed.match(/INFO: (the rules are valid again: )?reloaded /g) ?? [];
    await running.waitFor((printed) => logged(printed).length >= loads);
  }
}

/** Kills both workers; resolves when others listen. */
async function replaceWorkers(running: Weir): Promise<void> {
  const listening = () =>
    Array.from(running.output().matchAll(/worker \d+ \(process (\d+)\) is listening/g), ([, pid]) => Number(pid));
  const before = listening();
  for (const pid of before.slice(-2)) process.kill(pid, 'SIGKILL');
  await running.waitFor(() => listening().length === before.length + 2);
}

/** Sends requests on new connections, enough that both workers accept some. */
async function ask({ grpcPort }: Weir, ...channel: Parameters<typeof createClient>[1][]): Promise<void> {
  for (let times = 0; times < 4; times++) {
    const client = createClient(`127.0.0.1:${grpcPort}`, ...channel);
    expect(await client.ask()).toMatchObject({ overall_code: OK });
    client.close();
  }
}

const serialOf = (port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connectTls({ port, host: '127.0.0.1', ca: authority.cert, ALPNProtocols: ['h2'] }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.once('error', reject);
  });

/** Waits until new connections, enough for each worker to take one, present this certificate. */
async function untilPresented(port: number, serial: string): Promise<void> {
  for (let inARow = 0; inARow < 8; inARow++) {
    if ((await serialOf(port)) === serial) continue;
    inARow = -1;
    await sleep(100);
  }
}

const serialIn = ({ cert }: { readonly cert: string }): string => new X509Certificate(cert).serialNumber;

test('workers replaced in the middle of a rotation present the certificate in force, then the new one', async () => {
  redis = await startRedis();
  const { cert, key } = writeCertificate(folder, 'server', issue());
  const tls = { GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: cert, GRPC_SERVER_TLS_KEY: key };
  const running = await service({ ...tls, REDIS_URL: redis.url });
  const trusting = credentials.createSsl(
    ...([Buffer.from(authority.cert), null, null] as const),
    serverIdentity(`127.0.0.1:${running.grpcPort}`).verify,
  );
  // the running workers take this one, and pass it on
  const second = issue();
  writeCertificate(folder, 'server', second);
  await untilPresented(running.grpcPort, serialIn(second));
  await untilFilesAreRead(running);
  const third = issue();
  writeFileSync(cert, third.cert.slice(0, third.cert.length / 2));
  await running.waitFor((printed) => (printed.match(/keeping the previous certificates/g) ?? []).length === 2);

  await replaceWorkers(running);
  expect(await serialOf(running.grpcPort)).toBe(serialIn(second));
  await ask(running, trusting);
  writeCertificate(folder, 'server', third);
  await untilPresented(running.grpcPort, serialIn(third));
  await replaceWorkers(running);
  await ask(running, trusting);
  expect(running.output()).not.toContain('cannot start');
  expect(running.output()).not.toMatch(/BEGIN|PRIVATE/);
});

test('workers replaced in the middle of a rotation of files for Redis connect with the last usable ones', async () => {
  const ca = join(folder, 'ca.crt');
  writeFileSync(ca, authority.cert);
  const server = writeCertificate(folder, 'redis', issue());
  const port = await freePort();
  const files = ['--tls-cert-file', server.cert, '--tls-key-file', server.key, '--tls-ca-cert-file', ca];
  redis = await startRedis({ args: ['--tls-port', String(port), ...files, '--tls-auth-clients', 'yes'] });
  const { cert, key } = writeCertificate(folder, 'weir', authority.issue('weir'));
  const running = await service({
    ...{ REDIS_URL: `rediss://127.0.0.1:${port}`, REDIS_TLS_CACERT: ca },
    ...{ REDIS_TLS_CLIENT_CERT: cert, REDIS_TLS_CLIENT_KEY: key },
  });
  await ask(running);
  writeFileSync(cert, '-----BEGIN CERTIFICATE-----\nMII');
  await replaceWorkers(running);
  await ask(running);
  expect(running.output()).toMatch(/TLS files cannot be used: .*; the last usable ones stay in use/);
  expect(running.output()).not.toContain('cannot start');
});
