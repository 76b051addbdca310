import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Answers } from '../../../src/operate/answers/all.ts';
import { documentOf } from '../../helpers/documented.ts';
import { startEnvoy } from '../../helpers/envoy.ts';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { sent } from '../../helpers/proxied-traffic.ts';
import { startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { MAIN, startWeir } from '../../helpers/weir.ts';

const RULES = `
domain: llm
descriptors:
  - { key: user, charged_later: true, rate_limit: { unit: day, requests_per_unit: 1000000 } }
`;
const TOKEN = '0123456789abcdef0123456789abcdef';

type Findings = Answers['GET /api/v1/findings'];

test('a real service shows the charges that lose their descriptors in the API, status, metrics, console and doctor', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'findings-'));
  const rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES);
  const redis = await startRedis();
  const weir = await startWeir({
    ...{ USE_STATSD: 'false', WORKERS: '2', ADMIN_TOKEN: TOKEN, RULES_PATH: rules },
    ...{ BACKEND_TYPE: 'redis', REDIS_URL: redis.url },
  });
  const envoy = await startEnvoy(weir.grpcPort);
  const clients: readonly GrpcClient[] = [1, 2].map(() => createClient(`127.0.0.1:${weir.grpcPort}`));
  let isOver = false;
  /** As agentgateway's proxies do: a check of no tokens, then a charge that has lost its descriptors. */
  const calling = clients.map(async (client) => {
    while (!isOver) {
      await client.send({ domain: 'llm', descriptors: [sent({ user: 'ann' }, 0)], hits_addend: 0 }).catch(() => {});
      await client.send({ domain: 'llm', descriptors: [], hits_addend: 812 }).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
  const page = async (path: string, token = '') => {
    const headers = token === '' ? {} : { authorization: `Bearer ${token}` };
    return (await fetch(`http://127.0.0.1:${weir.debugPort}${path}`, { headers })).text();
  };
  const found = async (token?: string) => (JSON.parse(await page('/api/v1/findings', token)) as Findings).findings; // as documented
  const weirCommand = (...args: readonly string[]) =>
    promisify(execFile)(process.execPath, [MAIN, ...args, '--target', `localhost:${weir.debugPort}`], {
      env: { ...process.env, NO_COLOR: '1' },
    }).catch((failed: { readonly code: number; readonly stdout: string }) => failed);
  try {
    const events = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/events`);
    let sentToConsole = '';
    for await (const chunk of events.body ?? []) {
      sentToConsole += Buffer.from(chunk).toString();
      if (sentToConsole.includes('had no descriptors') && sentToConsole.includes('followed by a charge')) break;
    }
    const findings = await found(TOKEN);
    expect((await documentOf(weir.debugPort)).flawsOfAnswer('GET /api/v1/findings', 200, { findings })).toEqual([]);
    const common = { domain: 'llm', proxy: '127.0.0.1', connection: expect.stringMatching(/^127\.0\.0\.1:\d+$/) };
    expect(findings).toEqual([
      expect.objectContaining({ ...common, kind: 'call_without_descriptors', example: [] }),
      expect.objectContaining({
        ...common,
        kind: 'check_without_charge',
        rule: 'llm.user',
        problem: expect.stringContaining(`(${rules}:4)`),
        example: [{ key: 'user', value: 'ann' }],
      }),
    ]);
    expect(findings[0]?.problem).toContain('hits_addend 812');
    expect(JSON.stringify(await found())).not.toContain('ann');
    const metrics = await page('/metrics');
    expect(metrics).toContain('weir_findings{kind="call_without_descriptors"} 1\n');
    expect(metrics).toContain('weir_findings{kind="placeholder_values"} 0\n');
    const status = await weirCommand('status');
    expect(status.stdout).toContain('had no descriptors');
    const doctor = await weirCommand(
      ...['doctor', '--envoy', `http://127.0.0.1:${envoy.portOf('9901')}`, '--rules', rules],
      ...['--token', TOKEN],
    );
    expect(doctor.stdout).toMatch(/^wrong {2}\d+ checks of rule 'llm\.user'.*; example user=ann; check .*$/m);
    await redis.kill();
    await until('a finding about undecided calls', async () =>
      (await found()).some(({ kind }) => kind === 'undecided'),
    );
    const failing = await weirCommand('status');
    expect(failing.stdout).toMatch(
      /(failing|degraded) +\d+ requests? of 127\.0\.0\.1 in the last minute got no decision \(store\), .*; since 2/,
    );
  } finally {
    isOver = true;
    await Promise.all(calling).catch(() => {});
    for (const client of clients) client.close();
    await Promise.all([envoy.stop(), weir.stop()]);
    await redis.stop();
  }
});
