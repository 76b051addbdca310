import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load } from 'js-yaml';
import { envoyConfiguration } from '../../../src/parts/envoy/configuration.ts';
import { startEnvoy, validateEnvoy } from '../../helpers/envoy.ts';
import { type PrintedEnvoy, startPrintedEnvoy } from '../../helpers/printed-envoy.ts';
import { accepts, freePort } from '../../helpers/process.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';
import { asLocal, MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));

/** The rule files of one service, each of one domain. */
const FILES = {
  slots: `
domain: demo
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 18s }
  - { key: user, rate_limit: { unit: day, requests_per_unit: 2 } }
`,
  required: `
domain: shop
require: [customer]
descriptors: [{ key: customer, rate_limit: { unit: day, requests_per_unit: 2 } }]
`,
  shared: `
domain: shared-shop
require: { keys: [customer], per: [remote_address], limit: { unit: day, requests_per_unit: 1 } }
descriptors: [{ key: customer, rate_limit: { unit: day, requests_per_unit: 2 } }]
`,
  addresses: `
domain: edge
descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 1 } }]
`,
} as const;

let folder: string;
let weir: Weir;
let upstream: Server;
/** Requests with `x-wait` that the upstream has not answered yet. */
const open: ServerResponse[] = [];
const rulesOf = (name: keyof typeof FILES): string => join(folder, `${name}.yaml`);
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'live-'));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, `${name}.yaml`), text);
  weir = await startWeir({ USE_STATSD: 'false', GRPC_HOST: '0.0.0.0' }, { args: ['--rules', folder] });
  upstream = createServer(({ headers }, response) => {
    if (headers['x-wait']) open.push(response);
    else response.end('done');
  }).listen(0, '127.0.0.1');
  await once(upstream, 'listening');
});
afterAll(async () => {
  upstream.closeAllConnections();
  upstream.close();
  await weir.stop();
});

const weirCommand = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, NO_COLOR: '1' },
  }).then(
    ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
    ({ stdout, stderr, code }) => ({ stdout, stderr, code }),
  );

const doctor = (adminPort: number, rules: string) =>
  weirCommand('doctor', '--envoy', `http://127.0.0.1:${adminPort}`, '--rules', rules);

let envoy: PrintedEnvoy;
/**
 * Starts Envoy with the configuration that `weir envoy` prints for the rules. Envoy's resolver answers ::1 for
 * `localhost` as well, whatever the hosts file says.
 */
async function start(name: keyof typeof FILES, edit = (config: string): string => config): Promise<void> {
  const { port: upstreamPort } = upstream.address() as AddressInfo;
  envoy = await startPrintedEnvoy({ rules: rulesOf(name), target: `localhost:${weir.grpcPort}`, upstreamPort, edit });
}

