import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { check } from '../../../src/parts/check/check.ts';
import { quotaConfiguration } from '../../../src/parts/envoy/quota-configuration.ts';
import { validateEnvoy } from '../../helpers/envoy.ts';
import { startFakeQuotaService } from '../../helpers/quota-client.ts';
import { startQuotaEnvoy } from '../../helpers/quota-envoy.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';
import { MAIN } from '../../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));
const run = promisify(execFile);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'quotas-'));
});

test('Envoy 1.40 accepts the quota configuration that the command prints', async () => {
  const rules = join(PROJECT, 'config/rules.yaml');
  const { stdout } = await run(process.execPath, [MAIN, 'envoy', 'rlqs', rules, '--grpc', 'weir:9']);
  expect(stdout).toContain('port_value: 9 }');
  expect(await validateEnvoy(stdout)).toContain('OK');
});

test('the configuration names the rules that are left out, and why', () => {
  const rules = rulesFrom(`
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: remote_address, rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: real_ip, addresses: [10.0.0.0/8, 192.0.2.1], rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: slot, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 9s } }
`);
  const printed = quotaConfiguration(rules, 'edge', { host: 'weir', port: 8081 });
  expect(printed.split('\n').filter((line) => line.startsWith('#'))).toEqual([
    '# edge.remote_address is left out: no header provides remote_address: write a matcher with your own input.',
    '# edge.real_ip_10.0.0.0/8 is left out: no matcher of headers selects the addresses 10.0.0.0/8 192.0.2.1.',
    '# edge.slot is left out: in_flight limits requests in flight, not a rate.',
  ]);
  expect(printed.match(/- predicate:/g)).toHaveLength(1);
});

test('no configuration is printed if a proxy can apply none of the rules, since Envoy requires a matcher', () => {
  const rules = rulesFrom(`
domain: edge
descriptors:
  - { key: generic_key, value: 'paid-*', rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: header_match, value: beta, rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: "a\\n*", rate_limit: { unit: second, requests_per_unit: 5 } }
`);
  expect(() =>
    quotaConfiguration(rules, 'edge', { host: 'weir', port: 8081 }),
  ).toThrow(`no matcher is possible for edge:
edge.generic_key_paid-* is left out: no header provides generic_key: write a matcher with your own input.
edge.header_match_beta is left out: no header provides header_match: write a matcher with your own input.
edge.a\\x0a* is left out: no header provides a\\x0a*: write a matcher with your own input.`);
  const none = rulesFrom('domain: edge\ndescriptors: []\n');
  expect(() => quotaConfiguration(none, 'edge', { host: 'weir', port: 8081 })).toThrow(
    'no matcher is possible for edge:\nit has no rules.',
  );
});

test('Envoy 1.40 reports the buckets that the printed matchers make from requests', async () => {
  const rules = `
domain: edge
descriptors:
  - { key: user, value: vip*, rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: user, value: bot-*, share_threshold: true, rate_limit: { unit: second, requests_per_unit: 5 } }
  - key: user
    rate_limit: { unit: second, requests_per_unit: 5 }
    descriptors: [{ key: tenant, rate_limit: { unit: second, requests_per_unit: 2 } }]
  - { key: generic_key, value: all, rate_limit: { unit: second, requests_per_unit: 9 } }
`;
  const service = await startFakeQuotaService({});
  const envoy = await startQuotaEnvoy(rules, service.port);
  try {
    const headersOfBots = [{ 'x-user': 'bot-1' }, { 'x-user': 'bot-2' }];
    for (const headers of [
      ...headersOfBots,
      { 'x-user': 'vip-1' },
      { 'x-user': 'ann', 'x-tenant': 'acme' },
      { 'x-user': 'ann' },
      {},
    ])
      await envoy.passes(headers as Record<string, string>);
    const expected = [
      { user: 'bot-*' },
      { user: 'vip-1' },
      { user: 'ann', tenant: 'acme' },
      { user: 'ann' },
      { generic_key: 'all' },
    ];
    const found = () =>
      service.reports.flatMap(({ bucket_quota_usages }) =>
        bucket_quota_usages.map(({ bucket_id }) => bucket_id.bucket),
      );
    const reported = () => new Set(found().map((bucket) => JSON.stringify(Object.entries(bucket).sort())));
    await until('all buckets are reported', () => reported().size >= expected.length);
    expect(found()).toEqual(expect.arrayContaining(expected));
  } finally {
    await envoy.stop();
    service.close();
  }
});

test('a gRPC client that Envoy 1.40 refuses by its quota gets RESOURCE_EXHAUSTED', async () => {
  const rules = 'domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: second, requests_per_unit: 5 } }]\n';
  const service = await startFakeQuotaService({});
  const edit = (config: string): string => config.replaceAll('ALLOW_ALL', 'DENY_ALL');
  const envoy = await startQuotaEnvoy(rules, service.port, { edit });
  const client = new Client(`127.0.0.1:${envoy.port}`, credentials.createInsecure());
  try {
    const metadata = new Metadata();
    metadata.set('x-user', 'ann');
    const same = (bytes: Buffer): Buffer => bytes;
    const code = await new Promise((resolve) => {
      client.makeUnaryRequest('/shop.Cart/Add', same, same, Buffer.alloc(0), metadata, (error) => resolve(error?.code));
    });
    expect(code).toBe(status.RESOURCE_EXHAUSTED);
  } finally {
    client.close();
    await envoy.stop();
    service.close();
  }
});

test('weir check refuses rules that proxies cannot apply, in the domains of RLQS_DOMAINS', async () => {
  const path = join(folder, 'rules.yaml');
  const rule = '{ key: slot, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 9s } }';
  writeFileSync(path, `domain: edge\ndescriptors:\n  - ${rule}\n`);
  const options = { mergeDomains: false, strict: false };
  const problemsWith = async (env: Readonly<Record<string, string>>) => {
    const { problems } = await check([path], env, options);
    return problems.filter(({ severity }) => severity === 'error');
  };
  expect(await problemsWith({})).toEqual([]);
  expect(await problemsWith({ RLQS: 'true', RLQS_DOMAINS: 'other' })).toEqual([]);
  expect(await problemsWith({ RLQS: 'true' })).toEqual([
    expect.objectContaining({
      line: 3,
      message: expect.stringContaining('RLQS: a proxy cannot apply the rule: in_flight limits requests in flight'),
    }),
  ]);
});
