import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start } from '../../helpers/process.ts';
import { startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { asLocal, MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `domain: demo
descriptors:
  - key: user
    rate_limit: { window: 100ms, requests_per_unit: 100 }
  - key: network
    value: 10.*
    share_threshold: true
    rate_limit: { unit: minute, requests_per_unit: 100 }
`;
const USERS = 40;
const ROUNDS = 30;

const folder = mkdtempSync(join(tmpdir(), 'advise-'));
const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function service(env: Readonly<Record<string, string>>): Promise<Weir> {
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const weir = await startWeir({ ...env, USE_STATSD: 'false' }, { args: ['--rules', join(folder, 'rules.yaml')] });
  stops.push(weir.stop);
  return weir;
}

/** Runs `weir advise` to its end. */
async function advise({ debugPort }: Weir, ...args: readonly string[]) {
  const running = await start(
    process.execPath,
    [MAIN, 'advise', '--live', '--target', `127.0.0.1:${debugPort}`, ...args],
    {
      env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR },
      name: 'weir',
    },
  );
  const { code } = await running.exited;
  return { code, output: running.output() };
}

const ask = ({ httpPort }: Weir, user: string): Promise<Response> =>
  fetch(`http://127.0.0.1:${httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: user }] }] }),
  });

/** The answer of the API, whose fields the test checks. */
const fetchAdvice = async ({ debugPort }: Weir) =>
  JSON.parse(
    await (await fetch(`http://127.0.0.1:${debugPort}/api/v1/advice`, { headers: asLocal({ debugPort }) })).text(),
  );

/** Some requests of each user, over more than ten windows. */
async function traffic(weir: Weir): Promise<void> {
  await fetchAdvice(weir); // arrivals are recorded from the first collection on
  const endMs = performance.now() + 1_500;
  for (let round = 0; round < ROUNDS || performance.now() < endMs; round++)
    await Promise.all(Array.from({ length: USERS }, (_, at) => ask(weir, `u${at}`)));
}

test('advice is based on the answers of all workers', async () => {
  const redis = await startRedis();
  stops.push(redis.stop);
  const weir = await service({ WORKERS: '2', ADVISE_BYTES: '4000000', REDIS_URL: redis.url, STORE_TIMEOUT: '60s' });
  let advice: Awaited<ReturnType<typeof fetchAdvice>>;
  await until('all processes have reported enough', async () => {
    await traffic(weir);
    advice = await fetchAdvice(weir);
    return advice.limits[0]?.confidence.requests >= USERS * ROUNDS; // the report of a worker that stalls is lost
  });
  const { limits, skipped, warnings } = advice;
  expect(warnings).toEqual([]);
  expect(skipped).toEqual(['demo.network_10.*: its values share a counter; record and replay it']);
  expect(limits).toHaveLength(1);
  expect(limits[0].confidence).toMatchObject({ keys: USERS, oneIn: 1 });
  expect(limits[0].confidence.requests).toBeGreaterThanOrEqual(USERS * ROUNDS);
  expect(limits[0].proposal.reasons[0]).toMatch(/^no key stands out/);
  const text = await advise(weir);
  expect(text).toMatchObject({ code: 0, output: expect.stringContaining('demo.user: 100 per 100 ms\n  seen: ') });
  expect(text.output).toContain('  proposed: ');
  const yaml = await advise(weir, '--yaml');
  writeFileSync(join(folder, 'advice.yaml'), yaml.output);
  const check = await start(
    process.execPath,
    [MAIN, 'check', '--strict', '--overlay', join(folder, 'advice.yaml'), join(folder, 'rules.yaml')],
    { env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR }, name: 'weir' },
  );
  expect(await check.exited).toMatchObject({ code: 0 });
});

test('a service that records no arrivals explains how to enable them', async () => {
  const weir = await service({});
  expect(await advise(weir)).toEqual({
    code: 1,
    output: expect.stringContaining('no requests are observed: set ADVISE_BYTES'),
  });
  expect(await advise(weir, '--rules', 'x.yaml')).toMatchObject({
    code: 1,
    output: expect.stringContaining('remove files, --rules and --mapping'),
  });
});
