import '../../helpers/realm.ts';
import { childrenOf, signal } from '../../helpers/child-processes.ts';
import { until } from '../../helpers/until.ts';
import {
  api,
  BLOCKED,
  block,
  client,
  controlOf,
  expectCounted,
  isBlocked,
  isRunning,
  LIMIT,
  load,
  OK,
  ofUser,
  onRedis,
  queued,
  RULES,
  rules,
  STOPPED_MS,
  samples,
  service,
  untilReplaced,
  workersOf,
} from './controlled.ts';

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

test('a stopped control process delays no call, and counts all when it continues, or after it has been killed', async () => {
  const weir = await service({});
  const calls = load(weir);
  await calls.more();
  const control = controlOf(weir);
  signal(control, 'SIGSTOP');
  const fromMs = performance.now();
  while (performance.now() < fromMs + STOPPED_MS) await calls.more();
  signal(control, 'SIGCONT');
  await expectCounted(weir, (await calls.end()).calls);
  expect(controlOf(weir)).toBe(control);

  const others = load(weir);
  await others.more();
  signal(control, 'SIGSTOP');
  await others.more();
  signal(control, 'SIGKILL'); // as the supervisor does after half a minute
  await untilReplaced(weir);
  const [before, after] = [await calls.end(), await others.end()];
  expect(before.passed + after.passed).toBe(LIMIT);
  await expectCounted(weir, before.calls + after.calls);
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

test('the control process and workers end when the supervisor is killed', async () => {
  const weir = await service(onRedis(2));
  const children = childrenOf(weir.pid);
  expect(children).toContain(controlOf(weir));
  signal(weir.pid, 'SIGKILL');
  await until('no children', () => !children.some(isRunning));
});
