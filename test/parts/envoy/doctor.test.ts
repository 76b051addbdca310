import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { examineCluster, probeAddress } from '../../../src/parts/envoy/clusters.ts';
import { type PrintedEnvoy, startPrintedEnvoy } from '../../helpers/printed-envoy.ts';
import { freePort } from '../../helpers/process.ts';
import { MAIN, startWeir } from '../../helpers/weir.ts';

type HostProbe = Parameters<typeof examineCluster>[2];

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));
const CONFIG = join(PROJECT, 'config/rules.yaml');

/** Runs the doctor; any exit code will do. */
const doctor = (envoy: string) =>
  promisify(execFile)(process.execPath, [MAIN, 'doctor', '--envoy', envoy, '--rules', CONFIG], {
    env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, NO_COLOR: '1' },
  }).then(
    ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
    ({ stdout, stderr, code }) => ({ stdout, stderr, code }),
  );

/** Envoy that calls Weir at a port without health checks, and refuses requests if it is unreachable. */
const startAsking = (port: number): Promise<PrintedEnvoy> =>
  startPrinted(port, (config) =>
    config.replace('failure_mode_deny: false', 'failure_mode_deny: true').replace(/^ +health_checks:.*\n/m, ''),
  );

const startPrinted = (port: number, edit?: (config: string) => string): Promise<PrintedEnvoy> =>
  startPrintedEnvoy({ rules: CONFIG, target: `127.0.0.1:${port}`, upstreamPort: port, ...(edit && { edit }) });

const fetchStatus = async ({ port }: PrintedEnvoy): Promise<number> =>
  (await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-user': 'ann' } })).status;

const examined = ({ adminPort }: PrintedEnvoy) => doctor(`localhost:${adminPort}`); // as operators write it

/** The doctor's lines about the hosts of clusters. */
const ofCluster = ({ stdout }: { readonly stdout: string }): readonly string[] =>
  stdout.split('\n').filter((line) => /^(right|wrong) {2}cluster /.test(line));

const listening = async (server: Server): Promise<number> => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
};

test('a cluster without a listening host is wrong, before and after Envoy has tried it', async () => {
  const port = await freePort();
  const envoy = await startAsking(port);
  const address = `127.0.0.1:${port}`;
  try {
    const before = await examined(envoy);
    expect(ofCluster(before)).toEqual([
      `wrong  cluster weir: 1 of 1 host cannot be reached: ${address} (connect ECONNREFUSED ${address} from here; Envoy has not tried to connect yet: send it a request and run this again)`,
    ]);
    expect(before.stderr).toBe('weir: 1 is wrong\n');
    expect(before.code).toBe(1);
    expect(await fetchStatus(envoy)).toBe(500);
    const after = await examined(envoy);
    expect(after.stdout).toContain('; 1 of 1 got no decision since its start: 0 passed, 1 failed; ');
    expect(ofCluster(after)).toEqual([
      expect.stringMatching(
        `^wrong  cluster weir: 1 of 1 host cannot be reached: ${address} \\((all \\d+ connections from Envoy|Envoy's only connection) failed\\)$`,
      ),
    ]);
  } finally {
    await envoy.stop();
  }
});

test('an untried cluster is right if the doctor can reach it', async () => {
  const weir = await startWeir({ USE_STATSD: 'false' });
  const envoy = await startAsking(weir.grpcPort);
  try {
    expect(ofCluster(await examined(envoy))).toEqual([
      `right  cluster weir has 1 host; Envoy has not connected to 127.0.0.1:${weir.grpcPort} yet, but it can be reached from here`,
    ]);
    await fetchStatus(envoy);
    expect(ofCluster(await examined(envoy))).toEqual(['right  cluster weir has 1 host']);
  } finally {
    await Promise.all([envoy.stop(), weir.stop()]);
  }
});

test('the printed cluster has health checks, and one without them is to be checked', async () => {
  const port = await freePort();
  const [checked, unchecked] = await Promise.all([startPrinted(port), startAsking(port)]);
  try {
    const { stdout } = await examined(checked);
    expect(stdout).toContain(
      `wrong  cluster weir: 1 of 1 host cannot be reached: 127.0.0.1:${port} (Envoy's health checks fail)`,
    );
    expect(stdout).not.toContain('grpc_health_check');
    expect((await examined(unchecked)).stdout).toMatch(
      /^check {2}cluster weir has no grpc_health_check of ratelimit: .*; add health_checks: \[\{ .* \}\] and common_lb_config: /m,
    );
  } finally {
    await Promise.all([checked.stop(), unchecked.stop()]);
  }
});

