import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Status } from '../../../src/operate/answers/status.ts';
import type { LiveSnapshot } from '../../../src/operate/console/live.ts';
import { childrenOf, signal } from '../../helpers/child-processes.ts';
import { send } from '../../helpers/console.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startTcpProxy, type TcpProxy } from '../../helpers/tcp-proxy.ts';
import { eventually } from '../../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

// Bad days with real processes: the console, the status, the metrics of alerts and the findings tell what the test knows.

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5, on_store_failure: error}}
`;

/** How long the proxy before Redis holds its replies. */
let delayMs = 0;
let redis: Redis;
let proxy: TcpProxy;
let weir: Weir;
beforeAll(async () => {
  redis = await startRedis();
  proxy = await startTcpProxy(redis.port, ({ client, server }) => {
    client.pipe(server);
    server.on('data', (bytes) => setTimeout(() => client.write(bytes), delayMs));
  });
  const env = {
    REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
    STORE_TIMEOUT: '500ms',
    WORKERS: '2',
    USE_STATSD: 'false',
  };
  const rules = join(mkdtempSync(join(tmpdir(), 'bad-days-')), 'rules.yaml');
  writeFileSync(rules, RULES);
  weir = await startWeir(env, { args: ['--rules', rules] });
});
afterAll(async () => {
  await weir.stop();
  await proxy.close();
  await redis.stop();
});

const at = (path: string): string => `http://127.0.0.1:${weir.debugPort}${path}`;
const readStatus = async (): Promise<Status> => (await (await fetch(at('/api/v1/status'))).json()) as Status;

/** What `weir status` prints. */
const printed = (): Promise<string> =>
  promisify(execFile)(process.execPath, [MAIN, 'status', '--target', `localhost:${weir.debugPort}`]).then(
    ({ stdout }) => stdout,
    ({ stdout }: { readonly stdout: string }) => stdout,
  );

/** The next snapshot that the console receives. */
async function readSnapshot(): Promise<LiveSnapshot> {
  const stop = new AbortController();
  const { body } = await fetch(at('/api/v1/events'), { signal: stop.signal });
  let text = '';
  try {
    for await (const bytes of body ?? []) {
      text += Buffer.from(bytes).toString();
      const [, data] = /^data: (.*)\n\n/m.exec(text) ?? [];
      if (data !== undefined) return JSON.parse(data) as LiveSnapshot;
    }
  } finally {
    stop.abort();
  }
  throw new Error('the stream has ended');
}

async function metric(name: string): Promise<number> {
  const lines = (await (await fetch(at('/metrics'))).text()).split('\n').filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

/** Waits for a sentence in the status; the console has the same one, and each finding of it. */
async function expectSentence(pattern: RegExp): Promise<Status> {
  let status = await readStatus();
  await eventually(
    async () => {
      status = await readStatus();
      return pattern.test(status.situation.text);
    },
    () => `${status.situation.text} does not match ${pattern}`,
  );
  const { situation, findings } = await readSnapshot();
  expect(situation.text).toMatch(pattern);
  const ofService = findings.filter(({ problem }) => !problem.includes('has been failing since')); // background work
  for (const { problem } of ofService) expect(situation.text.toLowerCase()).toContain(problem.toLowerCase());
  return status;
}

test('a store that answers after 40 ms is slow, in the status, the console and the metrics', async () => {
  delayMs = 40;
  const { store, findings, health } = await expectSentence(/^Redis is slow: half of its calls take \d/);
  expect(health).toBe('degraded');
  expect(findings[0]?.advice).toContain('Is the store slow?');
  expect(store.lastMinute?.p99Ms).toBeGreaterThan(25);
  expect(await printed()).toMatch(/^ +p50 and p99: [\d.]+ ms and [\d.]+ ms of the last minute, /m);
  delayMs = 0;
});

test('a decider that is killed is an incident, although its successor answers', async () => {
  const [victim = 0] = childrenOf(weir.pid).slice(-1);
  signal(victim, 'SIGKILL');
  await expectSentence(/[Aa] decider ended, and was replaced; at \d{4}-/);
  expect(await metric('weir_worker_restarts_total')).toBe(1);
  expect(await printed()).toMatch(/^incidents .*: a decider ended, and was replaced$/m);
});

test('requests that a killed store left undecided are counted, told first, and still told once it is back', async () => {
  await eventually(async () => (await send(weir, 'demo', [['user', 'ann']])) === 200);
  await redis.stop();
  const undecidedBefore = await metric('weir_undecided_total');
  let lost = 0;
  for (let request = 0; request < 40; request++)
    if ((await send(weir, 'demo', [['user', `u${request}`]])) === 400) lost++; // as envoyproxy/ratelimit answers a failure
  expect(lost).toBeGreaterThan(0);
  await eventually(async () => (await metric('weir_undecided_total')) - undecidedBefore === lost);
  const pattern = new RegExp(
    `^${lost} of \\d+ requests \\([\\d.]+ %\\) of the last minute got no decision.*; the store has not answered since`,
  );
  const { health, lastMinute } = await expectSentence(pattern);
  expect({ health, undecided: lastMinute.undecided }).toEqual({ health: 'failing', undecided: lost });
  const { passed, refused, degraded, undecided } = lastMinute;
  expect(lastMinute.offered).toBe(passed + refused + degraded + undecided);
  expect((await printed()).match(/check it, and the network to it/g)).toHaveLength(1); // what helps is said once
  await redis.restart();
  await eventually(async () => (await readStatus()).incidents.some(({ kind, until }) => kind === 'outage' && until));
  const [outage] = (await readStatus()).incidents.filter(({ kind }) => kind === 'outage');
  expect(outage).toMatchObject({ undecided: lost, text: expect.stringMatching(/^Redis was away, and /) });
  expect((await readStatus()).situation.text).toMatch(/: Redis was away, and answers again/);
});
