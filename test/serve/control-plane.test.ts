import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAuthority, writeCertificate } from '../helpers/certificates.ts';
import {
  type ControlPlane,
  type ControlPlaneOptions,
  startControlPlane,
  type Verdict,
} from '../helpers/control-plane.ts';
import { freePort, start } from '../helpers/process.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const QUICK = { XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '100ms', XDS_CLIENT_BACKOFF_MAX_INTERVAL: '200ms' };

let controlPlane: ControlPlane | undefined;
let weir: Weir | undefined;

afterEach(async () => {
  await weir?.stop();
  controlPlane?.stop();
  weir = undefined;
  controlPlane = undefined;
});

async function both(env: Readonly<Record<string, string>> = {}, options: ControlPlaneOptions = {}) {
  controlPlane = await startControlPlane(options);
  weir = await startWeir({ ...urlOf(controlPlane.port), ...QUICK, ...env });
  return { controlPlane, weir };
}

const urlOf = (port: number) => ({
  CONFIG_TYPE: 'GRPC_XDS_SOTW',
  CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
});

const rules = (requestsPerUnit: number) => [
  {
    name: 'r',
    domain: 'd',
    descriptors: [{ key: 'k', rate_limit: { unit: 'DAY', requests_per_unit: requestsPerUnit } }],
  },
];

/** The limit of a request, or the HTTP status if it fails. */
async function limitNow({ httpPort }: Weir): Promise<unknown> {
  const body = JSON.stringify({ domain: 'd', descriptors: [{ entries: [{ key: 'k', value: '1' }], hitsAddend: '0' }] });
  const reply = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body });
  if (!reply.ok) return reply.status;
  const { statuses } = (await reply.json()) as { readonly statuses: readonly { readonly currentLimit?: object }[] }; // the API's answer
  return statuses[0]?.currentLimit;
}

/** Waits for a limit by the day: deciders use new rules shortly after the control plane has been answered. */
const untilLimit = (of: Weir, requestsPerUnit: number): Promise<void> =>
  eventually(
    async () => JSON.stringify(await limitNow(of)) === JSON.stringify({ requestsPerUnit, unit: 'DAY' }),
    () => `the limit is ${requestsPerUnit}; ${of.output()}`,
  );

const page = async (port: number, path: string): Promise<string> =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).text();

async function untilOutput({ output }: Weir, text: string): Promise<void> {
  await eventually(() => output().includes(text), output);
}

test('rules come from the control plane, which receives the configured node, and without any, no request is answered', async () => {
  const { controlPlane, weir } = await both({
    CONFIG_GRPC_XDS_NODE_ID: 'edge',
    CONFIG_GRPC_XDS_NODE_METADATA: 'a=b,c=d',
    CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'x-tenant:blue,x-zone:1',
    MERGE_DOMAIN_CONFIG: 'true',
  });
  expect(await controlPlane.first()).toMatchObject({ node_id: 'edge', node_metadata: { a: 'b', c: 'd' } });
  const headers = await controlPlane.headers();
  expect([...headers.get('x-tenant'), ...headers.get('x-zone')]).toEqual(['blue', '1']);
  expect(weir.output()).toContain(`the control plane at 127.0.0.1:${controlPlane.port}: none yet`);
  expect(await page(weir.httpPort, '/healthcheck?verbose')).toBe('no rate limit configuration loaded\n');
  expect(await limitNow(weir)).toBe(400);
  expect(await controlPlane.serve('v1', [...rules(5), { name: 's', domain: 'd' }])).toEqual({ ack: 'v1' });
  await untilLimit(weir, 5);
  expect(await page(weir.httpPort, '/healthcheck')).toBe('OK');

  expect(await controlPlane.serve('v2', [{ raw: '/////w==' }])).toMatchObject({ version: 'v1' });
  await untilLimit(weir, 5);
  const statistics = await page(weir.debugPort, '/stats');
  expect(statistics).toContain('ratelimit.service.config_load_success: 1\n');
  expect(statistics).toContain('ratelimit.service.config_load_error: 1\n');
  expect(weir.output()).toContain('resources[0]: cannot be decoded');
});

