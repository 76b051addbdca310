import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { driveHttp } from '../../proof/bench/generator/drive-http.ts';
import { signal } from '../helpers/child-processes.ts';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 3 }
  - key: path
    value: /login*
    rate_limit: { unit: day, requests_per_unit: 1 }
  # a turn takes three seconds, so a burst has this time to arrive before a turn becomes free for a further request
  - key: user
    value: queued
    rate_limit: { unit: minute, requests_per_unit: 20, algorithm: leaky_bucket, burst: 1, max_delay: 7s }
  - key: user
    value: impatient
    rate_limit: { unit: day, requests_per_unit: 2, algorithm: leaky_bucket, burst: 1 }
  - key: user
    value: warned
    rate_limit: { unit: day, requests_per_unit: 1, soft: 1, algorithm: sliding_window_log }
`;

let folder: string;
let weir: Weir;
let envoy: Envoy;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rules-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  weir = await launchWeir();
  envoy = await startEnvoy(weir.grpcPort);
});

afterAll(async () => {
  await envoy?.stop();
  await weir?.stop();
});

const DAY_MS = 86_400_000;

/** Windows of a day end with the clock's day: waits until a test can finish within one. */
beforeEach(async () => {
  const leftMs = DAY_MS - (Date.now() % DAY_MS);
  if (leftMs < 60_000) await sleep(leftMs);
});

test('three requests of a user pass and the fourth is refused, without affecting another user', async () => {
  for (const remaining of ['2', '1', '0']) {
    const passed = await get('10000', '/', 'ann');
    expect(passed).toMatchObject({ status: 200, body: 'hello from upstream', limit: '3, 3;w=86400', remaining });
    expect(passed.resetSeconds).toBeGreaterThan(0);
    expect(passed.resetSeconds).toBeLessThanOrEqual(86_400);
  }
  const refused = { status: 429, body: '', limit: '3, 3;w=86400', remaining: '0', limitedBy: 'true' };
  expect(await get('10000', '/', 'ann')).toMatchObject(refused);
  expect(await get('10001', '/', 'ann')).toMatchObject(refused);
  expect(await get('10000', '/', 'bob')).toMatchObject({ status: 200, remaining: '2', limitedBy: null });
});

test('a path has its own limit for all users', async () => {
  expect(await get('10000', '/login', 'cem')).toMatchObject({ status: 200, limit: '1, 3;w=86400, 1;w=86400' });
  expect(await get('10000', '/login', 'dee')).toMatchObject({ status: 429, remaining: '0' });
  expect(await get('10000', '/')).toMatchObject({ status: 200, limit: null });
});

test.each([
  ['20 concurrent requests pass at once and in two turns, and the rest are refused', 'queued', 3],
  ['only the first of 20 concurrent requests passes without max_delay', 'impatient', 1],
])('%s', async (_, user, passing) => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => envoy.get('10001', '/', user)));
  expect(answers.map(({ status }) => status).sort()).toEqual([
    ...Array(passing).fill(200),
    ...Array(20 - passing).fill(429),
  ]);
});

test('a request on the soft part of a limit passes with a header for the client', async () => {
  const answers = [];
  for (let times = 0; times < 3; times++) {
    const { status, headers } = await envoy.get('10000', '/', 'warned');
    answers.push([status, headers.get('x-ratelimit-soft-exceeded'), headers.get('x-ratelimit-remaining')]);
  }
  expect(answers).toEqual([
    [200, null, '0'],
    [200, 'demo.user_warned', '0'],
    [429, null, '0'],
  ]);
});

test('1,500 requests at once are all decided, although Weir answers none until all have arrived', async () => {
  const received = async (): Promise<number> =>
    Number(/: (\d+)/.exec(await envoy.admin('/stats?filter=http.fails_open.downstream_rq_total'))?.[1]);
  const before = await received();
  signal(weir.pid, 'SIGSTOP');
  const answered = driveHttp({
    port: envoy.portOf('10000'),
    connections: 1_500,
    pace: { kind: 'closed', callsInFlight: 1, end: { calls: 1_500 } },
    users: ['gus'],
  });
  try {
    await until('Envoy has received all requests', async () => (await received()) - before === 1_500);
  } finally {
    signal(weir.pid, 'SIGCONT');
  }
  expect((await answered).answers).toEqual({ ADMITTED: 3, REFUSED: 1_497, UNLIMITED: 0, FAILED: 0 });
});

test('without Weir, one listener allows everything and the other nothing, and limits apply again when Weir is back', async () => {
  expect(await weir.stop()).toEqual({ code: 0, signal: null });
  for (let request = 1; request <= 4; request++) {
    expect(await get('10000', '/', 'eve')).toMatchObject({ status: 200, body: 'hello from upstream', limit: null });
    expect(await get('10001', '/', 'eve')).toMatchObject({ status: 500, limit: null });
  }

  weir = await launchWeir(weir);
  await envoy.waitFor(async () => (await get('10001', '/', 'fay')).status === 200); // Envoy reconnects
  const statuses = [];
  for (let request = 1; request <= 4; request++) statuses.push((await get('10000', '/', 'eve')).status);
  expect(statuses).toEqual([200, 200, 200, 429]);
});

const launchWeir = (before?: Weir) =>
  startWeir(before && { GRPC_PORT: String(before.grpcPort) }, { args: ['--rules', join(folder, 'rules.yaml')] });

/** Sends one request through the listener with this port in envoy.yaml. @returns the parts of the answer to check */
async function get(listener: string, path: string, user?: string) {
  const answer = await envoy.get(listener, path, user);
  return {
    status: answer.status,
    body: await answer.text(),
    limit: answer.headers.get('x-ratelimit-limit'),
    remaining: answer.headers.get('x-ratelimit-remaining'),
    resetSeconds: Number(answer.headers.get('x-ratelimit-reset')),
    limitedBy: answer.headers.get('x-envoy-ratelimited'),
  };
}
