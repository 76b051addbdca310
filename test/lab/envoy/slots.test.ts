import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type PrintedEnvoy, startPrintedEnvoy } from '../../helpers/printed-envoy.ts';
import { until } from '../../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 18s }
  - { key: user, rate_limit: { unit: day, requests_per_unit: 1000 } }
`;

let folder: string;
let rules: string;
let weir: Weir;
let upstream: Server;
/** Requests that the upstream has not answered yet. */
const open: ServerResponse[] = [];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'slots-'));
  rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES);
  weir = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', rules] });
  upstream = createServer((_, response) => void open.push(response)).listen(0, '127.0.0.1');
  await once(upstream, 'listening');
});
afterAll(async () => {
  upstream.closeAllConnections();
  upstream.close();
  await weir.stop();
});

const weirCommand = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH, NO_COLOR: '1' } }).then(
    ({ stdout }) => ({ stdout, code: 0 }),
    ({ stdout, code }) => ({ stdout, code }),
  );

/** Envoy with the configuration that `weir envoy` prints for the rules. */
const startPrinted = (edit = (config: string): string => config): Promise<PrintedEnvoy> =>
  startPrintedEnvoy({
    rules,
    target: `127.0.0.1:${weir.grpcPort}`,
    upstreamPort: (upstream.address() as AddressInfo).port,
    edit,
  });

/** A request whose client sends an id, which Envoy must replace. */
const get = ({ port }: PrintedEnvoy): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-tenant': 'acme', 'x-request-id': 'mine' } });

const doctor = ({ adminPort }: PrintedEnvoy) =>
  weirCommand('doctor', '--envoy', `http://127.0.0.1:${adminPort}`, '--rules', rules);

async function usedSlots(): Promise<number> {
  const url = `http://127.0.0.1:${weir.debugPort}/api/v1/counters?domain=demo&descriptor=tenant%3Dacme`;
  const { counters } = (await (await fetch(url)).json()) as { counters: readonly { used: number }[] };
  return counters[0]?.used ?? 0;
}

test('Envoy acquires and releases slots with the printed configuration, and the doctor finds no problem', async () => {
  const envoy = await startPrinted();
  try {
    const [first, second] = [get(envoy), get(envoy)];
    await until('two requests', () => open.length === 2);
    expect((await get(envoy)).status).toBe(429);
    for (const response of open.splice(0)) response.end('done');
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    await until('both slots are released', async () => (await usedSlots()) === 0);
    const { stdout, code } = await doctor(envoy);
    expect(stdout).toContain(
      'right  domain demo: routes time out after at most 14400 ms, slots expire after 18000 ms (ttl)',
    );
    expect({ stdout, code }).toEqual({ stdout: expect.not.stringContaining('wrong'), code: 0 });
  } finally {
    await envoy.stop();
  }
});

test('the doctor reports routes that last longer than the ttl, and slots that are never released', async () => {
  const envoy = await startPrinted((config) =>
    config
      .replace('timeout: 14.4s }', 'timeout: 0s }')
      .replace('apply_on_stream_done: true', 'apply_on_stream_done: false'),
  );
  try {
    const { stdout, code } = await doctor(envoy);
    expect(stdout).toContain('wrong  domain demo: a route has no timeout, but a slot expires after 18000 ms');
    expect(stdout).toContain('wrong  domain demo: no route sends tenant,request_id when streams end');
    expect(code).toBe(1);
  } finally {
    await envoy.stop();
  }
});

test('check reports a ttl that is not longer than the timeout of routes', async () => {
  const check = (timeout: string) => weirCommand('check', rules, '--backend', 'memory', '--route-timeout', timeout);
  expect((await check('17s')).stdout).not.toContain('ttl');
  expect((await check('18s')).stdout).toContain(
    'rules.yaml:6: warning: demo.tenant.request_id: a slot expires after its ttl of 18000 ms, but requests may last 18000 ms: raise the ttl',
  );
  const wrong = await check('soon');
  expect(wrong.stdout).toContain("--route-timeout must be a time such as 15s or 5m, got 'soon'");
  expect(wrong.code).toBe(1);
});