test('a port that does not serve gRPC is wrong', async () => {
  const other = createServer((_, response) => void response.end('no gRPC'));
  const envoy = await startAsking(await listening(other));
  try {
    expect(await fetchStatus(envoy)).toBe(500);
    expect(ofCluster(await examined(envoy))).toEqual([
      expect.stringMatching(
        /^wrong {2}cluster weir: 1 of 1 host cannot be reached: 127\.0\.0\.1:\d+ \(connects, but answered none of \d+ requests: is this Weir's gRPC port\?\)$/,
      ),
    ]);
  } finally {
    await envoy.stop();
    other.close();
  }
});

/** A cluster with one host, as Envoy reports it. */
const clusterWith = (stats: Readonly<Record<string, number>>, health: object = {}) => ({
  cluster_statuses: [
    {
      name: 'weir',
      host_statuses: [
        {
          address: { socket_address: { address: '10.0.0.7', port_value: 8081 } },
          stats: Object.entries(stats).map(([name, value]) => ({ name, value: String(value) })),
          health_status: health,
        },
      ],
    },
  ],
});
const reached: HostProbe = async () => undefined;
const refused: HostProbe = async () => 'refused';

test('a recovered host without a connection is tried from here', async () => {
  const idle = clusterWith({ cx_total: 5, cx_connect_fail: 2, cx_active: 0, rq_success: 40, rq_total: 42 });
  expect(await examineCluster('weir', idle, reached)).toEqual({ verdict: 'right', text: 'cluster weir has 1 host' });
  expect(await examineCluster('weir', idle, refused)).toEqual({
    verdict: 'wrong',
    text: 'cluster weir: 1 of 1 host cannot be reached: 10.0.0.7:8081 (refused from here; Envoy has no connection to it now, and 2 of its 5 failed)',
  });
});

test('a host that Envoy considers unhealthy is wrong, regardless of earlier answers', async () => {
  const busy = { cx_total: 5, cx_active: 1, rq_success: 40, rq_total: 42 };
  expect(await examineCluster('weir', clusterWith(busy), refused)).toEqual({
    verdict: 'right',
    text: 'cluster weir has 1 host',
  });
  expect(await examineCluster('weir', clusterWith(busy, { failed_outlier_check: true }), reached)).toEqual({
    verdict: 'wrong',
    text: "cluster weir: 1 of 1 host cannot be reached: 10.0.0.7:8081 (Envoy's health checks fail)",
  });
});

/** A cluster with hosts that Envoy has not tried. */
const untriedCluster = (addresses: readonly object[]) => ({
  cluster_statuses: [{ name: 'weir', host_statuses: addresses.map((address) => ({ address })) }],
});

test('a host that neither Envoy nor the doctor has tried is not reported as reachable', async () => {
  const internal = { envoy_internal_address: { server_listener_name: 'x' } };
  expect(await examineCluster('weir', untriedCluster([internal]), refused)).toEqual({
    verdict: 'right',
    text: "cluster weir has 1 host; unknown for 1: Envoy's counters do not show it, and no connection was tried from here",
  });
  const many = Array.from({ length: 23 }, (_, at) => ({
    socket_address: { address: `10.0.0.${at}`, port_value: 8081 },
  }));
  const { verdict, text } = await examineCluster('weir', untriedCluster([internal, ...many]), reached);
  expect(verdict).toBe('right');
  expect(text).toMatch(
    /^cluster weir has 24 hosts; Envoy has not connected to 10\.0\.0\.0:8081, .* and 15 more yet, but they can be reached from here; unknown for 4: Envoy's counters do not show it, and no connection was tried from here$/,
  );
  expect((await examineCluster('weir', untriedCluster(many), refused)).text).toMatch(
    /^cluster weir: 20 of 23 hosts cannot be reached: .*; unknown for 3: Envoy's counters do not show it, and no connection was tried from here$/,
  );
});

test.each([
  ['a port out of range', { host: '127.0.0.1', port: 70_000 }, /^Port should be/],
  ['the path of a socket that is too long', { path: `/tmp/${'x'.repeat(200)}` }, /EINVAL|ENOENT|ENAMETOOLONG/],
])('%s is reported as the reason why a host is unreachable', async (_, address, why) => {
  expect(await probeAddress(address)).toMatch(why);
});

test("the doctor reports the expected and the actual answer if the target is not Envoy's admin interface", async () => {
  const port = await freePort();
  const closed = await doctor(`localhost:${port}`);
  expect(closed.stderr).toContain(`weir: localhost:${port}: connect ECONNREFUSED`);
  expect(closed.stderr).toMatch(/; expected the admin interface of Envoy\n$/);
  const page = createServer((_, response) => void response.end('/ what is here\n'));
  const json = createServer((_, response) => void response.end('{}'));
  const broken = createTcpServer((socket) => socket.end('SSH-2.0\r\n'));
  try {
    const said = async (server: Server) => (await doctor(`127.0.0.1:${await listening(server)}`)).stderr;
    expect(await said(page)).toContain('expected the admin interface of Envoy, got no JSON: "/ what is here');
    expect(await said(json)).toContain('expected the admin interface of Envoy, got JSON without configs');
    expect(await said(broken)).toMatch(/HTTP.*; expected the admin interface of Envoy\n$/);
  } finally {
    for (const server of [page, json, broken]) server.close();
  }
  const senseless = await doctor('http://[');
  expect(senseless).toMatchObject({ code: 1, stderr: expect.stringContaining('Invalid URL') });
  expect(senseless.stderr).not.toContain('    at ');
});
