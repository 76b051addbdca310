import { once } from 'node:events';
import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { type Authority, type Certificate, createAuthority, writeCertificate } from '../helpers/certificates.ts';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const rules = (limit: number): string => `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: ${limit}}}
`;
const PLENTY = 1_000_000;

/** Concurrent callers, and the time between an answer and the next request of each. */
const CALLERS = 8;
const PAUSE_MS = 40;

/**
 * Longer than Envoy takes to stop calling, even on a busy machine: it checks health every 0.1 s, and merges updates for
 * a second (`update_merge_window`).
 */
const DRAIN_DELAY = '7s';

/** Checks often, with a timeout for a busy machine. */
const checkingOften = (config: string): string =>
  config.replace(/(?<=interval: )1s/g, '0.1s').replace(/(?<= timeout: )1s(?=\s+unhealthy)/, '20s');

/** A transport socket that trusts only `authority.pem`, and presents the certificate in `client.yaml`. */
const mutual = (): string => `
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          sni: localhost
          common_tls_context:
            alpn_protocols: [h2]
            validation_context: { trusted_ca: { filename: ${join(folder, 'authority.pem')} } }
            tls_certificate_sds_secret_configs: [{ name: client, sds_config: { path_config_source: { path: ${join(folder, 'client.yaml')} } } }]
`;

let folder: string;
let redis: Redis;
let authority: Authority;
let stops: (() => Promise<unknown>)[];

beforeAll(async () => {
  redis = await startRedis();
  authority = createAuthority();
});
afterAll(() => redis.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rolling-'));
  writeFileSync(join(folder, 'rules.yaml'), rules(PLENTY));
  writeFileSync(join(folder, 'authority.pem'), authority.cert);
  renewCertificate();
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
});

const renewCertificate = () => writeCertificate(folder, 'server', authority.issue('localhost', '127.0.0.1'));

/** Gives Envoy another client certificate, as a secret that it watches. */
function renewClient(by: Authority): void {
  const { cert, key } = by.issue('envoy.mesh.local');
  const secret = {
    '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret',
    name: 'client',
    tls_certificate: { certificate_chain: { inline_string: cert }, private_key: { inline_string: key } },
  };
  replaceFile('client.yaml', JSON.stringify({ resources: [secret] }));
}

function replaceFile(name: string, text: string): void {
  writeFileSync(join(folder, `${name}.new`), text);
  renameSync(join(folder, `${name}.new`), join(folder, name));
}

/** Starts an instance, on the port of a stopped one if `before` is given. */
async function instance(env: Readonly<Record<string, string>>, before?: Weir): Promise<Weir> {
  const port = before && { GRPC_PORT: String(before.grpcPort) };
  const weir = await startWeir(
    { REDIS_URL: redis.url, DRAIN_DELAY, ...env, ...port },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );
  stops.push(() => weir.stop('SIGKILL')); // without a delay
  return weir;
}

/**
 * Starts an Envoy that calls these instances in turn while they are healthy, and refuses requests without an answer.
 */
async function proxy(first: Weir, others: readonly Weir[] = [], inCluster = '', inProtocol = ''): Promise<Envoy> {
  const endpoint = (port: number | string): string =>
    `              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${port} } } }\n`;
  const more = others.map(({ grpcPort }) => endpoint(`=${grpcPort}`)).join('');
  const envoy = await startEnvoy(first.grpcPort, (config) =>
    checkingOften(config)
      .replace(endpoint(8081), `$&${more}`)
      .replace(/^admin:$/m, 'node: { id: edge, cluster: edge }\n$&') // for secrets from files
      .replace('    - name: weir\n      type: STATIC', `$&${inCluster}`)
      .replace('          explicit_http_config:', `${inProtocol}$&`),
  );
  stops.push(envoy.stop);
  await healthy(envoy, 1 + others.length);
  return envoy;
}

const healthy = (envoy: Envoy, count: number): Promise<void> =>
  envoy.waitFor(
    async () => (await envoy.admin('/clusters')).split(/^weir::.*::health_flags::healthy$/m).length > count,
  );

/** Sends requests continuously until it is stopped. @returns the count of each status */
function load(envoy: Envoy) {
  const counts = new Map<number, number>();
  let isOver = false;
  const callers = Array.from({ length: CALLERS }, async (_, caller) => {
    while (!isOver) {
      const { status } = await envoy.get('10001', '/', `user-${caller}`);
      counts.set(status, (counts.get(status) ?? 0) + 1);
      await sleep(PAUSE_MS);
    }
  });
  return {
    /** Resolves when each caller has received about `answers` more answers. */
    async goesOn(answers = 25) {
      const total = () => [...counts.values()].reduce((sum, count) => sum + count, 0);
      const target = total() + answers * CALLERS;
      await until(`${target} answers`, () => total() >= target);
    },
    async stop() {
      isOver = true;
      await Promise.all(callers);
      return Object.fromEntries(counts);
    },
  };
}