const get = (headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(`http://127.0.0.1:${envoy.port}/`, { headers });

/** The statuses of requests, sent one after the other. */
async function statuses(...sent: readonly (Readonly<Record<string, string>> | undefined)[]): Promise<number[]> {
  const found: number[] = [];
  for (const headers of sent) found.push((await get(headers)).status);
  return found;
}

async function usedSlots(): Promise<number> {
  const url = `http://127.0.0.1:${weir.debugPort}/api/v1/counters?domain=demo&descriptor=tenant%3Dacme`;
  const { counters } = (await (await fetch(url, { headers: asLocal(weir) })).json()) as {
    counters: readonly { used: number }[];
  };
  return counters[0]?.used ?? 0;
}

const ann = { 'x-customer': 'ann' };

describe('with the printed configuration', () => {
  afterEach(() => envoy.stop());

  test('Envoy limits requests, acquires and releases slots, and the doctor finds no problem', async () => {
    await start('slots');
    const user = { 'x-user': 'ann' };
    expect(await statuses(user, user, user, user)).toEqual([200, 200, 429, 429]);
    // the client sends an id, which Envoy must replace
    const slot = () => get({ 'x-tenant': 'acme', 'x-request-id': 'mine', 'x-wait': 'yes' });
    const [first, second] = [slot(), slot()];
    await until('two requests', () => open.length === 2);
    expect((await slot()).status).toBe(429);
    for (const response of open.splice(0)) response.end('done');
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    await until('both slots are released', async () => (await usedSlots()) === 0);
    const { stdout, code } = await doctor(envoy.adminPort, rulesOf('slots'));
    expect(stdout).toContain(
      'right  domain demo: routes time out after at most 14,400 ms, slots expire after 18,000 ms (ttl)',
    );
    expect({ stdout, code }).toEqual({ stdout: expect.not.stringContaining('wrong'), code: 0 });
  });

  test('slots are released though the route rewrites the path and the host, and removes the headers of the slots', async () => {
    await start('slots', (config) =>
      config
        .replace(
          '- match: { prefix: / }\n',
          '$&                          request_headers_to_remove: [x-tenant, x-request-id]\n',
        )
        .replace('{ cluster: upstream,', '{ cluster: upstream, prefix_rewrite: /inner/, host_rewrite_literal: inner,'),
    );
    for (let at = 0; at < 3; at++) {
      expect((await get({ 'x-tenant': 'acme' })).status).toBe(200);
      await until('the slot is released', async () => (await usedSlots()) === 0);
    }
    const { stdout, code } = await doctor(envoy.adminPort, rulesOf('slots'));
    expect(stdout).toContain('right  domain demo: slots of tenant,request_id are released by listener limited');
    expect({ stdout, code }).toEqual({ stdout: expect.not.stringContaining('wrong'), code: 0 });
  });

  test('the doctor reports routes that last longer than the ttl, and slots that are never released', async () => {
    await start('slots', (config) =>
      config
        .replace('timeout: 14.4s }', 'timeout: 0s }')
        .replace('apply_on_stream_done: true', 'apply_on_stream_done: false'),
    );
    const { stdout, code } = await doctor(envoy.adminPort, rulesOf('slots'));
    expect(stdout).toContain('wrong  domain demo: a route has no timeout, but a slot expires after 18,000 ms');
    expect(stdout).toContain('wrong  domain demo: no route sends tenant,request_id when streams end');
    expect(code).toBe(1);
  });

  test('requests whose header Envoy misses are refused', async () => {
    await start('required');
    expect(await statuses(ann, undefined, ann, undefined, ann, { 'x-customer': '' })).toEqual([
      ...[200, 429, 200, 429, 429],
      429, // an empty header
    ]);
    const metrics = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
    expect(metrics).toContain('weir_requests_without_required_keys_total{domain="shop"} 3\n');
    expect((await doctor(envoy.adminPort, rulesOf('required'))).stdout).toContain(
      'right  domain shop: every request has a descriptor, so require takes effect',
    );
  });

  test('requests without the header share a limit by address', async () => {
    await start('shared');
    expect(await statuses(undefined, undefined, ann)).toEqual([200, 429, 200]);
    expect((await doctor(envoy.adminPort, rulesOf('shared'))).stdout).not.toMatch(/^wrong/m);
  });

  test('the doctor misses the descriptor of every request, without which Envoy does not ask', async () => {
    await start('required', (config) => config.replace(/ +- actions:\n +- generic_key: .*\n/, ''));
    expect(await statuses(undefined)).toEqual([200]);
    expect((await doctor(envoy.adminPort, rulesOf('required'))).stdout).toContain(
      'wrong  domain shop: rate_limits may send no descriptor for a request, and Envoy then does not call Weir, though the rules require customer: add - actions: [{ generic_key: { descriptor_value: every_request } }]',
    );
  });
});

const DIRECT = 'use_remote_address: true';
const extension = (type: string, config: string): string =>
  `original_ip_detection_extensions: [{ name: envoy.http.original_ip_detection.${type}, typed_config: { "@type": type.googleapis.com/envoy.extensions.http.original_ip_detection.${type}.v3.${config} } }]`;
const FORGEABLE = 'which a client that connects directly can forge';

/**
 * How Envoy finds the client's address in one of its listeners, whether a header of the client changes the descriptor,
 * and what the doctor says about it.
 */
const listeners: readonly (readonly [settings: string, isForged: boolean, line: string])[] = [
  [DIRECT, false, 'right  LISTENER from the connection (use_remote_address)'],
  [
    'use_remote_address: false',
    true,
    'wrong  LISTENER from x-forwarded-for, which clients can forge: set use_remote_address: true;',
  ],
  [
    `${DIRECT}\n                xff_num_trusted_hops: 1`,
    true,
    `check  LISTENER from x-forwarded-for (xff_num_trusted_hops), ${FORGEABLE}`,
  ],
  [
    extension('custom_header', 'CustomHeaderConfig, header_name: x-real-ip'),
    true,
    `wrong  LISTENER from x-real-ip, ${FORGEABLE}`,
  ],
  [
    extension('xff', 'XffConfig, xff_num_trusted_hops: 0'),
    true,
    `check  LISTENER from x-forwarded-for (xff_num_trusted_hops), ${FORGEABLE}`,
  ],
  [
    extension('xff', 'XffConfig, xff_trusted_cidrs: { cidrs: [{ address_prefix: 192.0.2.0, prefix_len: 24 }] }'),
    false,
    'right  LISTENER from x-forwarded-for, of the proxies in xff_trusted_cidrs',
  ],
];

test('the doctor says of each listener whether clients can choose their addresses, and they can', async () => {
  const ports = await Promise.all(listeners.map(freePort));
  await start('addresses', (config) => {
    const copies = listeners.map(([settings], at) => {
      const { static_resources } = load(config.replace(DIRECT, settings)) as PrintedConfig;
      const [listener] = static_resources.listeners;
      const address = { socket_address: { address: '127.0.0.1', port_value: ports[at] } };
      return { ...listener, name: `listener-${at}`, address };
    });
    const printed = load(config) as PrintedConfig;
    printed.static_resources.listeners.push(...copies);
    return JSON.stringify(printed);
  });
  try {
    for (const [at, [settings, isForged]] of listeners.entries()) {
      await until(`listener ${at}`, () => accepts(ports[at] ?? 0));
      const claim = async () => {
        const address = `198.51.${forged >> 8}.${forged++ & 255}`;
        const headers = { 'x-forwarded-for': address, 'x-real-ip': address };
        return (await fetch(`http://127.0.0.1:${ports[at]}/`, { headers })).status;
      };
      await claim(); // the address of the connection has used its limit now
      const codes = [await claim(), await claim()];
      expect({ settings, codes }).toEqual({ settings, codes: isForged ? [200, 200] : [429, 429] });
    }
    const { stdout, code } = await doctor(envoy.adminPort, rulesOf('addresses'));
    for (const [at, [, , line]] of listeners.entries())
      expect(stdout).toContain(line.replace('LISTENER', `listener listener-${at} takes the client's address`));
    expect(code).toBe(1);
  } finally {
    await envoy.stop();
  }
});
let forged = 0;

interface PrintedConfig {
  readonly static_resources: { readonly listeners: object[] };
}

test('the doctor accepts addresses from a header where only some sources reach the listener', async () => {
  const ranges = 'source_prefix_ranges: [{ address_prefix: 127.0.0.0, prefix_len: 8 }]';
  await start('addresses', (config) =>
    config
      .replace(DIRECT, 'use_remote_address: false')
      .replace('- filters:\n', `- filter_chain_match: { ${ranges} }\n          filters:\n`),
  );
  const { stdout } = await doctor(envoy.adminPort, rulesOf('addresses')).finally(() => envoy.stop());
  expect(stdout).toContain('from x-forwarded-for, and only some sources reach it (filter_chain_match)');
});

test('the doctor reports a descriptor that has the header x-forwarded-for itself', async () => {
  await start('addresses', (config) =>
    config.replace(
      'remote_address: {}',
      'request_headers: { header_name: x-forwarded-for, descriptor_key: remote_address }',
    ),
  );
  try {
    expect(await statuses({ 'x-forwarded-for': 'any' }, { 'x-forwarded-for': 'other' })).toEqual([200, 200]);
    expect((await doctor(envoy.adminPort, rulesOf('addresses'))).stdout).toContain(
      'wrong  a descriptor has the whole x-forwarded-for header, to which each client can add any address',
    );
  } finally {
    await envoy.stop();
  }
});

test('the doctor finds the problems of a running Envoy, and none with envoy.yaml', async () => {
  const rules = join(PROJECT, 'config/rules.yaml');
  const right = await startEnvoy(weir.grpcPort);
  const wrong = await startEnvoy(weir.grpcPort, (config) =>
    config
      .replaceAll('descriptor_key: user }', 'descriptor_key: usr }')
      .replace('domain: demo\n', 'domain: dmo\n')
      .replaceAll('timeout: 0.25s', 'timeout: 0.01s'),
  );
  try {
    const healthy = await doctor(right.portOf('9901'), rules);
    expect(healthy.stdout).toContain('right  domain demo: path,remote_address can match a rule');
    expect(healthy.stdout).not.toMatch(/wrong|check/);
    expect(healthy.code).toBe(0);
    const ill = await doctor(wrong.portOf('9901'), rules);
    expect(ill.stdout).toContain('wrong  domain dmo has no rules: every request passes; the nearest is demo');
    expect(ill.stdout).toContain('wrong  domain demo: usr matches no rule; the nearest key is user');
    expect(ill.stdout).toContain('right  domain demo: Envoy waits 10 ms, longer than the longest max_delay (0 ms)');
    expect(ill.stdout).toContain('failure_mode_deny is true: while Weir is unreachable, requests are refused with 500');
    expect(ill.code).toBe(1);
  } finally {
    await Promise.all([right.stop(), wrong.stop()]);
  }
});

test('check reports a ttl that is not longer than the timeout of routes', async () => {
  const check = (timeout: string) =>
    weirCommand('check', rulesOf('slots'), '--backend', 'memory', '--route-timeout', timeout);
  expect((await check('17s')).stdout).not.toContain('ttl');
  expect((await check('18s')).stdout).toContain(
    'slots.yaml:6: warning: demo.tenant.request_id: a slot expires after its ttl of 18,000 ms, but requests may last 18,000 ms: raise the ttl',
  );
  const wrong = await check('soon');
  expect(wrong.stdout).toContain("--route-timeout must be a time such as 15s or 5m, got 'soon'");
  expect(wrong.code).toBe(1);
});

describe('the printed configuration', () => {
  const printed = async (...args: readonly string[]): Promise<string> => {
    const { stdout, code, stderr } = await weirCommand('envoy', ...args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };

  test('is accepted by Envoy for rules that need actions of an administrator, and names them', async () => {
    const text = `domain: shop
require: { keys: [query_match, tier], per: [header_match], limit: { unit: day, requests_per_unit: 1 } }
descriptors:
  - { key: generic_key, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: tier, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: generic_key, value: 'paid-*', rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: header_match, value: beta, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: "a\\n*", rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: "b\\x85c", rate_limit: { unit: minute, requests_per_unit: 5 } }
`;
    const options = { kind: 'envoy', host: 'localhost', port: 8081, timeoutMs: 250 } as const;
    const printed = envoyConfiguration(rulesFrom(text), 'shop', options);
    expect(Array.from(printed.matchAll(/^# shop[.:](.*) needs actions of your own/gm), ([, path]) => path)).toEqual([
      ...[
        'generic_key_paid-*',
        'generic_key',
        'header_match_beta',
        'a\\x0a*',
        ' require query_match',
        ' require header_match',
      ],
    ]);
    expect(printed.match(/descriptor_(?:key|value): .*/g)).toEqual([
      'descriptor_value: "every_request" }',
      'descriptor_key: "tier" }',
      'descriptor_key: "b\\u0085c" }',
    ]);
    expect(await validateEnvoy(printed)).toContain('OK');
  });

  test('prefers IPv4 in every cluster, and names a Service instead of localhost for Istio', async () => {
    const rules = rulesOf('slots');
    const istio = await printed(rules, '--for', 'istio');
    expect(istio).toContain('address: "weir.weir.svc.cluster.local", port_value: 8081'); // localhost would be the gateway's pod
    expect(await printed(rules, '--for', 'istio', '--grpc', 'localhost:8081')).toContain('address: "localhost"');
    const breakersOf = (text: string): readonly string[] => text.match(/circuit_breakers: \{.*\}(?= |$)/gm) ?? [];
    const breakers = breakersOf(readFileSync(join(PROJECT, 'envoy.yaml'), 'utf8'));
    expect(breakers).toHaveLength(1);
    const [envoy, quotas] = [await printed(rules), await printed('rlqs', rulesOf('required'))];
    for (const text of [istio, envoy, quotas])
      expect(text.match(/type: STRICT_DNS\n +dns_lookup_family: V4_PREFERRED/g)).toHaveLength(
        text.match(/type: STRICT_DNS/g)?.length ?? 0,
      );
    for (const text of [istio, envoy]) expect(breakersOf(text)).toEqual(breakers); // as many waiting requests
    for (const text of [envoy, quotas])
      expect(load(text)).toMatchObject({
        admin: { address: { socket_address: { address: '127.0.0.1', port_value: 9901 } } },
      });
  });
});
