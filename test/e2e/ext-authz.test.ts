import { mkdtemp, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { blocksOf, textOf } from '../helpers/pages/page.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const FILTER =
  blocksOf(textOf('docs/proxies.md')).find(({ text }) => text.includes('filters.http.ext_authz'))?.text ?? '';
const RULES = `domain: web
descriptors:
  - key: path
    value: /login
    descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 2 } }]
`;
const MAPPING = `domain: web
fields: { remote_address: x-client-address }
rate_limits:
  - actions:
      - request_headers: { header_name: ":path", descriptor_key: path, regex: "^([^?;]*)" }
      - remote_address: {}
`;

let weir: Weir;
let envoy: Envoy;
beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ext-authz-'));
  const [rules, mapping] = [join(folder, 'rules.yaml'), join(folder, 'mapping.yaml')];
  await writeFile(rules, RULES);
  await writeFile(mapping, MAPPING);
  weir = await startWeir({ AUTHZ_MAPPING: mapping }, { args: ['--rules', rules] });
  const host = `{ socket_address: { address: 127.0.0.1, port_value: =${weir.httpPort} } }`;
  const cluster = `    - name: weir_http
      connect_timeout: 1s
      load_assignment: { cluster_name: weir_http, endpoints: [{ lb_endpoints: [{ endpoint: { address: ${host} } }] }] }
`;
  const filter = FILTER.replace('timeout: 0.25s', 'timeout: 60s').replaceAll(/^(?=.)/gm, ' '.repeat(18));
  envoy = await startEnvoy(weir.grpcPort, (config) =>
    config
      .replace(/^ +- name: envoy\.filters\.http\.ratelimit\n/m, (found) => filter + found)
      .replace('  clusters:\n', `$&${cluster}`),
  );
});
afterAll(async () => {
  await envoy.stop();
  await weir.stop();
});

/** Sends a request from this address of the machine, with headers that claim another path and address. */
const post = (localAddress: string) =>
  new Promise<{ status: number | undefined; remaining: unknown }>((resolve, reject) => {
    const forged = { 'x-forwarded-uri': '/other', 'x-client-address': '6.6.6.6', 'x-forwarded-for': '7.7.7.7' };
    const options = { host: '127.0.0.1', port: envoy.portOf('10000'), localAddress, headers: forged };
    const sent = request({ ...options, method: 'POST', path: '/login?a=b' }, (response) => {
      response.resume().once('end', () => {
        resolve({ status: response.statusCode, remaining: response.headers['x-ratelimit-remaining'] });
      });
    });
    sent.once('error', reject).end('a body');
  });

test('each client of ext_authz has its limit, whatever its headers claim, and requests pass without Weir', async () => {
  for (const address of ['127.0.0.1', '127.0.0.2']) {
    const answers = [await post(address), await post(address), await post(address)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers[2]?.remaining).toBe('0');
  }
  await weir.stop();
  expect((await post('127.0.0.1')).status).toBe(200);
});
