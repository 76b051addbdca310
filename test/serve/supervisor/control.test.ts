import '../../helpers/realm.ts';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf, signal } from '../../helpers/child-processes.ts';
import { startControlPlane } from '../../helpers/control-plane.ts';
import { parseExposition } from '../../helpers/exposition.ts';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const OK = 1;
const LIMIT = 50;
const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: ${LIMIT}, alignment: first_hit}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 10s}}
`;
const USER = 'weir_hits_total{domain="demo",rule="user",algorithm="fixed_window"}';
/** More calls than a service with a fault that shows under load answers without showing it. */
const MORE_CALLS = 200;
/** The pause between two calls of a connection, in which the processes do what is tested. */
const PAUSE_MS = 2;
/** Longer than the control process waits for a report, and the supervisor for files. */
const STOPPED_MS = 3_000;

let redis: Redis;
let folder: string;
let stops: (() => unknown)[];

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'control-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  await redis.restart();
});

const rules = (text: string): void => writeFileSync(join(folder, 'rules.yaml'), text);

async function service(env: Readonly<Record<string, string>>, args = ['--rules', join(folder, 'rules.yaml')]) {
  const weir = await startWeir({ LOG_LEVEL: 'info', USE_STATSD: 'false', ADMIN_TOKEN: 'token', ...env }, { args });
  stops.push(weir.stop);
  return weir;
}

const onRedis = (workers: number) => ({ WORKERS: String(workers), REDIS_URL: redis.url });
const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return ''; // it has ended
  }
};
const controlsOf = ({ pid }: Weir): readonly number[] =>
  childrenOf(pid).filter((child) => commandOf(child).includes('control-process'));

function controlOf(weir: Weir): number {
  const [control] = controlsOf(weir);
  if (control === undefined) throw new Error(`expected a control process; the output:\n${weir.output()}`);
  return control;
}

const workersOf = ({ output }: Weir): readonly number[] =>
  Array.from(output().matchAll(/worker \d+ \(process (\d+)\) is listening/g), ([, pid]) => Number(pid));

const isRunning = (pid: number): boolean => !['', undefined].includes(commandOf(pid));

function client({ grpcPort }: Weir): GrpcClient {
  const made = createClient(`127.0.0.1:${grpcPort}`);
  stops.push(made.close);
  return made;
}

const ofUser = (value: string) => ({
  domain: 'demo',
  descriptors: [{ entries: [{ key: 'user', value }], limit: null, hits_addend: null, is_negative_hits: false }],
  hits_addend: 1,
});
const queued = {
  ...ofUser('1'),
  descriptors: [{ entries: [{ key: 'queue', value: '1' }], limit: null, hits_addend: null, is_negative_hits: false }],
};

/** Calls in a loop over four connections, one after another on each. A call that fails makes `end` reject. */
function load(weir: Weir) {
  let isOver = false;
  const done = { calls: 0, passed: 0 };
  const loops = Promise.all(
    Array.from({ length: 4 }, async () => {
      const { ask } = client(weir);
      while (!isOver) {
        if ((await ask()).overall_code === OK) done.passed++;
        done.calls++;
        await sleep(PAUSE_MS);
      }
    }),
  );
  loops.catch(() => {}); // `end` reports it
  return {
    /** Waits for further calls. */
    async more(calls = MORE_CALLS) {
      const from = done.calls;
      await Promise.race([loops, until('further calls', () => done.calls >= from + calls)]);
    },
    async end() {
      isOver = true;
      await loops;
      return done;
    },
  };
}

const page = async ({ debugPort }: Weir, path: string): Promise<string> =>
  (await fetch(`http://127.0.0.1:${debugPort}${path}`)).text();

/** The samples of /metrics by series; none while there is no control process. */
async function samples(weir: Weir): Promise<ReadonlyMap<string, number>> {
  const text = await page(weir, '/metrics').catch(() => '\n');
  return new Map([...parseExposition(text).values()].flatMap((metric) => [...metric.samples]));
}

/** Waits until the statistics contain these calls, each with one hit, and no others. */
async function expectCounted(weir: Weir, calls: number): Promise<void> {
  await until(`${calls} hits`, async () => ((await samples(weir)).get(USER) ?? 0) >= calls);
  const counted = await samples(weir);
  expect(counted.get(USER)).toBe(calls);
  const answers = [...counted].filter(([series]) => series.startsWith('weir_answers_total'));
  expect(answers.reduce((sum, [, count]) => sum + count, 0)).toBe(calls);
}

async function api({ debugPort }: Weir, method: string, body?: object) {
  const url = `http://127.0.0.1:${debugPort}/api/v1/overrides`;
  const headers = { authorization: 'Bearer token' };
  const answer = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  expect(answer.status).toBe(200);
  return answer.json();
}

