import '../../helpers/realm.ts';
import { signal } from '../../helpers/child-processes.ts';
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
  ofUser,
  onRedis,
  RULES,
  rules,
  STOPPED_MS,
  service,
  untilReplaced,
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