test('a message above XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES is not accepted', async () => {
  const { controlPlane, weir } = await both({ XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: '100' });
  await eventually(async () => {
    void controlPlane.serve('v1', [{ name: 'r'.repeat(100), domain: 'd' }]); // never answered; sent on the current stream
    await sleep(200);
    return weir.output().includes('RESOURCE_EXHAUSTED');
  });
  const verdicts: Verdict[] = [];
  await eventually(async () => {
    void controlPlane.serve('v2', []).then((verdict) => verdicts.push(verdict)); // the stream may still be the lost one
    await sleep(200);
    return verdicts.length > 0;
  });
  expect(verdicts[0]).toEqual({ ack: 'v2' });
});

test('loss and return of the control plane are logged, and the rules are kept meanwhile', async () => {
  const { controlPlane: first, weir } = await both();
  const where = `the control plane at 127.0.0.1:${first.port}`;
  await first.serve('v1', rules(5));
  first.stop();
  await untilOutput(weir, `no rules from ${where}: `);
  await untilLimit(weir, 5);
  controlPlane = await startControlPlane({ port: first.port });
  await controlPlane.serve('v2', rules(6));
  await untilLimit(weir, 6);
  expect(weir.output()).toContain(`connected to ${where} again`);
});

test('a hundred snapshots of large rules fit into a heap that could not keep them', async () => {
  const RULES = 40;
  const { controlPlane, weir } = await both({ NODE_OPTIONS: '--max-old-space-size=64' });
  const snapshot = (version: number) => {
    const value = 'x'.repeat(15_000);
    const descriptors = Array.from({ length: RULES }, (_, rule) => ({
      ...{ key: `k${version}-${rule}`, value: `${value}${version}-${rule}` }, // 600 kB a snapshot and more
      rate_limit: { unit: 'DAY', requests_per_unit: version },
    }));
    const limit = { unit: 'DAY', requests_per_unit: version };
    return [{ name: 'r', domain: 'd', descriptors: [{ key: 'k', rate_limit: limit }, ...descriptors] }];
  };
  const ended = weir.exited.then(() => weir.output()); // it would exit if the heap were full
  for (let version = 1; version <= 100; version++) {
    const verdict = controlPlane.serve(`v${version}`, snapshot(version));
    expect(await Promise.race([verdict, ended])).toEqual({ ack: `v${version}` });
    if (version % 10 === 0) await untilLimit(weir, version);
  }
});

describe('over TLS', () => {
  const authority = createAuthority();
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'xds-'));
  });

  test('both sides present the configured certificates', async () => {
    const own = writeCertificate(folder, 'weir', authority.issue('weir'));
    const { controlPlane } = await both(
      {
        CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
        CONFIG_GRPC_XDS_SERVER_TLS_CACERT: writeCertificate(folder, 'ca', authority).cert,
        CONFIG_GRPC_XDS_SERVER_TLS_SAN: 'control-plane.example',
        CONFIG_GRPC_XDS_CLIENT_TLS_CERT: own.cert,
        CONFIG_GRPC_XDS_CLIENT_TLS_KEY: own.key,
      },
      { tls: { certificate: authority.issue('control-plane.example'), clientAuthority: authority } },
    );
    expect(await controlPlane.serve('v1', rules(5))).toEqual({ ack: 'v1' });
  });
});

test.each<[string, Readonly<Record<string, string>>, string]>([
  [
    'a file of certificates is not there',
    { CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true', CONFIG_GRPC_XDS_SERVER_TLS_CACERT: '/nowhere/ca.pem' },
    "ENOENT: no such file or directory, open '/nowhere/ca.pem'",
  ],
  [
    'a header has a name that none can have',
    { CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'x tenant:blue' },
    'Metadata key "x tenant" contains illegal characters',
  ],
])('there is no service if %s', async (_, env, reason) => {
  const port = await freePort();
  const { PATH } = process.env;
  const running = await start(process.execPath, [MAIN, 'serve'], { env: { PATH, ...urlOf(port), ...env } });
  expect(await running.exited).toEqual({ code: 1, signal: null });
  const what = `the control plane at 127.0.0.1:${port} cannot be used`;
  expect(running.output()).toContain(`weir: CONFIG_GRPC_XDS_*: ${what}: ${reason}`);
});
