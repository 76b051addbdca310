import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { promisify } from 'node:util';
import { createAuthority, writeCertificate } from '../helpers/certificates.ts';
import { type Collector, startGrpcCollector, startHttpCollector } from '../helpers/collector.ts';
import { startControlPlane } from '../helpers/control-plane.ts';
import { startMemcached } from '../helpers/memcached.ts';
import { startRedis } from '../helpers/redis.ts';
import { eventually, until } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const folder = mkdtempSync(join(tmpdir(), 'outgoing-tls-'));
const authority = createAuthority();
const server = authority.issue('localhost', '127.0.0.1');
const files = writeCertificate(folder, 'server', server);
const other = writeCertificate(folder, 'other', createAuthority()).cert;
mkdirSync(join(folder, 'empty'));
/** A system whose store has one private CA. */
const trusting = { SSL_CERT_FILE: writeCertificate(folder, 'ca', authority).cert, SSL_CERT_DIR: join(folder, 'empty') };
/** OpenSSL's words for a certificate of an authority that is not trusted. */
const REFUSED = /self.signed|unable to verify|local issuer/;
const quiet = { USE_STATSD: 'false' };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function weirWith(env: Readonly<Record<string, string>>): Promise<Weir> {
  const weir = await startWeir({ ...quiet, ...env });
  closing.push(() => weir.stop());
  return weir;
}

/** Runs a command of a service's operator. */
const command = async (env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<string> =>
  promisify(execFile)(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env.PATH, TMPDIR: tmpdir(), NO_COLOR: '1', ...env },
  }).then(
    ({ stdout }) => stdout,
    ({ stderr }: { stderr: string }) => stderr,
  );

/** Accepts TLS with the certificate of the private authority, and passes the bytes on. @returns its port */
async function terminateTls(port: number): Promise<number> {
  const terminator = createServer({ ...server, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
    const onward = connect(port, '127.0.0.1').on('error', () => socket.destroy());
    socket.on('error', () => {}).on('close', () => onward.destroy());
    socket.pipe(onward).pipe(socket);
  }).on('tlsClientError', () => {});
  terminator.listen(0, '127.0.0.1');
  await once(terminator, 'listening');
  closing.push(() => terminator.close());
  return (terminator.address() as AddressInfo).port; // it listens on a TCP port
}

const healthOf = async ({ httpPort }: Weir): Promise<string> =>
  (await fetch(`http://127.0.0.1:${httpPort}/healthcheck?verbose`)).text();

describe("a private CA in the system's store is trusted", () => {
  test('Redis is verified by it, and an explicit CA replaces it', async () => {
    const { port } = await startRedis();
    const REDIS_URL = `rediss://127.0.0.1:${await terminateTls(port)}`;
    const weir = await weirWith({ ...trusting, REDIS_URL, LOG_LEVEL: 'info' });
    await weir.waitFor('connected to rediss://');
    const exclusive = await weirWith({ ...trusting, REDIS_URL, REDIS_TLS_CACERT: other });
    await exclusive.waitFor((output) => REFUSED.test(output));
  });

  test('memcached is verified by it', async () => {
    const { port } = await startMemcached();
    const servers = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${await terminateTls(port)}` };
    const weir = await weirWith({ ...trusting, ...servers, MEMCACHE_TLS: 'true' });
    await eventually(
      async () => (await fetch(`http://127.0.0.1:${weir.httpPort}/healthcheck`)).ok,
      () => weir.output(),
    );
    expect(await healthOf(weir)).not.toContain('certificate');
  });

  test('the control plane is verified by it', async () => {
    const controlPlane = await startControlPlane({ tls: { certificate: server } });
    closing.push(() => controlPlane.stop());
    await weirWith({
      ...trusting,
      ...{ CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${controlPlane.port}` },
      ...{ CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true', FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' },
    });
    expect(await controlPlane.serve('v1', [])).toEqual({ ack: 'v1' });
  });

  test.each<[string, () => Promise<Collector>]>([
    ['http', startHttpCollector],
    ['grpc', startGrpcCollector],
  ])('a collector of traces over %s is verified by it, and an explicit CA replaces it', async (protocol, start) => {
    const collector = await start();
    closing.push(() => collector.close());
    const endpoint = `https://127.0.0.1:${await terminateTls(Number(new URL(collector.endpoint).port))}`;
    const tracing = {
      ...{ TRACING_ENABLED: 'true', TRACING_EXPORTER_PROTOCOL: protocol, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint },
      ...{ OTEL_BSP_SCHEDULE_DELAY: '100', OTEL_EXPORTER_OTLP_TIMEOUT: '2000' },
    };
    const weir = await weirWith({ ...trusting, ...tracing });
    await command({}, 'ask', 'demo', 'user=alice', '--grpc', `127.0.0.1:${weir.grpcPort}`);
    await until('a span arrives', () => collector.spans.length > 0);
    const count = collector.spans.length;
    const exclusive = await weirWith({ ...trusting, ...tracing, OTEL_EXPORTER_OTLP_CERTIFICATE: other });
    await command({}, 'ask', 'demo', 'user=alice', '--grpc', `127.0.0.1:${exclusive.grpcPort}`);
    await exclusive.waitFor('sending traces is failing');
    expect(collector.spans).toHaveLength(count);
  });

  test('`weir ask` and commands of the admin API verify the service by it, and --ca replaces it', async () => {
    const weir = await weirWith({
      ...{ GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: files.cert, GRPC_SERVER_TLS_KEY: files.key },
      ...{ DEBUG_TLS_CERT: files.cert, DEBUG_TLS_KEY: files.key },
    });
    const ask = ['ask', 'demo', 'user=alice', '--grpc', `localhost:${weir.grpcPort}`, '--tls'];
    const explain = ['explain', 'demo', 'user=alice', '--target', `https://localhost:${weir.debugPort}`];
    for (const args of [ask, explain]) {
      expect(await command(trusting, ...args)).toContain('per-user');
      expect(await command(trusting, ...args, '--ca', other)).toMatch(REFUSED);
      expect(await command({}, ...args)).toMatch(REFUSED);
    }
  });
});
