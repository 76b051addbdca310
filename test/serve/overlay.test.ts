import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start } from '../helpers/process.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const RULES = 'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]\n';
const BUCKET = 'domain: demo\ndescriptors: [{key: user, rate_limit: {algorithm: token_bucket, burst: 4}}]\n';

let folder: string;
const stops: (() => Promise<unknown>)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'overlay-'));
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

async function service(env: Readonly<Record<string, string>>): Promise<Weir> {
  const weir = await startWeir(env, { args: ['--rules', file('rules.yaml', RULES)] });
  stops.push(weir.stop);
  return weir;
}

/** Runs the command line to its end. */
async function weir(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const loopback = { HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1', DEBUG_PORT: '0', PORT: '0' };
  const running = await start(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env.PATH, ...loopback, GRPC_PORT: '0', ...env },
    name: 'weir',
  });
  const { code } = await running.exited;
  return { code, output: running.output().replaceAll(`${folder}/`, '') };
}

/** The statuses of consecutive requests. */
async function statuses({ httpPort }: Weir, requests: number): Promise<readonly number[]> {
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] });
  const found: number[] = [];
  for (let times = 0; times < requests; times++)
    found.push((await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body })).status);
  return found;
}

describe('serve', () => {
  test('applies RULES_OVERLAY to rule files, and logs this', async () => {
    const overlay = file('overlay.yaml', `spend: spare_others\n${BUCKET}`);
    const running = await service({ RULES_OVERLAY: overlay });
    expect(await statuses(running, 5)).toEqual([200, 200, 200, 200, 429]);
    expect(running.output()).toContain(`rules.yaml, with the overlay ${overlay}`);
    const page = await (await fetch(`http://127.0.0.1:${running.debugPort}/rlconfig`)).text();
    expect(page.replaceAll(`${folder}/`, '')).toBe(
      '# domain demo: spend: spare_others (overlay.yaml:1)\n' +
        'demo.user: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false, algorithm: token_bucket, burst: 4, ' +
        'overlaid: algorithm (overlay.yaml:3), burst (overlay.yaml:3)\n',
    );
    const json = await fetch(`http://127.0.0.1:${running.debugPort}/rlconfig?format=json`);
    const place = { file: overlay, line: 3 };
    expect(await json.json()).toMatchObject({
      domains: [{ name: 'demo', spend: 'spare_others', overlaid: { spend: { file: overlay, line: 1 } } }],
      rules: [{ path: 'demo.user', limits: [{ burst: 4, overlaid: { algorithm: place, burst: place } }] }],
    });
  });

  test.each([
    ['is not there', undefined, /overlay\.yaml:1: cannot be read: ENOENT/],
    ['is no YAML', 'domain: [\n', /overlay\.yaml:\d: error loading config file: /],
  ])('does not start if the overlay %s', async (_, text, message) => {
    if (text !== undefined) file('overlay.yaml', text);
    const env = { RULES_OVERLAY: join(folder, 'overlay.yaml') };
    const { code, output } = await weir(['serve', '--rules', file('rules.yaml', RULES)], env);
    expect(output).toMatch(message);
    expect(output).toMatch(/ (is|are) invalid: see above/);
    expect(code).toBe(1);
  });

  test('applies the overlay once for all workers', async () => {
    const redis: Redis = await startRedis();
    stops.push(redis.stop);
    const running = await service({
      ...{ WORKERS: '2', REDIS_URL: redis.url, USE_STATSD: 'false' },
      RULES_OVERLAY: file('overlay.yaml', BUCKET),
    });
    expect(await statuses(running, 5)).toEqual([200, 200, 200, 200, 429]);
    file('overlay.yaml', BUCKET.replace('token_bucket', 'leaky_bucket')); // its counters start from 0
    const page = async () => (await fetch(`http://127.0.0.1:${running.debugPort}/rlconfig`)).text();
    await running.waitFor(async () => (await page()).includes('leaky_bucket'));
    await running.waitFor(async () => (await statuses(running, 1))[0] === 200); // another worker may load it a moment later
  });
});

describe('check', () => {
  test('--overlay prints the number of overlaid rules', async () => {
    const [rules, overlay] = [file('rules.yaml', RULES), file('overlay.yaml', BUCKET)];
    expect(await weir(['check', '--overlay', overlay, rules])).toEqual({
      code: 0,
      output: 'all right: 1 domain(s), 1 rule(s), 1 overlaid\n',
    });
  });

  test('--overlay may be repeated, and problems have the file and line of their overlay', async () => {
    const more = file('more.yaml', BUCKET.replace('algorithm: token_bucket, burst: 4', 'local_share: 9'));
    const args = ['check', '--overlay', file('overlay.yaml', BUCKET), file('rules.yaml', RULES), '--overlay', more];
    expect(await weir(args)).toEqual({
      code: 1,
      output:
        'more.yaml:2:40: descriptors[0].rate_limit.local_share: must be 1 to requests_per_unit, so that each process may pass something, got 9\n' +
        '    2 | descriptors: [{key: user, rate_limit: {local_share: 9}}]\n' +
        '      |                                        ^\n' +
        'weir: 1 error(s), 0 warning(s)\n',
    });
  });

  test('RULES_OVERLAY is used without --overlay', async () => {
    const [rules, overlay] = [file('rules.yaml', RULES), file('overlay.yaml', BUCKET)];
    expect((await weir(['check', rules], { RULES_OVERLAY: overlay })).output).toContain('1 rule(s), 1 overlaid\n');
  });

  test('an unreadable overlay is an error in addition to those of the rules', async () => {
    const rules = file('rules.yaml', RULES.replace('year', 'years'));
    const { code, output } = await weir(['check', '--overlay', join(folder, 'missing'), rules]);
    expect(output).toContain('missing:1: cannot be read: ENOENT');
    expect(output).toContain("invalid rate limit unit 'years'");
    expect({ code, errors: output.includes('weir: 2 error(s)') }).toEqual({ code: 1, errors: true });
  });
});
