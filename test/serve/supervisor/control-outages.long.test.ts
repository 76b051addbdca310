import '../../helpers/realm.ts';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { signal } from '../../helpers/child-processes.ts';
import { startControlPlane } from '../../helpers/control-plane.ts';
import type { GrpcClient } from '../../helpers/grpc-client.ts';
import { until } from '../../helpers/until.ts';
import {
  api,
  BLOCKED,
  block,
  client,
  controlOf,
  expectCounted,
  isBlocked,
  LIMIT,
  load,
  OK,
  onRedis,
  page,
  RULES,
  rules,
  service,
  stops,
  untilReplaced,
  workersOf,
} from './controlled.ts';

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
