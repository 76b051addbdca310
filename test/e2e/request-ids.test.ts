import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { asLocal, MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

/** The YAML blocks of the page, in order. */
const [rules = '', action = '', , accessLog = ''] = Array.from(
  readFileSync(join(PROJECT, 'docs/why-refused.md'), 'utf8').matchAll(/```yaml\n(.*?)```/gs),
  ([, yaml = '']) => yaml,
);

const indented = (yaml: string, spaces: number): string => yaml.replaceAll(/^(?=.)/gm, ' '.repeat(spaces));

/** envoy.yaml with the page's additions. */
const withPage = (config: string): string =>
  config
    .replace('rate_limits:\n', (line) => `${line}${indented(action, 24)}`)
    .replace('stat_prefix: fails_open\n', (line) => `${line}${indented(accessLog, 16)}`);

let folder: string;
let weir: Weir;
let envoy: Envoy;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'request-ids-'));
  const limits = '  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, alignment: first_hit}}\n';
  writeFileSync(join(folder, 'ids.yaml'), rules);
  writeFileSync(join(folder, 'limits.yaml'), `domain: demo\ndescriptors:\n${limits}`);
  const env = {
    EXPLAIN_SAMPLE: '10',
    RESPONSE_RULE_METADATA: 'true',
    MERGE_DOMAIN_CONFIG: 'true',
    USE_STATSD: 'false',
  };
  weir = await startWeir(env, { args: ['--rules', folder] });
  envoy = await startEnvoy(weir.grpcPort, withPage);
});
afterAll(async () => {
  await envoy.stop();
  await weir.stop();
});

const refusals = async (id: string, ...more: string[]): Promise<string> => {
  const args = [MAIN, 'refusals', '--request', id, '--target', `127.0.0.1:${weir.debugPort}`, ...more];
  return (await promisify(execFile)(process.execPath, args)).stdout;
};

/** The first matching line of the access log. */
async function logged(isWanted: (line: Record<string, unknown>) => boolean): Promise<object | undefined> {
  let found: Record<string, unknown> | undefined;
  await envoy.waitFor((output) => {
    const lines = output.split('\n').filter((line) => line.startsWith('{'));
    found = lines.map((line) => JSON.parse(line)).find(isWanted);
    return found !== undefined;
  });
  return found;
}

test("Envoy's id of a refused request leads to the limit that refused it, in Weir and in the access log", async () => {
  await envoy.get('10000', '/', 'alice');
  const refused = await envoy.get('10000', '/', 'alice');
  expect(refused.status).toBe(429);
  const id = refused.headers.get('x-request-id') ?? '';
  expect(id).toMatch(/^[0-9a-f-]{36}$/);

  const printed = await refusals(id);
  expect(printed).toContain(`  demo  request ${id}\n`);
  expect(printed).toMatch(
    / {2}user=alice {2}demo\.user: 1 per year {2}OVER_LIMIT {2}1 \+ 1 = 2 > 1\n[\s\S]* {2}passes in /,
  );
  expect(JSON.parse(await refusals(id, '--json')).refusals).toHaveLength(1);
  expect(await refusals('another')).toBe('no matching refusals\n');

  expect(await logged((line) => line.request_id === id)).toEqual({
    ...{ request_id: id, path: '/', status: 429 },
    ...{ limit_code: 'OVER_LIMIT', limit_rule: 'demo.user', limit: '1 per year', limit_remaining: 0 },
  });
});

test('an allowed request has its limit in the access log, and the id creates no separate counter', async () => {
  await envoy.get('10000', '/', 'bob');
  expect(await logged(({ status, limit_rule }) => status !== 429 && limit_rule === 'demo.user')).toMatchObject({
    limit_code: 'OK',
    limit_rule: 'demo.user',
    limit_remaining: 0,
  });
  const listed = await (
    await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/counters`, { headers: asLocal(weir) })
  ).json();
  const keys = (listed as { counters: { entries: { key: string }[] }[] }).counters.flatMap(({ entries }) =>
    entries.map(({ key }) => key),
  );
  expect(new Set(keys)).toEqual(new Set(['user']));
});
