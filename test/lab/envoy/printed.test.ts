import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load } from 'js-yaml';
import { startPrintedEnvoy } from '../../helpers/printed-envoy.ts';
import { MAIN, startWeir } from '../../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));
const RULES = `
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 2 } }
`;

let folder: string;
let rules: string;
let upstream: Server;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'printed-'));
  rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES);
  upstream = createServer((_, response) => void response.end('done')).listen(0, '127.0.0.1');
  await once(upstream, 'listening');
});
afterAll(() => {
  upstream.close();
});

const upstreamPort = (): number => (upstream.address() as AddressInfo).port;

const printed = async (...args: readonly string[]): Promise<string> =>
  (await promisify(execFile)(process.execPath, [MAIN, 'envoy', ...args], { encoding: 'utf8' })).stdout;

// For `localhost`, Envoy's resolver answers ::1 as well, whatever the hosts file says; by default Weir listens on 0.0.0.0.
test('Envoy limits requests with the printed configuration, if it reaches Weir as localhost', async () => {
  const weir = await startWeir({ USE_STATSD: 'false', GRPC_HOST: '0.0.0.0' }, { args: ['--rules', rules] });
  const envoy = await startPrintedEnvoy({
    rules,
    target: `localhost:${weir.grpcPort}`,
    upstreamPort: upstreamPort(),
  });
  try {
    const statuses: number[] = [];
    for (let hits = 0; hits < 4; hits++)
      statuses.push((await fetch(`http://127.0.0.1:${envoy.port}/`, { headers: { 'x-user': 'ann' } })).status);
    expect(statuses).toEqual([200, 200, 429, 429]);
  } finally {
    await Promise.all([envoy.stop(), weir.stop()]);
  }
});

test('every cluster prefers IPv4, and Istio gets the name of a Service instead of localhost', async () => {
  const istio = await printed(rules, '--for', 'istio');
  expect(istio).toContain('address: "weir.weir.svc.cluster.local", port_value: 8081'); // localhost would be the gateway's pod
  expect(await printed(rules, '--for', 'istio', '--grpc', 'localhost:8081')).toContain('address: "localhost"');
  for (const text of [istio, await printed(rules), await printed('rlqs', rules)])
    expect(text.match(/type: STRICT_DNS\n +dns_lookup_family: V4_PREFERRED/g)).toHaveLength(
      text.match(/type: STRICT_DNS/g)?.length ?? 0,
    );
});

test('the printed configurations allow as many waiting requests as envoy.yaml', async () => {
  const breakersOf = (text: string): readonly string[] => text.match(/circuit_breakers: \{.*\}(?= |$)/gm) ?? [];
  const expected = breakersOf(readFileSync(join(PROJECT, 'envoy.yaml'), 'utf8'));
  expect(expected).toHaveLength(1);
  for (const args of [[], ['--for', 'istio']]) expect(breakersOf(await printed(rules, ...args))).toEqual(expected);
});

test('the configuration has the admin interface that the doctor reads', async () => {
  for (const text of [await printed(rules), await printed('rlqs', rules)])
    expect(load(text)).toMatchObject({
      admin: { address: { socket_address: { address: '127.0.0.1', port_value: 9901 } } },
    });
});
