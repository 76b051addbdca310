import '../../helpers/realm.ts';
import { childrenOf, signal } from '../../helpers/child-processes.ts';
import { until } from '../../helpers/until.ts';
import {
  block,
  client,
  controlOf,
  isBlocked,
  isRunning,
  LIMIT,
  OK,
  onRedis,
  queued,
  rules,
  samples,
  service,
  workersOf,
} from './controlled.ts';

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
