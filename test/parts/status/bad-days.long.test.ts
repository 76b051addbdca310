import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { credentials, Client as GrpcClient, status } from '@grpc/grpc-js';
import { Redis as Client } from 'ioredis';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import type { LiveSnapshot } from '../../../src/parts/console/feed.ts';
import type { Status } from '../../../src/parts/status/answers.ts';
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
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5, on_store_failure: error, on_overload: error}}
  - {key: held, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 60s}}
`;

/** How long the proxy before Redis holds its replies. */
let delayMs = 0;
let redis: Redis;
let proxy: TcpProxy;
let weir: Weir;
let rules: string;
beforeEach(async () => {
  delayMs = 0;
  redis = await startRedis();
  proxy = await startTcpProxy(redis.port, ({ client, server }) => {
    client.pipe(server);
    server.on('data', (bytes) => setTimeout(() => client.write(bytes), delayMs));
  });
  const env = {
    ...{ REDIS_URL: `redis://127.0.0.1:${proxy.port}`, STORE_TIMEOUT: '2s', WORKERS: '2' },
    ...{ ADMIN_TOKEN: 'token', AUDIT_LOG: '/dev/full', USE_STATSD: 'false' },
  };
  rules = join(mkdtempSync(join(tmpdir(), 'bad-days-')), 'rules.yaml');
  writeFileSync(rules, RULES);
  weir = await startWeir(env, { args: ['--rules', rules] });
});
afterEach(async () => {
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
  const isOther = /ha(s|ve) been failing since|requests? of .* in the last minute got no decision/; // background work; of one proxy
  const ofService = findings.filter(({ problem }) => !isOther.test(problem));
  for (const { problem } of ofService) expect(situation.text.toLowerCase()).toContain(problem.toLowerCase());
  return status;
}

/** The processes of this service by the time that they started: the control process, then the deciders. */
const processes = (): readonly number[] => childrenOf(weir.pid).toSorted((one, other) => one - other);

const ask = (user: string): Promise<number> => send(weir, 'demo', [['user', user]]);

/** Asks as a proxy that waits for so long. @returns the code of the failure */
const askAsProxy = (value: string, timeoutMs: number, key = 'user'): Promise<number | undefined> =>
  new Promise((resolve) => {
    const options = { 'grpc.use_local_subchannel_pool': 1 };
    const client = new GrpcClient(`127.0.0.1:${weir.grpcPort}`, credentials.createInsecure(), options);
    const { path, requestSerialize, responseDeserialize } = shouldRateLimit;
    const entries = [{ key, value }];
    const descriptors = [{ entries, limit: null, hits_addend: null, is_negative_hits: false }];
    const within = { deadline: Date.now() + timeoutMs };
    const request = { domain: 'demo', descriptors, hits_addend: 1 };
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, within, (error) => {
      client.close();
      resolve(error?.code);
    });
  });

test('a flood is refused, and nothing is wrong', async () => {
  const before = await metric('weir_undecided_total');
  const statuses: number[] = [];
  for (let sent = 0; sent < 40; sent++) statuses.push(await ask('flood'));
  expect(statuses.filter((status) => status === 429)).toHaveLength(35);
  const { health, situation } = await expectSentence(/^35 of 40 requests \(87\.5 %\) of the last minute were refused/);
  expect({ health, level: situation.level }).toEqual({ health: 'healthy', level: 'calm' });
  expect(await metric('weir_undecided_total')).toBe(before);
  expect(await printed()).toMatch(/^requests +40 in the last minute: 5 passed, 35 refused/m);
});

test('a store that answers after 40 ms is slow, in the status, the console and the metrics', async () => {
  delayMs = 40;
  await Promise.all(Array.from({ length: 200 }, (_, at) => ask(`slow-${at}`)));
  const { store, findings, health } = await expectSentence(/^Redis is slow: half of its calls take \d/);
  expect(health).toBe('degraded');
  expect(findings[0]?.advice).toContain('Is the store slow?');
  expect(store.lastMinute?.p99Ms).toBeGreaterThan(25);
  expect(await printed()).toMatch(/^ +p50 and p99: [\d.]+ ms and [\d.]+ ms of the last minute, /m);
});

test('a proxy that waits for less than the store takes is told, with its calls', async () => {
  delayMs = 5_000;
  const codes = await Promise.all(Array.from({ length: 30 }, (_, at) => askAsProxy(`impatient-${at}`, 1_000)));
  for (const code of codes) expect([status.DEADLINE_EXCEEDED, status.UNAVAILABLE]).toContain(code);
  await eventually(async () => (await metric('weir_undecided_total')) === 30);
  await expectSentence(/^30 of \d+ requests \([\d.]+ %\) of the last minute got no decision/);
  delayMs = 0;
});

test('rules that are broken stay out of force, and the sentence names the line', async () => {
  writeFileSync(rules, RULES.replace('unit: minute', 'unit: minit'));
  const { rules: told } = await expectSentence(
    /[Nn]ewer rules are invalid, and the previous ones stay in force: .*rules\.yaml:4/,
  );
  expect(told.pending).toBe('invalid');
  expect(await metric('weir_rules_newest')).toBe(0);
  expect(await printed()).toMatch(/newer rules are invalid/i);
  await eventually(async () => (await readStatus()).incidents.some(({ text }) => text.startsWith('newer rules')));
  writeFileSync(rules, RULES);
  await expectSentence(/[Nn]ewer rules were not in force/);
});