const tls = () => ({
  GRPC_SERVER_USE_TLS: 'true',
  GRPC_SERVER_TLS_CERT: join(folder, 'server.crt'),
  GRPC_SERVER_TLS_KEY: join(folder, 'server.key'),
  GRPC_CLIENT_TLS_CACERT: join(folder, 'clients.pem'),
});

test.each([
  ['h2', '300ms'],
  ['grpc-js', '24h'],
])(
  'no request fails while two instances are restarted one after the other, with %s and connections that end after %s',
  async (GRPC_TRANSPORT, GRPC_MAX_CONNECTION_AGE) => {
    const env = { GRPC_TRANSPORT, GRPC_MAX_CONNECTION_AGE };
    const one = await instance(env);
    const other = await instance(env);
    const envoy = await proxy(one, [other]);
    const asking = load(envoy);
    for (const weir of [one, other]) {
      await asking.goesOn();
      process.kill(weir.pid, 'SIGTERM');
      expect(await weir.exited).toEqual({ code: 0, signal: null });
      await asking.goesOn();
      await instance(env, weir);
      await healthy(envoy, 2);
    }
    await asking.goesOn();
    expect(await asking.stop()).toEqual({ 200: expect.any(Number) });
  },
);

test('no request fails while the certificates of both sides and the authority of clients change', async () => {
  const [old, next] = [createAuthority('Old clients'), createAuthority('New clients')];
  replaceFile('clients.pem', old.cert);
  renewClient(old);
  const weir = await instance(tls());
  const shortLived = '          common_http_protocol_options: { max_connection_duration: 0.3s }\n';
  const envoy = await proxy(weir, [], mutual(), shortLived);
  const asking = load(envoy);
  for (let time = 0; time < 2; time++) {
    await asking.goesOn();
    const before = await fingerprintOf(weir, old.issue('test.mesh.local'));
    renewCertificate();
    await until(
      'another certificate',
      async () => (await fingerprintOf(weir, old.issue('test.mesh.local'))) !== before,
    );
    await asking.goesOn();
  }
  const accepts = async (by: Authority) => (await fingerprintOf(weir, by.issue('test.mesh.local'))) !== undefined;
  replaceFile('clients.pem', old.cert + next.cert);
  await until('both authorities are trusted', () => accepts(next));
  const rotations = async () => countOf(envoy, 'client_ssl_socket_factory.ssl_context_update_by_sds');
  const before = await rotations();
  renewClient(next);
  await until('Envoy has the new certificate', async () => (await rotations()) > before);
  await asking.goesOn();
  replaceFile('clients.pem', next.cert);
  await until('the old authority is no longer trusted', async () => !(await accepts(old)));
  await asking.goesOn();
  expect(await asking.stop()).toEqual({ 200: expect.any(Number) });
});

test('neither requests nor health checks fail while connections end by their age', async () => {
  const envoy = await proxy(await instance({ GRPC_MAX_CONNECTION_AGE: '100ms' }));
  const asking = load(envoy);
  await until('20 connections', async () => (await countOf(envoy, 'upstream_cx_total')) >= 20);
  expect(await asking.stop()).toEqual({ 200: expect.any(Number) });
  expect(await countOf(envoy, 'health_check.failure')).toBe(0);
});

/** A counter of Weir's cluster. */
const countOf = async (envoy: Envoy, name: string): Promise<number> =>
  Number(/: (\d+)/.exec(await envoy.admin(`/stats?filter=^cluster.weir.${name}$`))?.[1]);

test('no request fails while rules change, to invalid ones too, and then the new limit applies', async () => {
  const envoy = await proxy(await instance({}));
  const asking = load(envoy);
  for (const text of [rules(PLENTY + 1), 'domain: [', rules(PLENTY + 2)]) {
    await asking.goesOn();
    writeFileSync(join(folder, 'rules.yaml'), text);
    await sleep(1_500); // they are polled every second
  }
  expect(await asking.stop()).toEqual({ 200: expect.any(Number) });
  writeFileSync(join(folder, 'rules.yaml'), rules(1));
  await envoy.waitFor(async () => (await envoy.get('10001', '/', 'user-0')).status === 429);
});

/** The fingerprint of the server's certificate on a new connection; undefined if it refuses the client's. */
async function fingerprintOf({ grpcPort }: Weir, { cert, key }: Certificate): Promise<string | undefined> {
  const options = { port: grpcPort, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] };
  const socket = connect({ ...options, cert, key });
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'); // and empty SETTINGS, which the server answers
  const ended = once(socket, 'close').then(() => []);
  try {
    const [settings] = await Promise.race([once(socket, 'data'), ended]);
    return settings && socket.getPeerCertificate().fingerprint256;
  } catch {
    return undefined; // the server has sent an alert
  } finally {
    socket.destroy();
  }
}