const BLOCKED = { domain: 'demo', descriptor: [{ key: 'user', value: 'eve' }] };
const block = (weir: Weir) =>
  api(weir, 'PUT', {
    ...BLOCKED,
    ...{ effect: 'block', until: new Date(Date.now() + 3_600_000).toISOString(), reason: 'abuse' },
  });
const isBlocked = async (one: GrpcClient): Promise<boolean> => (await one.send(ofUser('eve'))).overall_code !== OK;

const untilReplaced = (weir: Weir): Promise<void> => weir.waitFor('the control process was replaced');

test.each([
  ['one decider, in memory', () => ({})],
  ['two workers, on Redis', () => onRedis(2)],
])('calls, counts, limits and overrides outlive a killed control process: %s', async (_, env) => {
  const weir = await service(env());
  await block(weir);
  const calls = load(weir);
  await calls.more();
  signal(controlOf(weir), 'SIGKILL');
  await weir.waitFor('control process exited (SIGKILL); restarting in');
  await calls.more();
  await untilReplaced(weir);
  await calls.more();
  const done = await calls.end();
  expect(done.passed).toBe(LIMIT);
  await expectCounted(weir, done.calls);

  expect(await isBlocked(client(weir))).toBe(true);
  expect(await api(weir, 'GET')).toMatchObject({ overrides: [{ descriptor: 'user=eve', effect: 'block' }] });
  await api(weir, 'DELETE', { ...BLOCKED, reason: 'over' });
  expect(await isBlocked(client(weir))).toBe(false);
  rules(RULES.replace(`requests_per_unit: ${LIMIT}`, 'requests_per_unit: 7'));
  const one = client(weir);
  await until('the changed rule', async () => {
    const [status] = (await one.send(ofUser('ann'))).statuses;
    return status?.current_limit?.requests_per_unit === 7;
  });
});

test('a stopped control process delays no call, and counts all afterwards', async () => {
  const weir = await service({});
  const calls = load(weir);
  await calls.more();
  const control = controlOf(weir);
  signal(control, 'SIGSTOP');
  const fromMs = performance.now();
  while (performance.now() < fromMs + STOPPED_MS) await calls.more();
  signal(control, 'SIGCONT');
  const done = await calls.end();
  expect(done.passed).toBe(LIMIT);
  await expectCounted(weir, done.calls);
  expect(controlOf(weir)).toBe(control);
});

test('a control process that hangs, and is killed as the supervisor does after half a minute, counts all calls', async () => {
  const weir = await service({});
  const calls = load(weir);
  await calls.more();
  const control = controlOf(weir);
  signal(control, 'SIGSTOP');
  await calls.more();
  signal(control, 'SIGKILL');
  await untilReplaced(weir);
  const done = await calls.end();
  expect(done.passed).toBe(LIMIT);
  await expectCounted(weir, done.calls);
  expect(controlOf(weir)).not.toBe(control);
});

test.each(['SIGSTOP', 'SIGKILL'] as const)(
  'killed workers are replaced with the rules and overrides in force after %s of the control process',
  async (how) => {
    const weir = await service(onRedis(2));
    await block(weir);
    rules('domain: [\n');
    await weir.waitFor('error loading config file');
    const control = controlOf(weir);
    signal(control, how);
    if (how === 'SIGKILL') await weir.waitFor('control process cannot start: ');
    for (const worker of workersOf(weir)) signal(worker, 'SIGKILL');
    await until('two more workers', () => workersOf(weir).length === 4);
    for (const one of Array.from({ length: 6 }, () => client(weir))) {
      expect((await one.ask()).statuses[0]?.current_limit).toMatchObject({ requests_per_unit: LIMIT });
      expect(await isBlocked(one)).toBe(true);
    }
    signal(control, 'SIGCONT');
  },
);