test('an audit log on a full disk refuses changes, and is told', async () => {
  const body = { domain: 'demo', descriptor: [{ key: 'user', value: 'ann' }], reason: 'a test' };
  const headers = { authorization: 'Bearer token' };
  const answer = await fetch(at('/api/v1/counters/reset'), { method: 'POST', headers, body: JSON.stringify(body) });
  expect(answer.status).toBe(503);
  expect((await readStatus()).findings.map(({ problem }) => problem).join()).toMatch(
    /writing the audit log has been failing/,
  );
  expect((await readSnapshot()).situation.text).toMatch(/audit log|other thing/);
  expect(await metric('weir_background_failing{function="audit_log"}')).toBe(1);
  expect(await printed()).toContain('audit_log FAILING');
});

test('a decider that is killed is an incident with the calls it had, which a killed control process does not lose', async () => {
  const hold = () => Array.from({ length: 20 }, (_, at) => askAsProxy(`held-${at}`, 300_000, 'held'));
  await Promise.all(hold()); // these pass, and the next ones are held for a minute
  const calls = hold();
  await eventually(async () => (await metric('weir_calls_in_flight')) >= 20);
  await new Promise((resolve) => setTimeout(resolve, 500)); // until each decider has reported them
  const [control = 0, victim = 0] = processes();
  signal(victim, 'SIGKILL');
  await eventually(async () => (await metric('weir_undecided_total{reason="lost"}')) > 0);
  const left = await metric('weir_calls_in_flight');
  const lost = calls.length - left;
  await expectSentence(
    new RegExp(`[Aa] decider ended with about ${lost} calls? in flight, and was replaced; at \\d{4}-`),
  );
  expect(await metric('weir_undecided_total{reason="lost"}')).toBe(lost);
  expect(await metric('weir_worker_restarts_total')).toBe(1);
  expect(await printed()).toMatch(
    new RegExp(`: a decider ended with about ${lost} calls? in flight, and was replaced$`, 'm'),
  );
  const incidents = async () => (await readStatus()).incidents.map(({ kind, since }) => `${kind} ${since}`);
  const before = await incidents();
  signal(control, 'SIGKILL');
  await weir.waitFor('the control process was replaced');
  expect(await incidents()).toEqual(expect.arrayContaining([...before]));
  await weir.stop();
  const failed = (await Promise.all(calls)).filter((code) => code !== undefined);
  expect(failed.length).toBeGreaterThanOrEqual(lost);
});

test('an outage has the requests that arrive while no control process runs', async () => {
  await eventually(async () => (await ask('ann')) === 200);
  await redis.stop();
  let lost = 0;
  const loseSome = async (): Promise<void> => {
    for (let request = 0; request < 20; request++) if ((await ask(`u${lost}-${request}`)) === 400) lost++;
  };
  await loseSome();
  await eventually(async () => (await readStatus()).incidents[0]?.undecided === lost);
  const [control = 0] = processes();
  signal(control, 'SIGKILL');
  await loseSome();
  await weir.waitFor('the control process was replaced');
  await eventually(async () => (await readStatus()).incidents[0]?.undecided === lost);
});

test('a store that is full is told: requests are decided without their counters, or not at all', async () => {
  const operator = new Client(redis.port);
  await operator.config('SET', 'maxmemory', '1');
  const before = await metric('weir_undecided_total{reason="store"}');
  const statuses = await Promise.all(Array.from({ length: 10 }, (_, at) => ask(`full-${at}`)));
  const lost = statuses.filter((status) => status === 400).length;
  expect(lost).toBeGreaterThan(0);
  await eventually(async () => (await metric('weir_undecided_total{reason="store"}')) - before === lost);
  await expectSentence(/requests \([\d.]+ %\) of the last minute got no decision/);
  await operator.config('SET', 'maxmemory', '0');
  operator.disconnect();
});

test('requests that a killed store left undecided are counted, told first, and still told once it is back', async () => {
  await eventually(async () => (await ask('ann')) === 200);
  await redis.stop();
  const undecidedBefore = await metric('weir_undecided_total');
  let lost = 0;
  for (let request = 0; request < 40; request++) if ((await ask(`u${request}`)) === 400) lost++; // as envoyproxy/ratelimit answers a failure
  expect(lost).toBeGreaterThan(0);
  await eventually(async () => (await metric('weir_undecided_total')) - undecidedBefore === lost);
  const { health, lastMinute } = await expectSentence(
    /^\d+ of \d+ requests \([\d.]+ %\) of the last minute got no decision.*; the store has not answered since/,
  );
  expect(health).toBe('failing');
  expect(lastMinute.undecided).toBeGreaterThanOrEqual(lost);
  const { passed, refused, degraded, undecided } = lastMinute;
  expect(lastMinute.offered).toBe(passed + refused + degraded + undecided);
  expect((await printed()).match(/check it, and the network to it/g)).toHaveLength(1); // what helps is said once
  await redis.restart();
  await eventually(async () => (await readStatus()).incidents.some(({ kind, until }) => kind === 'outage' && until));
  const [outage] = (await readStatus()).incidents.filter(({ kind }) => kind === 'outage');
  expect(outage?.undecided).toBeGreaterThanOrEqual(lost);
  expect(outage?.text).toMatch(/^Redis was away, and /);
  expect((await readStatus()).situation.text).toMatch(/Redis was away/);
});
