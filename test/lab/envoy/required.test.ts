import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expectedShapes } from '../../../src/lab/envoy/shapes.ts';
import { type PrintedEnvoy, startPrintedEnvoy } from '../../helpers/printed-envoy.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

const folder = mkdtempSync(join(tmpdir(), 'required-'));
const rulesWith = (require: string): string => {
  const path = join(folder, `${process.hrtime.bigint()}.yaml`);
  const nodes = '  - { key: customer, rate_limit: { unit: day, requests_per_unit: 2 } }';
  writeFileSync(path, `domain: shop\nrequire: ${require}\ndescriptors:\n${nodes}\n`);
  return path;
};

let upstream: Server;
beforeAll(async () => {
  upstream = createServer((_, response) => void response.end('done')).listen(0, '127.0.0.1');
  await once(upstream, 'listening');
});
afterAll(() => {
  upstream.close();
});

async function withEnvoy(
  rules: string,
  run: (envoy: PrintedEnvoy, weir: Weir) => Promise<void>,
  edit?: (config: string) => string,
) {
  const weir = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', rules] });
  const { port } = upstream.address() as AddressInfo;
  const target = `127.0.0.1:${weir.grpcPort}`;
  const envoy = await startPrintedEnvoy({ rules, target, upstreamPort: port, ...(edit && { edit }) });
  try {
    await run(envoy, weir);
  } finally {
    await Promise.all([envoy.stop(), weir.stop()]);
  }
}

/** The statuses of requests, sent one after the other. */
async function statuses({ port }: PrintedEnvoy, ...sent: readonly (Record<string, string> | undefined)[]) {
  const found: number[] = [];
  for (const headers of sent) found.push((await fetch(`http://127.0.0.1:${port}/`, { headers: headers ?? {} })).status);
  return found;
}

const doctor = ({ adminPort }: PrintedEnvoy, rules: string) =>
  promisify(execFile)(process.execPath, [MAIN, 'doctor', '--envoy', `localhost:${adminPort}`, '--rules', rules], {
    env: { PATH: process.env.PATH, NO_COLOR: '1' },
  }).then(
    ({ stdout }) => stdout,
    ({ stdout }) => stdout as string,
  );

const ann = { 'x-customer': 'ann' };

test('requests whose header Envoy misses are refused, with the printed configuration', async () => {
  const rules = rulesWith('[customer]');
  await withEnvoy(rules, async (envoy, weir) => {
    expect(await statuses(envoy, ann, undefined, ann, undefined, ann, { 'x-customer': '' })).toEqual([
      ...[200, 429, 200, 429, 429],
      429, // an empty header
    ]);
    const metrics = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
    expect(metrics).toContain('weir_requests_without_required_keys_total{domain="shop"} 3\n');
    expect(await doctor(envoy, rules)).toContain(
      'right  domain shop: every request has a descriptor, so require takes effect',
    );
  });
});

test('requests without the header share a limit by address', async () => {
  const rules = rulesWith('{ keys: [customer], per: [remote_address], limit: { unit: day, requests_per_unit: 1 } }');
  await withEnvoy(rules, async (envoy) => {
    expect(await statuses(envoy, undefined, undefined, ann)).toEqual([200, 429, 200]);
    expect(await doctor(envoy, rules)).not.toMatch(/^wrong/m);
  });
});

test('the doctor misses the descriptor of every request, without which Envoy does not ask', async () => {
  const rules = rulesWith('[customer]');
  const edit = (config: string): string => config.replace(/ +- actions:\n +- generic_key: .*\n/, '');
  await withEnvoy(
    rules,
    async (envoy) => {
      expect(await statuses(envoy, undefined)).toEqual([200]);
      expect(await doctor(envoy, rules)).toContain(
        'wrong  domain shop: rate_limits may send no descriptor for a request, and Envoy then does not call Weir, though the rules require customer: add - actions: [{ generic_key: { descriptor_value: every_request } }]',
      );
    },
    edit,
  );
});

test('a configuration sends the keys of a node, and of its limit, with every request that passes the node', () => {
  const rules = rulesFrom(`domain: d
descriptors:
  - key: generic_key
    value: pay
    require: { keys: [user], per: [remote_address], limit: { unit: day, requests_per_unit: 1 } }
`);
  expect(expectedShapes(rules, 'd').shapes.map((shape) => shape.map(({ key, value }) => value ?? key).join())).toEqual([
    ...['pay', 'pay,remote_address'],
    'user',
  ]);
});