test('workers have the rules of a control plane that is down, after the control process has been replaced', async () => {
  const controlPlane = await startControlPlane();
  const source = { CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${controlPlane.port}` };
  const weir = await service({ ...onRedis(2), ...source }, []);
  const limit = { unit: 'DAY', requests_per_unit: 7 };
  await controlPlane.serve('v1', [{ name: 'r', domain: 'demo', descriptors: [{ key: 'user', rate_limit: limit }] }]);
  const hasRule = async (one: GrpcClient) => (await one.ask()).statuses[0]?.current_limit?.requests_per_unit === 7;
  for (const one of [client(weir), client(weir)]) await until('the rule', () => hasRule(one));
  expect(controlPlane.streamCount()).toBe(1);
  controlPlane.stop();
  signal(controlOf(weir), 'SIGKILL');
  await untilReplaced(weir);
  for (const worker of workersOf(weir)) signal(worker, 'SIGKILL');
  await until('two more workers', () => workersOf(weir).length === 4);
  for (const one of Array.from({ length: 4 }, () => client(weir))) expect(await hasRule(one)).toBe(true);
});

test('an override removed on another instance while there was no control process ends', async () => {
  const [weir, other] = [await service(onRedis(1)), await service(onRedis(1))];
  await block(weir);
  const one = client(weir);
  rules('domain: [\n');
  signal(controlOf(weir), 'SIGKILL');
  await weir.waitFor('control process cannot start: ');
  await api(other, 'DELETE', { ...BLOCKED, reason: 'over' });
  expect(await isBlocked(one)).toBe(true);
  rules(RULES);
  await until('the end of the override', async () => !(await isBlocked(one)));
});

test('counts that a hanging worker sends late, for a control process that was killed, count once', async () => {
  const weir = await service(onRedis(2));
  const calls = load(weir);
  await calls.more();
  const done = await calls.end();
  const [worker = 0] = workersOf(weir);
  signal(worker, 'SIGSTOP'); // before it has reported its last counts
  await page(weir, '/stats'); // asks for a report, and waits in vain
  signal(controlOf(weir), 'SIGKILL');
  await untilReplaced(weir);
  signal(worker, 'SIGCONT');
  await expectCounted(weir, done.calls);
});

test('SIGTERM with a stopped control process ends the service after its calls, and no process is left', async () => {
  const weir = await service(onRedis(2));
  const children = childrenOf(weir.pid);
  const [one, other] = [client(weir), client(weir)];
  await one.send(queued);
  const held = other.send(queued);
  const counted = 'weir_hits_total{domain="demo",rule="queue",algorithm="leaky_bucket"}';
  await until('both hits', async () => (await samples(weir)).get(counted) === 2);
  signal(controlOf(weir), 'SIGSTOP');
  signal(weir.pid, 'SIGTERM');
  expect(await held).toMatchObject({ overall_code: OK });
  expect(await weir.exited).toEqual({ code: 0, signal: null });
  expect(children.filter(isRunning)).toEqual([]);
});

test('a control process that cannot start is retried, and calls are answered meanwhile', async () => {
  const weir = await service({});
  const calls = load(weir);
  rules('domain: [\n');
  await weir.waitFor('error loading config file');
  signal(controlOf(weir), 'SIGKILL');
  await weir.waitFor((printed) => /control process cannot start: .*rules\.yaml/.test(printed));
  await weir.waitFor('control process exited (exit code 1); restarting in 400 ms');
  await calls.more();
  rules(RULES);
  await untilReplaced(weir);
  const done = await calls.end();
  expect(done.passed).toBe(LIMIT);
  await expectCounted(weir, done.calls);
});

test('the control process and workers end when the supervisor is killed', async () => {
  const weir = await service(onRedis(2));
  const children = childrenOf(weir.pid);
  expect(children).toContain(controlOf(weir));
  signal(weir.pid, 'SIGKILL');
  await until('no children', () => !children.some(isRunning));
});

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
const testLimited = hasPrlimit ? test : test.skip;
const skipped = hasPrlimit ? '' : ' (skipped: no prlimit of util-linux here)';

/** Sets the soft limit of open files of a running process. */
const limitFiles = (pid: number, most: number): void => {
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${most}:`]);
};

testLimited(`silent connections to the debug port beyond its open files fail no call${skipped}`, async () => {
  const weir = await service({});
  limitFiles(controlOf(weir), 1_000);
  const calls = load(weir);
  const sockets = Array.from({ length: 1_500 }, () => connect(weir.debugPort, '127.0.0.1').on('error', () => {}));
  stops.push(() => sockets.forEach((socket) => void socket.destroy()));
  await Promise.all(sockets.map((socket) => socket.connecting && once(socket, 'connect')));
  await calls.more();
  for (const socket of sockets) socket.destroy();
  const done = await calls.end();
  expect(done.passed).toBe(LIMIT);
  await expectCounted(weir, done.calls);
});

testLimited(
  `a supervisor without a free file descriptor replaces the control process and a worker when it has one${skipped}`,
  async () => {
    const weir = await service(onRedis(2));
    const STANDARD_STREAMS = 3;
    const { ask } = client(weir);
    await ask();
    const [first] = workersOf(weir);
    limitFiles(weir.pid, STANDARD_STREAMS);
    signal(controlOf(weir), 'SIGKILL');
    signal(first ?? 0, 'SIGKILL');
    await weir.waitFor((printed) => /control process exited \(no process: .*EMFILE.*\); restarting in/.test(printed));
    await weir.waitFor((printed) => /worker \d+ exited \(no process: spawn .*EMFILE\); restarting in/.test(printed));
    limitFiles(weir.pid, 1_000);
    await untilReplaced(weir);
    await until('the worker is replaced', () => workersOf(weir).length === 3);
    expect(await client(weir).ask()).toMatchObject({ overall_code: OK });
    expect(await weir.stop()).toEqual({ code: 0, signal: null });
  },
);
